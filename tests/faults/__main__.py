"""All faults, one after the other, as a table; or at random for a while.

python -m tests.faults                      # or --upstream mariadb, --shards, --replicas, and names of faults
python -m tests.faults --soak 30 --seed 1   # minutes; one every 20 s
"""

import argparse
import random
import time
from collections.abc import Iterator, Sequence

from tests.faults.bed import Bed, running_bed
from tests.faults.followers import Followers, Installer
from tests.faults.injection import Fault, inject
from tests.faults.matrix import SIDES, faults_of, possible
from tests.faults.measures import HEAD
from tests.faults.replicas import running_replicas

#: From the beginning of one fault to that of the next, in a soak.
EVERY_S = 20.0


def table_of(bed: Bed, faults: Sequence[Fault], pause_s: float = 5.0) -> Iterator[str]:
    """Inject each of them, with so much time in between."""
    yield HEAD
    for fault in faults:
        if not possible(bed, fault):
            yield f"{fault.name}: only root may mount a file system"
            continue
        yield inject(bed, fault).row()
        bed.load.pause(pause_s)
    yield f"0 wrong: {bed.load.summary()}"


def soak(bed: Bed, faults: Sequence[Fault], minutes: float, seed: int) -> Iterator[str]:
    """Inject random ones for so long, beside subscribers and changes of the catalog; the memory of each process after
    each of them."""
    chance = random.Random(seed)
    repeatable = [fault for fault in faults if possible(bed, fault) and not fault.last]
    until_s = time.monotonic() + minutes * 60
    installer, followers = Installer(bed.load, seed), Followers(bed.load)
    bed.load.clients.append(installer)
    installer.start()
    followers.start()
    yield HEAD
    while time.monotonic() < until_s:
        next_s = time.monotonic() + EVERY_S
        yield inject(bed, chance.choice(repeatable)).row()
        followers.check()
        memory = ", ".join(f"{name} {size >> 20} MiB" for name, size in sorted(bed.memory_bytes().items()))
        yield f"  {memory}; {followers.connections} subscriptions, {installer.done} views put"
        bed.load.pause(max(1.0, next_s - time.monotonic()))
    followers.stop()
    yield f"0 wrong in {minutes:g} minutes: {bed.load.summary()}"


def main() -> None:
    """Read the arguments, print the table."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--upstream", choices=SIDES, default="postgres")
    arguments.add_argument("--shards", action="store_true", help="two engines, and what only they have")
    arguments.add_argument(
        "--replicas", action="store_true", help="two services behind a gateway, and what only they have"
    )
    arguments.add_argument("--soak", type=float, metavar="MINUTES")
    arguments.add_argument("--seed", type=int, default=1)
    arguments.add_argument("faults", nargs="*", help="parts of names; none: all")
    options = arguments.parse_args()
    wanted = [
        fault
        for fault in faults_of(options.upstream, shards=options.shards, replicas=options.replicas)
        if not options.faults or any(part in fault.name for part in options.faults)
    ]
    side, shards = SIDES[options.upstream], 2 if options.shards else 1
    with running_replicas(side) if options.replicas else running_bed(side, shards=shards, small=True) as bed:
        rows = soak(bed, wanted, options.soak, options.seed) if options.soak else table_of(bed, wanted)
        for row in rows:
            print(row, flush=True)  # noqa: T201


if __name__ == "__main__":
    main()
