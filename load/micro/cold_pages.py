"""CPU time of the engine's process while pages of Lobsters are read of which nothing is stored.

The runtime runs in this process, over an embedded PostgreSQL. The pages are visited once to find what they read and
which of that a worker would not find in the leaf store. Then all keys are evicted and the misses are read again, some
pages at once: that is one turn, without HTTP, JSON and sockets. What pages write is left out. Prints one JSON object.

To compare two versions, let both read one database in turns (`--database`).
"""

import argparse
import asyncio
import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getrusage
from statistics import median
from typing import Any

import orjson
from pydantic import ByteSize

from dataflow.engine.events import EvictSome
from load.driver.visit import READS, HttpCall, HttpReply, Visit
from load.sides.postgres import SETTINGS, execute
from load.workloads.lobsters.bulk_load import load
from load.workloads.lobsters.dataset import LobstersSize
from load.workloads.lobsters.site import lobsters
from load.workloads.lobsters.workload import LobstersSpec
from service.demo.postgres_server import EmbeddedPostgres
from service.engine.loop import garbage
from service.engine.session.runtime import Runtime
from service.ground.logs import configure_logging
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.request import Values
from service.protocol.reads import ReadItem
from service.settings.sections import EngineSettings, LogSettings, StateSettings, UpstreamSettings, ViewSettings
from service.settings.stack import Settings

PAGES_AT_ONCE = 8
_POLL_S = 0.1
#: Keys of one eviction.
_EVICTED = 1_000
#: The reply to a write; nothing is written.
_WRITTEN = HttpReply(200, orjson.dumps({"version": "0"}), None)

#: The requests of a page: of each, the reads that a worker does not find stored.
Page = list[list[ReadItem]]


@dataclass(frozen=True, slots=True)
class Turn:
    """CPU time of one turn, and how much was looked up."""

    user_s: float
    system_s: float
    rounds: int
    lookups: int
    rows: int


class Bench:
    """Pages read from a runtime in this process."""

    def __init__(self, runtime: Runtime, size: LobstersSize) -> None:
        self._runtime = runtime
        self._size = size

    async def find_pages(self, visits: int, seed: int) -> list[Page]:
        """Makes visits, one after another, and returns what they read. Visits that fail are left out."""
        random, source = Random(seed), LobstersSpec(self._size).start(0, 1)
        pages: list[Page] = []
        for _ in range(visits):
            page: Page = []
            with suppress(LookupError, ValueError):
                await self._make(source.visit(random)[1], page)
            pages.append(page)
        return pages

    async def _make(self, visit: Visit, page: Page) -> None:
        with suppress(StopIteration):
            calls = next(visit)
            while True:
                calls = visit.send([await self._reply(call, page) for call in calls])

    async def _reply(self, call: HttpCall, page: Page) -> HttpReply:
        if call.server != READS:
            return _WRITTEN
        reads = orjson.loads(call.request.partition(b"\r\n\r\n")[2])["reads"]
        views = self._runtime.leaf.reader.catalog().by_name
        infos = [views[read["view"]] for read in reads]
        items = [ReadItem(info.name, _values(info, read["params"])) for info, read in zip(infos, reads, strict=True)]
        wanted = [(info.id, item.values, None) for info, item in zip(infos, items, strict=True)]
        stored, _ = self._runtime.leaf.reader.read(wanted)
        missing = [item for item, answer in zip(items, stored, strict=True) if answer is None]
        if missing:
            page.append(missing)
        found = await self._runtime.read(items)
        rows = b",".join(b'{"rows":%s}' % answer.rows for answer in found.answers)
        return HttpReply(200, b'{"results":[%s]}' % rows, None)

    async def turn(self, pages: Sequence[Page]) -> Turn:
        """Evicts all keys and reads the pages."""
        await self._evict_all()
        garbage.collect()
        counters, before = self._runtime.counters, getrusage(RUSAGE_SELF)
        looked_up = (counters.lookup_rounds, counters.lookups, counters.lookup_rows)
        queue = iter(pages)
        await asyncio.gather(*[self._read(queue) for _ in range(PAGES_AT_ONCE)])
        after = getrusage(RUSAGE_SELF)
        now = (counters.lookup_rounds, counters.lookups, counters.lookup_rows)
        return Turn(
            after.ru_utime - before.ru_utime,
            after.ru_stime - before.ru_stime,
            *(b - a for a, b in zip(looked_up, now, strict=True)),
        )

    async def _read(self, pages: Any) -> None:
        for page in pages:
            for items in page:
                await self._runtime.fill(items)

    async def _evict_all(self) -> None:
        engine = self._runtime.dispatcher.engine
        assert engine is not None
        evicting = True
        while evicting:
            self._runtime.dispatcher.step(EvictSome(_EVICTED))
            evicting = not engine.exhausted
            await asyncio.sleep(0)


def _values(info: ViewInfo, parameters: dict[str, Any]) -> Values:
    given = [parameters[parameter.name] for parameter in info.parameters]
    return tuple([tuple(map(str, value)) if isinstance(value, list) else str(value) for value in given])


async def measure(runtime: Runtime, options: argparse.Namespace) -> dict[str, Any]:
    """Returns the medians of the turns, and all of them."""
    await runtime.start()
    running = asyncio.ensure_future(runtime.run())
    garbage.be_seldom()
    while any(view.building for view in runtime.leaf.reader.catalog().by_id.values()):
        await asyncio.sleep(_POLL_S)
    bench = Bench(runtime, LobstersSize(options.scale))
    pages = await bench.find_pages(options.pages, options.seed)
    turns = [await bench.turn(pages) for _ in range(options.turns)]
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    await runtime.close()
    return {
        "pages": len(pages),
        "reads": sum(len(items) for page in pages for items in page),
        "user_s": median([turn.user_s for turn in turns]),
        "system_s": median([turn.system_s for turn in turns]),
        "turns": [asdict(turn) for turn in turns],
    }


@contextmanager
def database(options: argparse.Namespace, directory: Path) -> Iterator[str]:
    """The URL of a database with the site."""
    if options.database:
        yield options.database
        return
    server = EmbeddedPostgres(directory / "server", SETTINGS)
    try:
        server.start()
        execute(server.url, lobsters().schema_sql)
        load(server.url, LobstersSize(options.scale))
        yield server.url
    finally:
        server.stop("immediate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=0.1, help="scale of the site; 1 is its full size")
    parser.add_argument("--pages", type=int, default=900)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--database", metavar="URL", help="a database that has the site already, at this scale")
    options = parser.parse_args()
    configure_logging(LogSettings(level="error"), "cold-pages")
    with tempfile.TemporaryDirectory(prefix="upquery-cold-") as name:
        directory = Path(name)
        directory.chmod(0o711)
        with database(options, directory) as url:
            settings = Settings(
                upstream=UpstreamSettings(url=url),
                state=StateSettings(directory=directory / "state", checkpoint_s=0),
                engine=EngineSettings(memory=ByteSize(3 << 30)),
                views=tuple(ViewSettings(name=view.name, sql=view.sql) for view in lobsters().views),
            )
            figures = asyncio.run(measure(Runtime(settings, directory / "leaf"), options))
    sys.stdout.write(json.dumps(figures) + "\n")


if __name__ == "__main__":
    main()
