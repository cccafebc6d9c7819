"""Memory of this process as the kernel counts it (proc(5), ``/proc/pid/status``)."""

from dataclasses import dataclass
from pathlib import Path

_STATUS = Path("/proc/self/status")


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Resident bytes: private ones, and shared maps (the leaf store)."""

    own_bytes: int
    shared_bytes: int


def process_memory() -> ProcessMemory:
    """Return the current values; zeros if the file does not exist."""
    try:
        lines = _STATUS.read_text().splitlines()
    except OSError:
        return ProcessMemory(0, 0)
    fields = dict(line.split(":", 1) for line in lines)
    own, file, shared = (int(fields[name].split()[0]) * 1024 for name in ("RssAnon", "RssFile", "RssShmem"))
    return ProcessMemory(own, file + shared)
