"""Lines that say how far a job is: JSON, one a line, on standard output.

*Invariants*: a line is written at once, so that lines of a thread and of a signal's handler never mix.

Not here: what reads them (`service.engine.builds.job`).
"""

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

_EVERY_S = 1.0
_STANDARD_OUTPUT = 1


#: Set when the last line is about to be written.
_said_all = threading.Event()
#: A signal's handler may come while its own thread writes a line.
_writing = threading.RLock()


def say_last(line: Mapping[str, object]) -> None:
    """Write the line after which there is none, whatever still runs."""
    with _writing:
        _said_all.set()
        _write(line)


def say(line: Mapping[str, object]) -> None:
    with _writing:
        if not _said_all.is_set():
            _write(line)


def _write(line: Mapping[str, object]) -> None:
    data = json.dumps(line).encode() + b"\n"
    try:
        while data:
            data = data[os.write(_STANDARD_OUTPUT, data) :]
    except OSError:
        # Nobody reads any more; the process that started the job ends it, if it is to end.
        return


class ProgressSource(Protocol):
    """Source of progress figures, queried every second from another thread."""

    def tasks(self) -> tuple[int, int]:
        """Numbers of finished tasks and of all."""
        ...

    def rows(self) -> int: ...

    def java(self) -> int | None:
        """The process, once it has been started."""
        ...


class ProgressLines:
    """Says every second how far it is, from a thread of its own. Use as a context manager.

    *State*: `phase`, what is being done.
    """

    def __init__(self, work: ProgressSource) -> None:
        self._work = work
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="progress", daemon=True)
        self.phase = "starting"

    def __enter__(self) -> "ProgressLines":
        self.tell()
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._end.set()
        self._thread.join()

    def enter(self, phase: str) -> None:
        self.phase = phase
        self.tell()

    def tell(self) -> None:
        done, tasks = self._work.tasks()
        java = resident_mib(self._work.java())
        say({"phase": self.phase, "rows": self._work.rows(), "tasks_done": done, "tasks": tasks, "jvm_mib": java})

    def _run(self) -> None:
        while not self._end.wait(_EVERY_S):
            self.tell()


def resident_mib(process: int | None) -> int | None:
    """The memory of a process, where Linux tells it."""
    if process is None:
        return None
    try:
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) >> 10
    except (OSError, ValueError):
        return None
    return None


__all__ = ["ProgressLines", "ProgressSource", "resident_mib", "say", "say_last"]
