"""What is done with a long SQL text is done beside the engine's loop: in a thread or, where any client may send one and
once it is up, in a process of its own with low priority (`begin`).

*Theory*: Python's threads share one lock, which a parser gives up now and then only; that costs every miss some
milliseconds while a text is read. A process costs memory, and a second to start, which is not waited for.

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

#: Characters of a text that is not long.
_SHORT = 500
#: Whoever is answered from memory comes first.
_NICE = 10
P = ParamSpec("P")
T = TypeVar("T")


@dataclass(slots=True)
class _Apart:
    """The process. `up` is done when it has begun."""

    pool: ProcessPoolExecutor
    up: "Future[None]"


_apart: _Apart | None = None


def begin() -> None:
    """Start the process: what comes from when it is up is done there."""
    global _apart
    pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), initializer=_settle)
    _apart = _Apart(pool, pool.submit(_nothing))


async def beside(sql: str, function: Callable[P, T], *arguments: P.args, **named: P.kwargs) -> T:
    """What a pure function of the text gives: a function of a module, with what can be pickled. Whatever it raises."""
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
    """The process's first steps: it lasts as long as its parent, which alone is told to end."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.nice(_NICE)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
    os._exit(1)


def _nothing() -> None: ...
