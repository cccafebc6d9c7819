"""Profile of a Python process, sampled from outside by py-spy (https://github.com/benfred/py-spy).

Samples count for the deepest frame of our own code, so that its callees count as its own; and for the part of the
project that this is in.
"""

import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from load.programs import MissingProgramError

_RATE = 200
_PATIENCE_S = 30.0
_OURS = ("cdc/", "dataflow/", "service/")
#: What is no work: a thread that waits for a pipe, as if it ran; and the loop itself, with its waiting.
_IDLE = "_wait_for_parent"
_LOOP = "run_engine"
_REST = "event loop, and what is not ours"


@dataclass(frozen=True, slots=True)
class Profile:
    """Shares of the samples, largest first."""

    by_part: tuple[tuple[str, float], ...]
    by_function: tuple[tuple[str, float], ...]


def profile(pid: int, seconds: float) -> Profile:
    """Sample a process while it works. Raises `MissingProgramError`, and RuntimeError if py-spy cannot look."""
    with tempfile.TemporaryDirectory() as directory:
        output = Path(directory) / "stacks"
        command = [_program(), "record", "--pid", str(pid), "--duration", str(max(1, round(seconds))), "--function"]
        done = subprocess.run(
            [*command, "--rate", str(_RATE), "--format", "raw", "--output", str(output)],
            capture_output=True,
            timeout=seconds + _PATIENCE_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )
        if not output.exists():
            raise RuntimeError(f"py-spy: {done.stderr.decode(errors='replace')[-300:]}")
        return summed(output.read_text(encoding="utf-8").splitlines())


def _program() -> str:
    beside = Path(sys.executable).with_name("py-spy")
    found = str(beside) if beside.exists() else shutil.which("py-spy")
    if found is None:
        raise MissingProgramError("py-spy is not installed: pip install py-spy")
    return found


def summed(stacks: Iterable[str]) -> Profile:
    """Sums collapsed stacks: frames from the outermost on, separated by semicolons, and a count."""
    parts: Counter[str] = Counter()
    functions: Counter[str] = Counter()
    for line in stacks:
        frames, _, count = line.rpartition(" ")
        if _IDLE in frames:
            continue
        part, function = _place(frames.split(";"))
        parts[part] += int(count)
        functions[function] += int(count)
    total = max(1, parts.total())
    return Profile(_shares(parts, total), _shares(functions, total))


def _place(frames: list[str]) -> tuple[str, str]:
    """The part of the project and the function of a stack."""
    for frame in reversed(frames):
        function, _, where = frame.partition(" (")
        if function == _LOOP:
            break
        for ours in _OURS:
            if ours in where:
                path = where[where.index(ours) :].partition(":")[0].rstrip(")")
                return path.rpartition("/")[0], f"{path} {function}"
    return _REST, _REST


def _shares(counts: Counter[str], total: int) -> tuple[tuple[str, float], ...]:
    return tuple((name, count / total) for name, count in counts.most_common())
