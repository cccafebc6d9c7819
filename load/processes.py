"""Processes under measurement: which core they run on, and how much of it they used. Linux only (``/proc``)."""

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PROC = Path("/proc")
#: Of ``/proc/PID/stat``, behind the command name.
_PARENT, _USER_TICKS, _SYSTEM_TICKS = 1, 11, 12


def pin(pids: Iterable[int], *cores: int) -> None:
    """Run all threads of the processes on these cores only; what they start later inherits it."""
    for pid in pids:
        for thread in _threads(pid):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, cores)


def unpin(pids: Iterable[int]) -> None:
    """Let them run anywhere again."""
    everywhere = set(range(os.cpu_count() or 1))
    for pid in pids:
        for thread in _threads(pid):
            with suppress(ProcessLookupError):
                os.sched_setaffinity(thread, everywhere)


def cpu_seconds(pids: Iterable[int]) -> float:
    """CPU time that the processes have used so far, in user and in system mode."""
    ticks = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            fields = _stat(pid)
            ticks += int(fields[_USER_TICKS]) + int(fields[_SYSTEM_TICKS])
    return ticks / _TICKS_PER_S


def parent(pid: int) -> int:
    """The process that started it."""
    return int(_stat(pid)[_PARENT])


def title(pid: int) -> str:
    """Its command line, or what it calls itself; nothing once it has gone."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return (_PROC / str(pid) / "cmdline").read_text(errors="replace").replace("\0", " ").strip()
    return ""


def children(pid: int) -> list[int]:
    """The processes that it started itself."""
    return [other for other in _all_pids() if _parent_or_none(other) == pid]


def family(pid: int) -> list[int]:
    """The process and all below it, in one pass over all processes."""
    below: dict[int, list[int]] = {}
    for other in _all_pids():
        if (its_parent := _parent_or_none(other)) is not None:
            below.setdefault(its_parent, []).append(other)
    found = [pid]
    for member in found:
        found += below.get(member, ())
    return found


def resident_bytes(pids: Iterable[int]) -> int:
    """Memory that the processes take; what several of them share is counted once (proportional set size, ``Pss`` in
    proc(5))."""
    kibibytes = 0
    for pid in pids:
        with suppress(FileNotFoundError, ProcessLookupError):
            rollup = (_PROC / str(pid) / "smaps_rollup").read_text()
            kibibytes += next((int(line.split()[1]) for line in rollup.splitlines() if line.startswith("Pss:")), 0)
    return kibibytes * 1024


def listens_on(pid: int, port: int) -> bool:
    """Whether the process holds the listening TCP socket of a loopback port."""
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
