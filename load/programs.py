"""Programs that the benchmarks need beside Python packages: wrk, Redis and memcached.

As root on a Debian they are installed; otherwise what needs them is skipped, and says so.
"""

import os
import shutil
import subprocess
from dataclasses import dataclass

_APT_TIMEOUT_S = 180


@dataclass(frozen=True, slots=True)
class Program:
    """A command and the Debian package that has it."""

    command: str
    package: str


WRK = Program("wrk", "wrk")
REDIS = Program("redis-server", "redis-server")
MEMCACHED = Program("memcached", "memcached")


class MissingProgramError(Exception):
    """The program is not there and cannot be installed from here; the message says what to do."""


def require(program: Program) -> str:
    """The program's path, installed first if that is possible. Raises `MissingProgramError`."""
    if found := shutil.which(program.command):
        return found
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        raise MissingProgramError(
            f"{program.command} is not installed: sudo apt-get install {program.package} (or your system's package)"
        )
    _install(program.package)
    if found := shutil.which(program.command):
        return found
    raise MissingProgramError(f"apt-get could not install {program.package}: install it by hand")


def _install(package: str) -> None:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (["apt-get", "update"], ["apt-get", "install", "-y", "--no-install-recommends", package]):
        subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_APT_TIMEOUT_S,
            check=False,
        )
