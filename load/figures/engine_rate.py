"""The engine by itself: changes a second in the vote dataflow, in batches of 100, with and without leaf commits."""

import json
import subprocess
import sys
from pathlib import Path

from load.report.figures import Figure, Measurement, Result
from load.sides.side import SideError

BENCH = "engine"
_TIMEOUT_S = 120


def run(cores: tuple[int, int] | None) -> list[Result]:
    """Run the benchmark in a process of its own, on one core."""
    pinned = ["taskset", "-c", str(cores[0])] if cores else []
    done = subprocess.run(
        [*pinned, sys.executable, "-m", "load.micro.vote_dataflow"],
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        check=False,
    )
    if done.returncode != 0:
        raise SideError(f"the vote dataflow: {done.stderr}")
    rates = json.loads(done.stdout)
    pure, uniform, committed = [Measurement.of(rates[name]) for name in ("pure", "uniform", "committed")]
    return [
        Figure(BENCH, "engine, changes in batches of 100", pure, "/s", 100_000, detail="Engine.step alone, Zipf 1.08"),
        Figure(
            BENCH, "the same, all stories alike", uniform, "/s", detail="nearly each vote of a batch is another story's"
        ),
        Figure(BENCH, "engine with leaf commits", committed, "/s", detail="a commit for each batch, Zipf 1.08"),
    ]
