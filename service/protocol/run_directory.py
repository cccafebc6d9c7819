"""The directory of one run: the leaf store and the sockets, on a memory file system where there is one.

Its owner holds a lock on a file in it. A directory whose lock is free was left by a process that was killed, and the
next run removes it: nothing piles up in memory. So was one without that file: a directory gets its name with its lock,
and children of a killed process may have made it again after its removal.
"""

import fcntl
import os
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path

from service.sharding.homes import Shard

PREFIX = "upquery-run-"
#: Prefix of a directory that has no lock yet.
_NEW_PREFIX = "upquery-new-"
_LOCK = "lock"
_MEMORY = Path("/dev/shm")


@dataclass(frozen=True, slots=True)
class RunPaths:
    """Paths in a run directory."""

    directory: Path

    def of_shard(self, shard: Shard) -> "RunPaths":
        """Those of one of several shards; names are short, since a socket's path must be."""
        return self if shard.of == 1 else RunPaths(self.directory / str(shard.number))

    @property
    def leaf(self) -> Path:
        return self.directory / "leaf"

    @property
    def engine_socket(self) -> Path:
        """Socket of the engine for API workers."""
        return self.directory / "engine.sock"

    @property
    def control_socket(self) -> Path:
        """Socket of the engine for the supervisor."""
        return self.directory / "control.sock"

    @property
    def stream_socket(self) -> Path:
        """Socket for engines of the process that reads the change stream for all of them."""
        return self.directory / "stream.sock"

    @property
    def report_socket(self) -> Path:
        """Datagram socket for the counters of a gateway's workers."""
        return self.directory / "reports.sock"


class RunDirectory:
    """A fresh directory that only this user can enter, gone with `close`."""

    def __init__(self, parent: Path | None = None) -> None:
        self._parent = parent or _default_parent()
        self._parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(self._parent)
        new = Path(tempfile.mkdtemp(prefix=_NEW_PREFIX, dir=self._parent))
        self._lock = os.open(new / _LOCK, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self.path = new.rename(new.with_name(new.name.replace(_NEW_PREFIX, PREFIX, 1)))
        self.paths = RunPaths(self.path)

    @property
    def room_bytes(self) -> int:
        """Free space of the file system in bytes."""
        found = os.statvfs(self.path)
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def _default_parent() -> Path:
    return _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else Path(tempfile.gettempdir())


def remove_abandoned(parent: Path) -> None:
    """Removes the directories of runs that were killed."""
    for path in parent.glob(f"{PREFIX}*"):
        try:
            lock = os.open(path / _LOCK, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:
            shutil.rmtree(path, ignore_errors=True)
            continue
        except OSError:
            continue  # Another user's.
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
        except OSError:
            pass  # Its run is alive.
        finally:
            os.close(lock)
