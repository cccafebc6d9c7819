"""How much memory this process has, as the kernel counts it (proc(5), ``/proc/pid/status``)."""

from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Resident bytes: of the process's own, and of maps that it shares with others (the leaf store)."""

    own_bytes: int
    shared_bytes: int


def process_memory() -> ProcessMemory:
    """As it is now; zeros where there is no such file."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return ProcessMemory(0, 0)
    fields = dict(line.split(":", 1) for line in lines)
    own, file, shared = (int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile", "RssShmem"))
    return ProcessMemory(own, file + shared)
