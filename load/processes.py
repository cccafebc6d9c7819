"""Processes under measurement: which core they run on, and how much of it they used. Linux only (``/proc``)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
#: Most kernels list the children of each thread; without, all processes are looked through.
_LISTS_CHILDREN = (_PROC / "self" / "task" / str(os.getpid()) / "children").exists()
#: Of ``st_blocks``.
_BLOCK_BYTES = 512
#: Of ``/proc/PID/stat``, behind the command name.
_PARENT, _USER_TICKS, _SYSTEM_TICKS = 1, 11, 12
#: Of ``/proc/stat``, whose first line begins with a name.
_STEAL_TICKS = 8


@dataclass(frozen=True, slots=True)
class RunConditions:
    """The cores of the servers and of the generator, alike for all sides; None: not pinned."""

    server_cores: tuple[int, ...] | None
    client_cores: tuple[int, ...] | None

    @property
    def text(self) -> str:
        if self.server_cores is None or self.client_cores is None:
            return "not pinned"
        return f"servers on cores {list(self.server_cores)}, generator on {list(self.client_cores)}"


def here() -> RunConditions:
    """The first core for the servers, the others for the generator; where there are not two, nothing is pinned."""
    cores = sorted(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else []
    if len(cores) < 2:
        return RunConditions(None, None)
    return RunConditions((cores[0],), tuple(cores[1:]))


def pin(pids: Iterable[int], *cores: int) -> None:
    """Run all threads of the processes on these cores only; what they start later inherits it."""
    for pid in pids:
        for thread in _threads(pid):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that the processes have used so far, in user and in system mode."""
    ticks = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = _stat(pid)
            ticks += int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
    return ticks / _TICKS_PER_S


def stolen_seconds() -> float:
    """CPU time that the machine wanted and its hypervisor gave to others, since it was started (proc(5), ``steal``)."""
    with suppress(FileNotFoundError):
        return int((_PROC / "stat").read_text().split(maxsplit=_STEAL_TICKS + 1)[_STEAL_TICKS]) / _TICKS_PER_S
    return 0.0


def parent(pid: int) -> int:
    return int(_stat(pid)[_PARENT])


def title(pid: int) -> str:
    """Returns the command line of a process, or its title; empty once it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (_PROC / str(pid) / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
    return ""


def children(pid: int) -> list[int]:
    """The processes that it started itself."""
    if not _LISTS_CHILDREN:
        return [other for other in _all_pids() if _parent_or_none(other) == pid]
    found: list[int] = []
    for thread in _threads(pid):
        with suppress(FileNotFoundError, ProcessLookupError):
            listed = (_PROC / str(pid) / "task" / str(thread) / "children").read_text()
            found += map(int, listed.split())
    return found


def family(pid: int) -> list[int]:
    """The process and all below it."""
    return [pid, *(member for child in children(pid) for member in family(child))]


def resident_bytes(pids: Iterable[int]) -> int:
    """Memory that the processes take: what is their own, and once what they map of files (of the one with most of it).

    Shared memory is in neither; see `stored_bytes`. These are counters: the exact shares of ``smaps_rollup`` would walk
    the page tables, and stop the process meanwhile (some 100 ms a GiB).
    """
    own = files = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            sizes = _resident(pid)
            own += sizes.get("RssAnon", 0)
            files = max(files, sizes.get("RssFile", 0))
    return own + files


def stored_bytes(directory: Path) -> int:
    """Sums the sizes of the files below a directory: on a memory file system, memory."""
    total = 0
    for path in directory.rglob("*"):
        with suppress(FileNotFoundError):
            total += path.lstat().st_blocks * _BLOCK_BYTES
    return total


def listens_on(pid: int, port: int) -> bool:
    """Return whether the process holds the listening TCP socket of a loopback port."""
    inodes = set(_listening_inodes(port))
    with suppress(FileNotFoundError, PermissionError):
        for descriptor in (_PROC / str(pid) / "fd").iterdir():
            with suppress(FileNotFoundError):
                target = os.readlink(descriptor)
                if target.startswith("socket:[") and target[len("socket:[") : -1] in inodes:
                    return True
    return False


def _listening_inodes(port: int) -> Iterator[str]:
    listening = "0A"
    for line in (_PROC / "net" / "tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == listening and int(fields[1].split(":")[1], 16) == port:
            yield fields[9]


def _threads(pid: int) -> list[int]:
    with suppress(FileNotFoundError):
        return [int(entry.name) for entry in (_PROC / str(pid) / "task").iterdir()]
    return []


def _all_pids() -> list[int]:
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit()]


def _parent_or_none(pid: int) -> int | None:
    with suppress(FileNotFoundError, ProcessLookupError):
        return parent(pid)
    return None


def _stat(pid: int) -> list[str]:
    # The command name is in parentheses and may hold anything; the fields follow the last one.
    return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()


def _resident(pid: int) -> dict[str, int]:
    """The kinds of resident memory, in bytes (proc(5), ``status``)."""
    lines = (_PROC / str(pid) / "status").read_text().splitlines()
    return {
        name: int(size.split()[0]) * 1024
        for name, _, size in (line.partition(":") for line in lines)
        if name.startswith("Rss")
    }
