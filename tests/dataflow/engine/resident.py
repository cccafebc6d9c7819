"""``python -m tests.dataflow.engine.resident``: what the engine says that it holds, beside what its process grew by.

Each shape fills a process of its own. On Linux. Times are of the processor.
"""

import gc
import json
import subprocess
import sys
from pathlib import Path
from time import process_time

from rich.console import Console
from rich.table import Table

from dataflow.engine.events import Ahead, EvictSome
from tests.dataflow.engine.site import Site
from tests.dataflow.engine.test_state_bytes import SHAPES

KEYS, SLICE = 10_000, 64


def anonymous_bytes() -> int:
    """This process's own memory."""
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("Anonymous:"))


def measure(shape: str) -> dict[str, float]:
    """Fills this process with one shape, then empties it in slices."""
    site = Site()
    view = site.install(1, SHAPES[shape])
    extent = Ahead(2) if shape == "parts of keys" else None
    for number in range(200):
        site.read(view, (str(number),), extent)
    gc.collect()
    before, said = anonymous_bytes(), site.engine.state_bytes()
    for number in range(200, 200 + KEYS):
        site.read(view, (str(number),), extent)
        site.covered.clear()
    gc.collect()
    result = {"held": anonymous_bytes() - before, "said": site.engine.state_bytes() - said}
    started = process_time()
    for _ in range(1000):
        site.engine.state_bytes()
    result["asked_us"] = (process_time() - started) * 1000
    slices = []
    while site.engine.evictable:
        started = process_time()
        site.engine.step(EvictSome(SLICE))
        slices.append(process_time() - started)
    return result | {"median_ms": 1000 * sorted(slices)[len(slices) // 2], "longest_ms": 1000 * max(slices)}


def main() -> None:
    """All shapes, one after the other."""
    table = Table("shape", "held/key", "said/key", "said/held", "state_bytes() µs", f"EvictSome({SLICE}) ms", "longest")
    for shape in SHAPES:
        command = [sys.executable, "-m", "tests.dataflow.engine.resident", shape]
        found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
        table.add_row(
            shape,
            f"{found['held'] / KEYS:,.0f}",
            f"{found['said'] / KEYS:,.0f}",
            f"{found['said'] / found['held']:.2f}",
            f"{found['asked_us']:.1f}",
            f"{found['median_ms']:.2f}",
            f"{found['longest_ms']:.2f}",
        )
    Console().print(table)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        json.dump(measure(sys.argv[1]), sys.stdout)
    else:
        main()
