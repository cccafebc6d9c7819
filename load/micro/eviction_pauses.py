"""How long the engine's loop is held up while misses bring in far more than the memory budget.

The runtime runs in this process, over an embedded PostgreSQL; stories are read in a random order, a batch of keys in
each read. Prints one JSON object: the time of the loop's turns (of this thread, so that a busy machine does not count),
the longest slice of eviction (on the clock), and collections of Python's garbage.
"""

import argparse
import asyncio
import gc
import json
import random as randomness
import shutil
import sys
import tempfile
from pathlib import Path
from time import thread_time
from typing import Any

import psycopg

from service.demo.postgres_server import EmbeddedPostgres
from service.engine.loop import garbage
from service.engine.session.runtime import Runtime
from service.ground.logs import configure_logging
from service.protocol.reads import ReadItem
from service.settings.sections import EngineSettings, LogSettings, StateSettings, UpstreamSettings, ViewSettings
from service.settings.stack import Settings

KEYS_OF_A_READ = 20
READS_AT_ONCE = 16
STORY = """
SELECT s.id, s.title, s.author, count(v.user_id) AS votes
FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id, s.title, s.author
"""


def create(url: str, stories: int) -> None:
    """The tables, with three votes for each story."""
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in (
            "CREATE TABLE stories (id int PRIMARY KEY, title text, author text)",
            "CREATE TABLE votes (story_id int, user_id int, PRIMARY KEY (story_id, user_id))",
            f"INSERT INTO stories SELECT i, 'story ' || i, 'author' || i % 99 FROM generate_series(1, {stories}) i",
            f"INSERT INTO votes SELECT i, j FROM generate_series(1, {stories}) i, generate_series(1, 3) j",
            "ALTER TABLE stories REPLICA IDENTITY FULL",
            "ALTER TABLE votes REPLICA IDENTITY FULL",
            "ANALYZE",
        ):
            connection.execute(statement.encode())


async def turns(taken_s: list[float]) -> None:
    """Notes how long each turn of the loop takes."""
    while True:
        started = thread_time()
        await asyncio.sleep(0)
        taken_s.append(thread_time() - started)


async def read_all(runtime: Runtime, stories: int) -> None:
    ids = [str(i) for i in range(1, stories + 1)]
    randomness.Random(1).shuffle(ids)
    reads = [
        [ReadItem("story", (id_,)) for id_ in ids[i : i + KEYS_OF_A_READ]] for i in range(0, stories, KEYS_OF_A_READ)
    ]
    for first in range(0, len(reads), READS_AT_ONCE):
        await asyncio.gather(*map(runtime.read, reads[first : first + READS_AT_ONCE]))


async def measure(runtime: Runtime, stories: int) -> dict[str, Any]:
    await runtime.start()
    garbage.be_seldom()
    collections = [0, 0, 0]

    def collected(phase: str, info: dict[str, int]) -> None:
        collections[info["generation"]] += phase == "stop"

    gc.callbacks.append(collected)
    taken_s: list[float] = []
    tasks = [asyncio.ensure_future(part) for part in (runtime.run(), turns(taken_s))]
    await read_all(runtime, stories)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    taken_s.sort()
    figures = {
        "turns": len(taken_s),
        **{f"turn_p{p:g}_s": taken_s[int(len(taken_s) * p / 100)] for p in (50, 99, 99.9)},
        "turn_max_s": taken_s[-1],
        "longest_slice_s": runtime.budget.longest_slice_s,
        "slices": runtime.counters.budget_slices,
        "evicted_keys": runtime.counters.leaf_evictions,
        "used_over_budget": runtime.budget.used_bytes / runtime.budget.budget_bytes,
        "collections": collections,
    }
    await runtime.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--stories", type=int, default=40_000)
    parser.add_argument("--memory-bytes", type=int, default=32 << 20)
    options = parser.parse_args()
    directory = Path(tempfile.mkdtemp(prefix="upquery-pauses-"))
    directory.chmod(0o711)
    server = EmbeddedPostgres(directory / "server", {"fsync": "off", "autovacuum": "off"})
    configure_logging(LogSettings(level="warning"), "pauses")
    try:
        server.start()
        create(server.url, options.stories)
        settings = Settings(
            upstream=UpstreamSettings(url=server.url),
            state=StateSettings(directory=directory / "state"),
            engine=EngineSettings(memory=options.memory_bytes),
            views=(ViewSettings(name="story", sql=STORY),),
        )
        figures = asyncio.run(measure(Runtime(settings, directory / "leaf"), options.stories))
    finally:
        server.stop("immediate")
        shutil.rmtree(directory, ignore_errors=True)
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
