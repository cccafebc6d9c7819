"""Structured logs (structlog): one line each, on standard error.

Not here: limits on lines (`log_repeats`); lines of libraries (`logging_bridge`); metrics (`prometheus`).
"""

import itertools
import logging
import sys
from collections import deque
from collections.abc import Iterable
from operator import itemgetter

import structlog
from structlog.typing import EventDict

from service.ground.log_repeats import REPEATS
from service.ground.logging_bridge import bridge_logging
from service.settings.sections import LogSettings


class RecentErrors:
    """A structlog processor that remembers the latest warnings and errors of this process, for the console.

    *Maintains*: `seen` counts all of them.
    """

    def __init__(self, most: int = 50) -> None:
        self._lines: deque[dict[str, str]] = deque(maxlen=most)
        self.seen = 0

    def __call__(self, logger: object, method: str, event: EventDict) -> EventDict:  # noqa: ARG002
        if event.get("level") in ("warning", "error", "critical"):
            more = [f"{name}={value}" for name, value in event.items() if name not in _OWN_COLUMNS]
            text = " ".join([str(event.get("event")), *more])
            self.seen += 1
            self._lines.append(
                {
                    "at": str(event["timestamp"]),
                    "level": str(event["level"]),
                    "process": str(event.get("process", "")),
                    "text": text[:1000],
                }
            )
        return event

    def newest_first(self) -> list[dict[str, str]]:
        """Return the lines, each with ``at``, ``level``, ``process`` and ``text``."""
        return list(reversed(self._lines))


def merged_errors(*of_processes: Iterable[dict[str, str]], most: int = 50) -> list[dict[str, str]]:
    """Return the latest lines of several processes, newest first. (Times are texts of one form.)"""
    return sorted(itertools.chain(*of_processes), key=itemgetter("at"), reverse=True)[:most]


_OWN_COLUMNS = frozenset({"event", "level", "timestamp", "process", "exception"})
#: Characters logged of a long traceback's begin, and of its end.
_TRACE_HALF = 4000
#: One for each process, like its log.
RECENT_ERRORS = RecentErrors()


def configure_logging(settings: LogSettings, process: str) -> None:
    """Configure this process's log; every line, including those of libraries, names `process`."""
    level = logging.getLevelNamesMapping()[settings.level.upper()]
    renderer: structlog.typing.Processor = (
        structlog.processors.JSONRenderer(default=str)
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )

    def named(logger: object, method: str, event: EventDict) -> EventDict:  # noqa: ARG001
        event["process"] = process
        return event

    structlog.configure(
        processors=[
            named,
            structlog.processors.add_log_level,
            REPEATS,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _shortened,
            RECENT_ERRORS,
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.PrintLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    bridge_logging(level)


def _shortened(logger: object, method: str, event: EventDict) -> EventDict:  # noqa: ARG001
    """Cut the middle out of a long traceback."""
    trace = event.get("exception")
    if isinstance(trace, str) and len(trace) > 2 * _TRACE_HALF:
        event["exception"] = f"{trace[:_TRACE_HALF]}\n…\n{trace[-_TRACE_HALF:]}"
    return event
