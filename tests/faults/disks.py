"""Small file systems of a service's own: one for its state directory, one for its leaf store. Each can be filled."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.service import RunningService, until

STATE_SIZE, LEAF_SIZE = "64m", "160m"
_MOUNTS = ("unshare", "-m")


def may_mount() -> bool:
    """Return whether this account may mount a file system that only its own processes see."""
    return shutil.which("unshare") is not None and not subprocess.run([*_MOUNTS, "true"], check=False).returncode


@dataclass(frozen=True, slots=True)
class Disks:
    """Both of them. `holder`: the process that sees them; `state`: where that for the state directory is mounted."""

    holder: int
    state: Path

    @property
    def within(self) -> tuple[str, ...]:
        """A command that runs another one where it sees them."""
        return ("nsenter", "-t", str(self.holder), "-m", "-w")

    def mount(self, size: str, path: Path) -> None:
        """Make a file system."""
        subprocess.run([*self.within, "mount", "-t", "tmpfs", "-o", f"size={size}", "none", str(path)], check=True)

    def give(self, service: RunningService) -> None:
        """Let a service that has not been started have them."""
        self.mount(LEAF_SIZE, service.run)
        service.within = self.within

    def seen(self, path: Path) -> Path:
        """Return a path of the service's as tests see it."""
        return Path("/proc", str(self.holder), "root", *path.parts[1:])

    @contextmanager
    def full(self, path: Path) -> Iterator[None]:
        """Fill the file system of a directory of the service's to its last byte, for the length of a block."""
        ballast = self.seen(path) / "ballast"
        with ballast.open("wb") as file:
            room = os.statvfs(ballast)
            os.posix_fallocate(file.fileno(), 0, room.f_bavail * room.f_frsize)
        try:
            yield
        finally:
            ballast.unlink()


@contextmanager
def small_disks(state: Path) -> Iterator[Disks]:
    """Make one for the state directory; the other one is made when a service gets both."""
    state.mkdir()
    with subprocess.Popen([*_MOUNTS, "cat"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL) as holder:
        try:
            own = Path(f"/proc/{holder.pid}/ns/mnt")
            until(lambda: own.readlink() != Path("/proc/self/ns/mnt").readlink())
            disks = Disks(holder.pid, state)
            disks.mount(STATE_SIZE, state)
            yield disks
        finally:
            holder.kill()
