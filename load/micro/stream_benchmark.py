"""Benchmark of a change stream: its command line, its rounds, the read of one phase."""

import argparse
import asyncio
import cProfile
import json
import pstats
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager

from cdc.stream import ChangeStream

#: Writes a phase and reads it. Returns the CPU seconds of the reading, which the profile covers.
Reader = Callable[[str, cProfile.Profile | None], float]
#: Starts a server and gives the readers of so many changes by name.
Opened = Callable[[int], AbstractContextManager[Mapping[str, Reader]]]


def main(
    description: str | None,
    phases: Iterable[str],
    opened: Callable[[int], AbstractContextManager[Mapping[str, Reader]]],
) -> None:
    """Print the best rate of each reader and phase, or profiles. `opened` has the readers of so many changes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", type=int, default=20_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--profile", action="store_true")
    arguments = parser.parse_args()
    with opened(arguments.changes) as readers:
        turns = [(name, reader, phase) for phase in phases for name, reader in readers.items()]
        if arguments.profile:
            for name, reader, phase in turns:
                print(f"── {name}: {phase}")  # noqa: T201 - the result
                profile = cProfile.Profile()
                reader(phase, profile)
                pstats.Stats(profile).sort_stats("tottime").print_stats(14)
            return
        best: dict[str, float] = {}
        for _ in range(arguments.rounds):
            for name, reader, phase in turns:
                key = f"{name}_{phase}_per_s"
                best[key] = max(best.get(key, 0.0), arguments.changes / reader(phase, None))
    print(json.dumps({key: round(rate) for key, rate in best.items()}))  # noqa: T201 - the result


async def stream_seconds(
    stream: ChangeStream, table: str, changes: int, write: Callable[[], int], profile: cProfile.Profile | None
) -> float:
    """CPU seconds that a stream takes for the changes that `write` makes, up to the position that it returns."""
    await stream.start()
    end = await asyncio.to_thread(write)
    found = position = 0
    started = time.process_time()
    if profile is not None:
        profile.enable()
    while position < end:
        batch = await stream.next_batch()
        position = batch.position
        for transaction in batch.transactions:
            change = transaction.tables[table]
            found += max(len(change.added), len(change.removed))
        if found == changes and position < end:
            stream.request_position()
    if profile is not None:
        profile.disable()
    seconds = time.process_time() - started
    await stream.close()
    assert found == changes, found
    return seconds
