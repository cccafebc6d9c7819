"""Work in a process of its own, which starts before the command to begin: load generators have a core for themselves.

Not here: the load (`driver`, `experiments`, `subscribers`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from multiprocessing.connection import Connection as Pipe
from typing import Any

#: How long a process may take until it is ready, and from its end until it has gone.
START_S, END_S = 60.0, 2.0


@contextmanager
def worker_process(work: Callable[..., None], *arguments: Any) -> Iterator[Pipe]:
    """A process that runs ``work(pipe, *arguments)`` and has said, by sending anything, that it is ready: send it
    anything to begin. Killed at the end if it has not ended. RuntimeError: it was not ready in time."""
    context = get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=work, args=(theirs, *arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        if not mine.poll(START_S):
            raise RuntimeError(f"{work.__name__} was not ready in time")
        mine.recv()
        yield mine
    finally:
        mine.close()
        process.join(END_S)
        if process.is_alive():
            process.kill()
            process.join()


def ended(pipe: Pipe) -> Any:
    """Tell a process that works until the end command; returns its result. RuntimeError: it says nothing."""
    pipe.send(None)
    if not pipe.poll(START_S):
        raise RuntimeError("a process of the harness did not end in time")
    return pipe.recv()
