"""Limits on repeated warnings and errors: lines a minute of each kind, then a line with the number of lines left
out.

A kind is a line's event, level and code, regardless of other fields. Lines about a request, whose client knows its
id, have a higher limit.
"""

import threading
from collections import Counter
from time import monotonic
from typing import NamedTuple

import structlog
from structlog.typing import EventDict

#: Lines of one kind a minute; of one that concerns requests.
_MOST, _MOST_OF_REQUESTS = 20, 300
#: Field with the constant text of a line whose event varies (see `logging_bridge`).
TEMPLATE = "_template"
_LEFT_OUT = "lines were left out"
_BOUNDED = frozenset({"warning", "error", "critical"})
#: Maximum kinds of a minute; all others count as one kind.
_MOST_KINDS = 500


class LineKind(NamedTuple):
    """The common fields of lines, and their limit a minute."""

    event: str
    level: str
    code: str
    most: int


class Repeats:
    """A structlog processor that limits lines.

    *State*: `_came` counts the lines of each kind in the current minute; if any was left out, a timer ends it.
    *Maintains*: `left_out` counts the lines left out since the process started.
    """

    def __init__(self, minute_s: float = 60.0) -> None:
        self._minute_s = minute_s
        self._lock = threading.Lock()
        self._came: Counter[LineKind] = Counter()
        self._ends_s = 0.0
        self._timer: threading.Timer | None = None
        self.left_out = 0

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:  # noqa: ARG002
        """Return a line, or drop it."""
        text = str(event.pop(TEMPLATE, event.get("event")))
        level = str(event.get("level"))
        if level in _BOUNDED and text != _LEFT_OUT:
            most = _MOST_OF_REQUESTS if "request_id" in event else _MOST
            if self._is_too_much(LineKind(text, level, str(event.get("code", "")), most)):
                raise structlog.DropEvent
        return event

    def _is_too_much(self, kind: LineKind) -> bool:
        with self._lock:
            now_s = monotonic()
            if now_s >= self._ends_s and self._timer is None:
                self._came.clear()
                self._ends_s = now_s + self._minute_s
            if kind not in self._came and len(self._came) >= _MOST_KINDS:
                kind = LineKind("others", kind.level, "", _MOST)
            self._came[kind] += 1
            if self._came[kind] <= kind.most:
                return False
            self.left_out += 1
            if self._timer is None:
                self._timer = threading.Timer(max(0.0, self._ends_s - now_s), self._report)
                self._timer.daemon = True
                self._timer.start()
            return True

    def _report(self) -> None:
        with self._lock:
            more = {kind: came - kind.most for kind, came in self._came.items() if came > kind.most}
            self._came.clear()
            self._ends_s, self._timer = 0.0, None
        log = structlog.get_logger()
        for kind, lines in more.items():
            code = {"of_code": kind.code} if kind.code else {}
            log.warning(_LEFT_OUT, of_event=kind.event, of_level=kind.level, **code, lines=lines)


#: One for each process, like its log.
REPEATS = Repeats()
