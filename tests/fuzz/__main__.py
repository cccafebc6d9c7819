"""``make fuzz``: random views and changes until so many reads were compared.

``ARGS='--database mariadb --cases 5000 --seed 7'``. ``ARGS='hostile --help'``: hostile values through every function.
"""

import argparse
import sys
import tempfile
import time
from pathlib import Path

from tests.fixtures import seeds
from tests.fuzz.databases import DATABASES
from tests.fuzz.hostile import command as hostile
from tests.fuzz.running import Outcome, run_seed


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--database", choices=DATABASES, default="postgres", help="compare with (default: %(default)s)")
    parser.add_argument("--cases", type=int, default=20_000, help="reads to compare (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the first seed (default: %(default)s)")
    parser.add_argument("--views", type=int, default=30, help="views of one seed (default: %(default)s)")
    parser.add_argument("--seeds", type=int, default=10_000, help="at most so many seeds (default: %(default)s)")
    parser.add_argument("--keep", type=Path, help="folder for the files of seeds that went wrong")
    return parser.parse_args()


def main() -> int:
    """0 if every answer was the database's."""
    if sys.argv[1:2] == ["hostile"]:
        return hostile.main(sys.argv[2:])
    arguments = _arguments()
    database = DATABASES[str(arguments.database)]
    outcome, seed, started = Outcome(), arguments.seed, time.monotonic()
    with tempfile.TemporaryDirectory() as directory:
        files = arguments.keep or Path(directory)
        files.mkdir(parents=True, exist_ok=True)
        with database.processes(Path(directory) / "service") as processes:
            while outcome.cases < arguments.cases and seed < arguments.seed + arguments.seeds:
                report = run_seed(seed, files, database.dialect, processes, arguments.views)
                wrong = outcome.add(seed, report)
                _say(seed, outcome, wrong, time.monotonic() - started)
                if not wrong:
                    (files / f"fuzz_{seed}.test").unlink()
                seed += 1
    _summary(outcome)
    return 1 if outcome.problems else 0


def _say(seed: int, outcome: Outcome, wrong: int, seconds: float) -> None:
    print(  # noqa: T201
        f"seed {seed}: {outcome.cases:,} cases, {outcome.views:,} views in {seconds:.0f} s"
        + (f", {wrong} WRONG" if wrong else ""),
        flush=True,
    )


def _summary(outcome: Outcome) -> None:
    print("\n".join(outcome.problems))  # noqa: T201
    if outcome.problems:
        print(f"Evictions and the views that are read are those of {seeds.VARIABLE}={seeds.run_seed()}.")  # noqa: T201
    print("tiers: " + ", ".join(f"{tier} {number}" for tier, number in outcome.tiers.most_common()))  # noqa: T201
    print("not incremental:")  # noqa: T201
    for reason, number in outcome.reasons.most_common(40):
        print(f"  {number:5} {reason}")  # noqa: T201
    print(f"{outcome.cases:,} cases, {len(outcome.problems)} wrong")  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
