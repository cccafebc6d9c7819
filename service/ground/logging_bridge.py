"""Lines of libraries (uvicorn, websockets, asyncio, httpx, …) and errors that nobody catches, as lines of our own log.

*Invariants*: no handler but ours is at any logger of the standard library; whatever a process writes goes through
structlog's processors.
"""

import logging
import sys
import threading
import warnings
from types import TracebackType
from typing import Any

import structlog

from service.ground.log_repeats import TEMPLATE


class _Structured(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """Write a record of the standard library."""
        try:
            text = record.getMessage()
        except Exception:
            # Its arguments do not fit; what it was about is better than nothing.
            text = str(record.msg)
        said: dict[str, Any] = {"logger": record.name, TEMPLATE: f"{record.name} {record.msg}"}
        if record.exc_info:
            said["exc_info"] = record.exc_info
        log = structlog.get_logger()
        (log.error if record.levelno >= logging.ERROR else log.warning)(text, **said)


def bridge_logging(level: int) -> None:
    """From now on all that libraries say from `level` on, warnings at least, is in our log."""
    root = logging.getLogger()
    root.handlers = [_Structured()]
    root.setLevel(max(level, logging.WARNING))
    for name in logging.root.manager.loggerDict:
        library = logging.getLogger(name)
        library.handlers, library.propagate = [], True
    logging.captureWarnings(True)
    warnings.simplefilter("default")
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable


def _uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if issubclass(kind, KeyboardInterrupt):
        return
    structlog.get_logger().critical("the process failed", exc_info=(kind, error, trace))


def _uncaught_in_thread(failed: threading.ExceptHookArgs) -> None:
    if failed.exc_value is not None and not isinstance(failed.exc_value, SystemExit):
        name = failed.thread.name if failed.thread is not None else ""
        structlog.get_logger().error("a thread failed", thread=name, exc_info=failed.exc_value)


def _unraisable(failed: "sys.UnraisableHookArgs") -> None:
    text = failed.err_msg or "an error that cannot be raised"
    structlog.get_logger().error("an object failed", reason=text, exc_info=failed.exc_value)
