"""Processing of long SQL texts off the engine's event loop: in a thread, or in a process of its own with low
priority if `begin` was called, where any client may send such texts.

*Theory*: Python's threads share one lock, which a parser releases only now and then; that would delay every miss by
some milliseconds while a text is parsed. A process costs memory, and a second to start, during which threads are
used.

Not here: bounds on texts (`dataflow.sql.spelling`, `service.protocol.admin_models`).
"""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

#: Maximum characters of a short text.
_SHORT = 500
#: Lower priority than the processes that answer requests.
_NICE = 10
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Apart:
    """The process. `up` is done when it has started."""

    pool: ProcessPoolExecutor
    up: "Future[None]"


_apart: _Apart | None = None


def begin() -> None:
    """Start the process; it is used from when it has started."""
    global _apart
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_settle)
    _apart = _Apart(pool, pool.submit(_nothing))


async def beside(sql: str, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """Call a pure function of the text. The function is a module's, and its arguments and result can be pickled.
    Raises what the function raises."""
    if len(sql) <= _SHORT:
        return function(*arguments, **named)
    work = partial(function, *arguments, **named)
    if _apart is not None and _apart.up.done():
        try:
            return await asyncio.wrap_future(_apart.pool.submit(work))
        except BrokenProcessPool:
            begin()
    return await asyncio.to_thread(work)


def _settle() -> None:
    """Ignore the terminal's interrupt and end with the parent, which alone receives signals."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _nothing() -> None: ...
