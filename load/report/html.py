"""A report as one self-contained page of HTML: no network, no scripts, plots inline."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from load.progress import number
from load.report.figures import Figure
from load.report.plots import Plot
from load.report.report import Report
from load.report.runs import plots_of_runs, table_of_pages, table_of_runs
from load.report.svg import svg

_TEMPLATES = Environment(
    loader=FileSystemLoader(Path(__file__).parent),
    autoescape=True,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
_TEMPLATES.filters["number"] = number


def page(report: Report, conditions: str) -> str:
    plots = [*report.plots, *plots_of_runs(report.outcomes)]
    sides = list(dict.fromkeys(run.side for run in report.outcomes))
    failures = [(run.side, run.offered_per_s, run.failures) for run in report.outcomes if run.failures]
    text: str = _TEMPLATES.get_template("report.html.jinja").render(
        report=report,
        conditions=conditions,
        figures=[result for result in report.results if isinstance(result, Figure)],
        skipped=[result for result in report.results if not isinstance(result, Figure)],
        runs=table_of_runs(report.outcomes) if report.outcomes else None,
        pages=table_of_pages(report.outcomes),
        plots=[_drawn(plot, sides) for plot in plots],
        failures=failures,
    )
    return text


def _drawn(plot: Plot, sides: Sequence[str]) -> dict[str, Any]:
    # The drawing is ours and escaped by matplotlib.
    return {"title": plot.title, "caption": plot.caption, "svg": Markup(svg(plot, sides))}
