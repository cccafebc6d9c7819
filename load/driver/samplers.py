"""Threads that sample beside a run of load."""

import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self


class Samplers:
    """Runs each of `works` in a thread of its own while entered. They return soon after `_stop` is set."""

    def __init__(self, *works: Callable[[], None]) -> None:
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=work, name="sampler", daemon=True) for work in works]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
