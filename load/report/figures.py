"""Results of benchmarks: figures, as a table for people and as JSON for machines."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import median

from rich.console import Console
from rich.table import Table
from rich.text import Text

from load.progress import number


@dataclass(frozen=True, slots=True)
class Measurement:
    """Several measurements of one thing: the middle one and the extremes."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Measurement":
        return cls(median(values), min(values), max(values))


@dataclass(frozen=True, slots=True)
class Figure:
    """One result. A ratio compares two sides measured in the same run, in turns."""

    bench: str
    name: str
    value: Measurement
    unit: str
    #: What it should be, and on which side of it is good; None: only reported.
    goal: float | None = None
    more_is_better: bool = True
    #: How it was measured, and the rates behind a ratio.
    detail: str = ""

    @property
    def reached(self) -> bool | None:
        """True if the median is as good as the goal."""
        if self.goal is None:
            return None
        return self.value.median >= self.goal if self.more_is_better else self.value.median <= self.goal


@dataclass(frozen=True, slots=True)
class Skipped:
    """A benchmark, or a side of one, that could not run here."""

    bench: str
    reason: str


Result = Figure | Skipped


def show(console: Console, results: Sequence[Result], conditions: str) -> None:
    table = Table(title="Found", title_justify="left", caption=conditions, caption_justify="left")
    table.add_column("what, and how")
    for heading in ("median", "low … high", "goal"):
        table.add_column(heading, justify="right", no_wrap=True)
    for result in results:
        if isinstance(result, Skipped):
            table.add_row(_what(result.bench, result.reason), "[yellow]skipped", "", "")
            continue
        colour = {True: "green", False: "red", None: "white"}[result.reached]
        goal = "" if result.goal is None else f"{'≥' if result.more_is_better else '≤'} {number(result.goal)}"
        table.add_row(
            _what(result.name, result.detail),
            f"[{colour}]{number(result.value.median)} {result.unit}",
            f"{number(result.value.low)} … {number(result.value.high)}",
            goal,
        )
    console.print(table)


def _what(name: str, how: str) -> Text:
    return Text.assemble((name, "bold"), (f"\n{how}" if how else "", "dim"))


def to_json(results: Sequence[Result], conditions: str) -> str:
    figures = [{**asdict(r), "reached": r.reached} for r in results if isinstance(r, Figure)]
    skipped = [asdict(r) for r in results if isinstance(r, Skipped)]
    return json.dumps({"conditions": conditions, "figures": figures, "skipped": skipped}, indent=2, ensure_ascii=False)
