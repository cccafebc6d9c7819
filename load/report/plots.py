"""Plots of a report, as data; `html` draws them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class PlotLine:
    """One line of a plot: points in order."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    #: Lines of one group have one colour; alone if empty.
    group: str = ""
    dashed: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """Lines over common axes, with what to see in them."""

    title: str
    x_label: str
    y_label: str
    lines: Sequence[PlotLine]
    #: What a reader should look at.
    caption: str = ""
    x_scale: Literal["linear", "log"] = "linear"
    y_scale: Literal["linear", "log"] = "linear"
    #: Vertical marks: where, and what happened there.
    marks: Sequence[tuple[float, str]] = ()
    #: Horizontal marks.
    marks_y: Sequence[float] = ()
    #: The ends of the vertical axis; None: as the values have it.
    y_range: tuple[float | None, float | None] = (None, None)
    drawn: Literal["line", "step", "points"] = "line"


@dataclass(frozen=True, slots=True)
class ReportTable:
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
