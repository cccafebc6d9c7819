"""``upquery serve`` as a process of its own, with a configuration file: a stack, a pod that is one shard, a gateway."""

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from load.sides.child import running
from load.sides.side import SideError

#: Until it says that it is ready.
_START_S = 120.0
_MEMORY = "/dev/shm"

#: Tables of a configuration file.
Sections = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Served:
    """One that runs: its supervisor, and its two ports."""

    pid: int
    http: str
    admin: str


@contextmanager
def running_service(config: Path, sections: Sections, *arguments: str) -> Iterator[Served]:
    """Run a service with these tables in its file. Raises `SideError` if it does not start."""
    write_config(config, sections)
    command = [sys.executable, "-c", "from service.command.cli import app; app()", "serve", "--json", *arguments]
    with running([*command, "--config", str(config)], output=subprocess.PIPE) as process:
        ready = _first_line(process)
        yield Served(process.pid, ready["http"], ready["admin"])


def write_config(config: Path, sections: Sections) -> None:
    """Write the file, or write it anew: a concurrent reader sees all of one or all of the other."""
    lines = []
    for name, values in sections.items():
        # JSON's strings, numbers and lists are TOML's.
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    new = config.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n", encoding="utf-8")
    new.replace(config)


def joined(sections: Sections, more: Sections) -> dict[str, dict[str, Any]]:
    """Tables with more keys, or other values."""
    names = [*sections, *(name for name in more if name not in sections)]
    return {name: {**sections.get(name, {}), **more.get(name, {})} for name in names}


def stack_sections(url: str, directory: Path, run: str, engine: Mapping[str, str], workers: int) -> Sections:
    """Settings of a stack that follows a PostgreSQL database: its state in `directory`, its leaf store in `run`."""
    return {
        "upstream": {"url": url},
        "cdc": {"set_replica_identity": True},
        "http": {"port": 0, "admin_port": 0, "workers": workers},
        "engine": {**engine, "directory": run},
        "state": {"directory": str(directory / "state")},
        "log": {"level": "warning"},
    }


def memory_directory() -> str | None:
    """The service's default directory for leaf stores, if it exists and is writable."""
    return _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], _START_S)
    line = process.stdout.readline() if readable else b""
    if not line:
        raise SideError(f"upquery did not start within {_START_S:.0f} s, or ended; it says why above")
    said: dict[str, Any] = json.loads(line)
    if said["event"] != "ready":
        raise SideError(f"upquery does not start: {said['message']}")
    return said
