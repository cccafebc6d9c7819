"""One seed is one run, in every process."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = """
from tests.simulation.runs import configure, draw, replay
for seed in range(6):
    trace = []
    replay(configure(seed), draw(configure(seed), 300), trace)
    print("\\n".join(trace))
"""


def trace_of(hash_seed: str) -> str:
    environment = os.environ | {"PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, check=True, text=True).stdout


def test_a_run_is_the_same_whatever_the_hashes_are() -> None:
    first = trace_of("1")
    assert first.count("\n") > 1000
    assert first == trace_of("2")
