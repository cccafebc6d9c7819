"""``python -m tests.simulation --steps 2000000 --seed 1``: as many random steps as you like, on all cores.

``--upstream KIND`` keeps to one kind of upstream. With ``--keys-only`` changes of all tables that have keys carry old
rows in part, and plans materialize what that needs (``planned``) or do not (``coarse``). ``--replay FILE`` shows a
regression's events and effects instead.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from itertools import count
from os import cpu_count
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from tests.simulation.runs import (
    ACTIONS,
    UPSTREAMS,
    Focus,
    Verdict,
    explain,
    load_regression,
    minimise,
    run_seed,
    save_regression,
)
from tests.simulation.visibility import KINDS


def verdicts(first_seed: int, steps: int, jobs: int, focus: Focus | None = None) -> Iterator[Verdict]:
    """Runs side by side until enough steps are taken or one fails."""
    seeds = count(first_seed)
    taken = 0
    with ProcessPoolExecutor(jobs) as pool:
        running: set[Future[Verdict]] = {pool.submit(run_seed, next(seeds), ACTIONS, focus) for _ in range(2 * jobs)}
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                verdict = future.result()
                taken += verdict.steps
                yield verdict
                if verdict.failure is not None:
                    steps = 0
                if taken < steps:
                    running.add(pool.submit(run_seed, next(seeds), ACTIONS, focus))


def simulate(arguments: argparse.Namespace, console: Console) -> int:
    """All runs; the exit status."""
    upstreams = UPSTREAMS if arguments.upstream is None else (arguments.upstream,)
    old_rows = None if arguments.keys_only is None else arguments.keys_only == "planned"
    focus = None if (upstreams, old_rows) == (UPSTREAMS, None) else Focus(upstreams=upstreams, old_rows=old_rows)
    counters: Counter[str] = Counter()
    steps = 0
    failed: Verdict | None = None
    columns = (TextColumn("steps"), BarColumn(None), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as progress:
        task = progress.add_task("steps", total=arguments.steps)
        for verdict in verdicts(arguments.seed, arguments.steps, arguments.jobs, focus):
            steps += verdict.steps
            counters += verdict.counters
            failed = failed or (verdict if verdict.failure is not None else None)
            progress.update(task, completed=min(steps, arguments.steps))
    console.print(table_of(counters, steps))
    if failed is None:
        console.print(f"{steps:,} steps, no difference.")
        return 0
    smallest = minimise(failed)
    console.print(explain(smallest), markup=False, highlight=False)
    console.print(f"Written to {save_regression(smallest, f'seed_{failed.configuration.seed}')}.")
    return 1


def table_of(counters: Counter[str], steps: int) -> Table:
    """Return a table of events and their counts."""
    table = Table("what happened", "times", "per 1,000 steps")
    for name, number in sorted(counters.items()):
        table.add_row(name, f"{number:,}", f"{1000 * number / max(steps, 1):.2f}")
    return table


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation", description=__doc__)
    parser.add_argument("--steps", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=cpu_count() or 1)
    parser.add_argument("--upstream", choices=sorted(KINDS))
    parser.add_argument("--keys-only", choices=("planned", "coarse"))
    parser.add_argument("--replay", type=Path)
    arguments = parser.parse_args()
    console = Console()
    if arguments.replay is None:
        return simulate(arguments, console)
    configuration, actions = load_regression(arguments.replay)
    console.print(explain(Verdict(configuration, actions)), markup=False, highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
