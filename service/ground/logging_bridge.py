"""Bridge from `logging` (uvicorn, websockets, asyncio, httpx, …), warnings and uncaught errors to structlog.

*Invariants*: no logger of the standard library has another handler; every line of a process passes structlog's
processors.
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
        try:
            text = record.getMessage()
        except Exception:
            # The arguments do not fit the message; log it without them.
            text = str(record.msg)
        fields: dict[str, Any] = {"logger": record.name, TEMPLATE: f"{record.name} {record.msg}"}
        if record.exc_info:
            fields["exc_info"] = record.exc_info
        log = structlog.get_logger()
        (log.error if record.levelno >= logging.ERROR else log.warning)(text, **fields)


def bridge_logging(level: int) -> None:
    """Log all records of libraries from `level` on, warnings at least."""
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
