"""Plots as SVG, by matplotlib. Text stays text, so that a page is small and can be searched."""

import re
from collections.abc import Sequence
from io import StringIO
from typing import Any

import matplotlib
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from load.progress import number
from load.report.plots import Plot, PlotLine

#: Distinct also for those who do not see all colours (Okabe and Ito).
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A6D00")
_METADATA = re.compile(r" *<metadata>.*?</metadata>\n?", re.DOTALL)
_INK, _GREY = "#222222", "#d8d8d8"
_STYLE = {
    "svg.fonttype": "none",
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": "#888888",
    "axes.labelcolor": _INK,
    "text.color": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
}


def svg(plot: Plot, known: Sequence[str] = ()) -> str:
    """The plot as an ``<svg>`` element. `known` groups have the same colour in every plot that is given them."""
    with matplotlib.rc_context({**_STYLE, "svg.hashsalt": plot.title}):
        canvas = Canvas(figsize=(9.6, 4.2), layout="constrained")
        axes = canvas.add_subplot()
        groups = list(dict.fromkeys([*known, *(_group(line) for line in plot.lines)]))
        for line in plot.lines:
            _draw(axes, plot, line, _COLOURS[groups.index(_group(line)) % len(_COLOURS)])
        _set_axes(axes, plot)
        _mark(axes, plot)
        if len(plot.lines) > 1 or (plot.lines and plot.lines[0].name):
            _add_legend(axes, plot)
        written = StringIO()
        canvas.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    text = written.getvalue()
    return _METADATA.sub("", text[text.index("<svg") :])


def _group(line: PlotLine) -> str:
    return line.group or line.name


def _draw(axes: Any, plot: Plot, line: PlotLine, colour: str) -> None:
    look: dict[str, Any] = {"color": colour, "label": line.name, "linewidth": 1.8}
    look["linestyle"] = "--" if line.dashed else "-"
    if len(line.x) <= 30:
        look |= {"marker": "o", "markersize": 4}
    match plot.drawn:
        case "step":
            axes.step(line.x, line.y, where="post", **look)
        case "points":
            axes.plot(line.x, line.y, **{**look, "linestyle": "none", "marker": "o", "markersize": 4})
        case "line":
            axes.plot(line.x, line.y, **look)


def _set_axes(axes: Any, plot: Plot) -> None:
    axes.set_xlabel(plot.x_label)
    axes.set_ylabel(plot.y_label)
    axes.grid(visible=True, color=_GREY, linewidth=0.6)
    axes.set_axisbelow(True)
    for side in ("top", "right"):
        axes.spines[side].set_visible(False)
    axes.set_xscale(plot.x_scale)
    axes.set_yscale(plot.y_scale)
    for axis, scale in ((axes.xaxis, plot.x_scale), (axes.yaxis, plot.y_scale)):
        axis.set_major_formatter(FuncFormatter(lambda value, _: number(value)))
        if scale == "log":
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0), numticks=12))
            axis.set_minor_formatter(NullFormatter())
    bottom, top = plot.y_range
    axes.set_ylim(bottom=bottom, top=top)


def _mark(axes: Any, plot: Plot) -> None:
    for x, what in plot.marks:
        axes.axvline(x, color="#777777", linewidth=1, linestyle="--")
        axes.annotate(
            what,
            (x, 1),
            xycoords=("data", "axes fraction"),
            xytext=(4, -4),
            textcoords="offset points",
            va="top",
            fontsize=9,
            color="#555555",
        )
    for y in plot.marks_y:
        axes.axhline(y, color="#777777", linewidth=1, linestyle="--")


def _add_legend(axes: Any, plot: Plot) -> None:
    """Above the plot, where it hides nothing."""
    longest = max(len(line.name) for line in plot.lines)
    columns = max(1, min(len(plot.lines), 110 // (longest + 8)))
    axes.figure.legend(loc="outside upper left", ncols=columns, frameon=False, fontsize=9)
