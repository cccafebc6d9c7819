"""Benchmarks of `load/micro/`, each in a process of its own."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from load.sides.side import SideError

_TIMEOUT_S = 300


def run_micro(module: str, cores: tuple[int, int] | None) -> Any:
    """Run a module of `load.micro` on the server's core; return the JSON that it prints. Raises SideError."""
    pinned = ["taskset", "-c", str(cores[0])] if cores else []
    done = subprocess.run(
        [*pinned, sys.executable, "-m", f"load.micro.{module}"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise SideError(f"load.micro.{module}: {done.stderr}")
    return json.loads(done.stdout)
