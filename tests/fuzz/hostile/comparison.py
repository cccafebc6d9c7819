"""Answers and times side by side: what is counted, and the table of it.

*Theory*: a value may take ten times the server's time for the same value, or 50 ms: its *ratio* is its time by that of
the server, which counts as 5 ms at least. Ours is processor time of the thread, taken again where it is too long.
"""

import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from hashlib import md5

from dataflow.errors import EvaluationError
from dataflow.types import Row, Value
from tests.dataflow.functions.server import Failed

#: Characters of an answer that is compared as it is; longer ones are compared by their digest.
MAX_ANSWER = 2000
MAX_RATIO = 10.0
_LEAST_MS = 5.0
_REPEATS = 3
#: Values of a row that people are shown.
_MAX_SHOWN, _MAX_SHOWN_LENGTH = 10, 200
_NOT_COMPUTED = "not computed"


class NotComputed:
    """The value is the upstream's to answer."""


Answer = Value | Failed | NotComputed


def digest(value: str) -> str:
    """An answer as it is compared."""
    return (
        value if len(value) <= MAX_ANSWER else f"{md5(value.encode(), usedforsecurity=False).hexdigest()} {len(value)}"
    )


def computed(compute: Callable[[Row], Value], row: Row) -> tuple[Answer, float]:
    """Return the value computed here, and its milliseconds. Other exceptions than the row's own are answers that
    differ."""
    started = time.thread_time()
    try:
        value: Answer = compute(row)
    except EvaluationError as error:
        value = NotComputed() if str(error).startswith(_NOT_COMPUTED) else Failed(str(error))
    except Exception as error:
        value = f"raised {type(error).__name__}: {error}"[:200]
    elapsed = (time.thread_time() - started) * 1000
    return digest(value) if isinstance(value, str) else value, elapsed


@dataclass
class Line:
    """One function's part of the table."""

    values: int = 0
    errors: int = 0
    different: int = 0
    not_computed: int = 0
    worst_ratio: float = 0.0
    worst_ms: float = 0.0
    #: A few that differ or are slow, for people.
    examples: list[str] = field(default_factory=list)


class Table:
    """All functions' lines."""

    def __init__(self) -> None:
        self.lines: dict[str, Line] = {}

    def compare(
        self,
        name: str,
        sql: str,
        compute: Callable[[Row], Value],
        row: Row,
        theirs: Value | Failed,
        their_ms: Callable[[], float],
    ) -> None:
        """One value. `their_ms` is asked where it matters."""
        line = self.lines.setdefault(name, Line())
        ours, milliseconds = computed(compute, row)
        line.values += 1
        line.errors += isinstance(theirs, Failed)
        if isinstance(ours, NotComputed):
            line.not_computed += 1
        elif ours != theirs:
            line.different += 1
            self._note(line, f"{sql} of {shown(row)}: {shown((ours,))}, the server {shown((theirs,))}")
        if milliseconds > _LEAST_MS:
            server = max(their_ms(), _LEAST_MS)
            if milliseconds / server > MAX_RATIO:
                milliseconds = min(milliseconds, *(computed(compute, row)[1] for _ in range(_REPEATS)))
            if milliseconds / server > MAX_RATIO:
                self._note(line, f"{sql} of {shown(row)}: {milliseconds:.0f} ms, the server {server:.1f} ms")
            line.worst_ratio = max(line.worst_ratio, milliseconds / server)
        line.worst_ms = max(line.worst_ms, milliseconds)

    @staticmethod
    def _note(line: Line, text: str) -> None:
        if len(line.examples) < 3:
            line.examples.append(text)

    def problems(self, *, timed: bool) -> list[str]:
        """Return the lines that differ, or take too long."""
        return [
            f"{name}: {example}"
            for name, line in sorted(self.lines.items())
            if line.different or (timed and line.worst_ratio > MAX_RATIO)
            for example in line.examples
        ]

    def text(self) -> str:
        """The table, for people."""
        total = Counter[str]()
        head = f"{'function':44}{'values':>8}{'errors':>8}{'different':>11}{'not computed':>14}"
        rows = [f"{head}{'worst ratio':>13}{'worst ms':>10}"]
        for name, line in sorted(self.lines.items()):
            total.update(values=line.values, different=line.different, not_computed=line.not_computed)
            total["slow"] += line.worst_ratio > MAX_RATIO
            rows.append(
                f"{name[:43]:44}{line.values:8}{line.errors:8}{line.different:11}{line.not_computed:14}"
                f"{line.worst_ratio:13.1f}{line.worst_ms:10.1f}"
            )
        rows.append(
            f"{len(self.lines)} functions, {total['values']:,} values: {total['different']} different,"
            f" {total['slow']} functions above the time, {total['not_computed']:,} values not computed"
        )
        return "\n".join(rows)


def shown(row: Row | tuple[Answer, ...]) -> str:
    """A row, for people: of long values the beginning and the length."""
    return "…" if len(row) > _MAX_SHOWN else ", ".join(map(_shown, row))


def _shown(value: Answer) -> str:
    if isinstance(value, str) and len(value) > _MAX_SHOWN_LENGTH:
        return f"{value[:60]!a}… ({len(value)})"
    return ascii(value)
