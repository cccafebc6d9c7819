"""Plots as SVG, written by hand: lines over two axes, for a page that needs nothing else.

*Invariants*: all text is escaped. The same plot is the same text.

Not here: the page (`page`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, log10

#: Distinct also for those who do not see all colours (Okabe and Ito).
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000", "#8A6D00")
_WIDTH, _HEIGHT = 680.0, 300.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 62.0, 16.0, 30.0, 46.0
_CHARACTER = 6.6


@dataclass(frozen=True, slots=True)
class Line:
    """Points in order."""

    name: str
    points: Sequence[tuple[float, float]]
    dashed: bool = False
    dots: bool = False


@dataclass(frozen=True, slots=True)
class Plot:
    """`marks`: vertical lines, with what they are. `label`: writes the numbers of each axis."""

    x_label: str
    y_label: str
    lines: Sequence[Line]
    x_text: Callable[[float], str]
    y_text: Callable[[float], str]
    x_log: bool = False
    y_log: bool = False
    y_range: tuple[float, float] | None = None
    marks: Sequence[tuple[float, str]] = ()


class _Axis:
    """From values to places. *State*: the ends, and where they are."""

    def __init__(
        self, values: Sequence[float], ends: tuple[float, float], log: bool, given: tuple[float, float] | None
    ):
        usable = [value for value in values if value > 0] if log else list(values)
        low, high = given or (min(usable, default=1.0), max(usable, default=2.0))
        if not log and given is None:
            low = min(0.0, low)
        if high <= low:
            high = low * 2 if low > 0 else low + 1
        self.low, self.high, self.log = low, high, log
        self._ends = ends

    def place(self, value: float) -> float:
        """Where a value is."""
        low, high, at = self.low, self.high, value
        if self.log:
            low, high, at = log10(low), log10(high), log10(max(value, self.low))
        part = min(1.0, max(0.0, (at - low) / (high - low)))
        return self._ends[0] + part * (self._ends[1] - self._ends[0])

    def ticks(self) -> list[float]:
        """Round values between the ends."""
        if self.log:
            decades = range(floor(log10(self.low)), ceil(log10(self.high)) + 1)
            steps = (1, 2, 5) if len(decades) < 4 else (1,)
            return [step * 10.0**n for n in decades for step in steps if self.low <= step * 10.0**n <= self.high]
        raw = (self.high - self.low) / 5
        size = 10.0 ** floor(log10(raw))
        step = next(size * n for n in (1, 2, 5, 10) if size * n >= raw)
        first = ceil(self.low / step - 1e-9)
        return [step * n for n in range(first, floor(self.high / step + 1e-9) + 1)]


def svg(plot: Plot) -> str:
    """The plot."""
    points = [point for line in plot.lines for point in line.points]
    x = _Axis([p[0] for p in points] + [m[0] for m in plot.marks], (_LEFT, _WIDTH - _RIGHT), plot.x_log, None)
    y = _Axis([p[1] for p in points], (_HEIGHT - _BOTTOM, _TOP), plot.y_log, plot.y_range)
    parts = [
        f'<svg viewBox="0 0 {_WIDTH:.0f} {_HEIGHT:.0f}" role="img" aria-label="{escape(plot.y_label)} over'
        f' {escape(plot.x_label)}">',
        *_grid(plot, x, y),
        *(_mark(x.place(at), name) for at, name in plot.marks),
    ]
    for number, line in enumerate(plot.lines):
        parts += _drawn(line, x, y, COLOURS[number % len(COLOURS)])
    return "".join([*parts, *_legend(plot.lines), "</svg>"])


def _text(x: float, y: float, text: str, anchor: str = "middle", more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _grid(plot: Plot, x: _Axis, y: _Axis) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for value in y.ticks():
        at = y.place(value)
        parts.append(f'<line x1="{_LEFT}" x2="{_WIDTH - _RIGHT}" y1="{at:.1f}" y2="{at:.1f}" class="grid"/>')
        parts.append(_text(_LEFT - 6, at + 4, plot.y_text(value), "end"))
    for value in x.ticks():
        at = x.place(value)
        parts.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{bottom}" class="grid"/>')
        parts.append(_text(at, bottom + 15, plot.x_text(value)))
    parts.append(_text((_LEFT + _WIDTH - _RIGHT) / 2, _HEIGHT - 10, plot.x_label))
    middle = (_TOP + bottom) / 2
    parts.append(_text(14, middle, plot.y_label, more=f' transform="rotate(-90 14 {middle:.0f})"'))
    return parts


def _mark(at: float, name: str) -> str:
    line = f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{_HEIGHT - _BOTTOM}" class="mark"/>'
    right = at > _WIDTH * 0.7
    return line + _text(at + (-4 if right else 4), _TOP + 12, name, "end" if right else "start")


def _drawn(line: Line, x: _Axis, y: _Axis, colour: str) -> list[str]:
    places = [(x.place(a), y.place(b)) for a, b in line.points]
    if line.dots:
        return [f'<circle cx="{a:.1f}" cy="{b:.1f}" r="2.4" fill="{colour}"/>' for a, b in places]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in places)
    dashes = ' stroke-dasharray="6 4"' if line.dashed else ""
    return [f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dashes}/>']


def _legend(lines: Sequence[Line]) -> list[str]:
    parts, at = [], _LEFT
    for number, line in enumerate(lines):
        colour = COLOURS[number % len(COLOURS)]
        parts.append(f'<rect x="{at:.0f}" y="8" width="12" height="12" fill="{colour}"/>')
        parts.append(_text(at + 17, 18, line.name, "start"))
        at += 34 + _CHARACTER * len(line.name)
    return parts
