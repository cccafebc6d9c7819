"""Cache-aside as a careful team writes it: a read asks the cache, then the database, and keeps what it said for a time.

Objects that are asked for in lists are cached one by one (`objects`). Several keys are read in one round trip, misses
of one request are one round trip to the database, requests that miss the same key at the same time wait for the first
of them. With invalidation a write deletes, after its commit, the keys that its author knows to be wrong then; who reads
after that is not joined to a computation that began before.

What remains wrong, as it does with every cache-aside: a computation that read before a commit and is stored after the
deletion, until the time to live is over; and views whose keys the write does not know.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import islice

from load.peers.backend import BackendAnswers, Read
from load.peers.cache import Cache, key_of
from load.peers.database import Database
from load.peers.objects import of_one, reads_of_each, together
from load.peers.statements import Values
from load.site import SiteDefinition, SiteWrite


class CacheAside:
    """A `Backend`. * *Maintains*: `_flights` has the misses that are being computed, by key."""

    def __init__(
        self, database: Database, cache: Cache, site: SiteDefinition, *, invalidate: bool, ttl_s: int | None
    ) -> None:
        self._database = database
        self._cache = cache
        self._ttl_s = ttl_s
        self._invalidations = {write.name: Invalidation(site, write) for write in site.writes if invalidate}
        self._flights: dict[bytes, asyncio.Future[bytes]] = {}
        self._objects: set[str] = set()
        for view in site.views:
            if (one := of_one(view)) is not None:
                self._objects.add(view.name)
                database.add(one)

    async def open(self) -> None:
        """Connect to the database."""
        await self._database.open()

    async def read(self, reads: Sequence[Read]) -> BackendAnswers:
        """From the cache, else from the database."""
        if self._objects.isdisjoint([view for view, _ in reads]):
            return await self._read(reads)
        apart = [reads_of_each(*read) if read[0] in self._objects else [read] for read in reads]
        answers = await self._read([read for parts in apart for read in parts])
        following = iter(answers.rows)
        taken = [list(islice(following, len(parts))) for parts in apart]
        rows = [together(t) if view in self._objects else t[0] for (view, _), t in zip(reads, taken, strict=True)]
        return BackendAnswers(rows, answers.hit)

    async def _read(self, reads: Sequence[Read]) -> BackendAnswers:
        if len(reads) == 1:
            key = key_of(reads[0])
            found = await self._cache.get(key)
            if found is not None:
                return BackendAnswers([found], hit=True)
            return BackendAnswers([(await self._fill({key: reads[0]}))[key]], hit=False)
        if not reads:
            return BackendAnswers([], hit=True)
        keys = [key_of(read) for read in reads]
        cached = await self._cache.get_many(keys)
        missing = {key: read for key, read, rows in zip(keys, reads, cached, strict=True) if rows is None}
        filled = await self._fill(missing) if missing else {}
        rows = [filled[key] if rows is None else rows for key, rows in zip(keys, cached, strict=True)]
        return BackendAnswers(rows, hit=not missing)

    async def write(self, name: str, values: Values) -> str:
        """Into the database; then what was cached of it goes."""
        token = await self._database.write(name, values)
        invalidation = self._invalidations.get(name)
        if invalidation is not None and (keys := invalidation.keys(values)):
            for key in keys:
                self._flights.pop(key, None)
            await self._cache.delete_many(keys)
        return token

    async def _fill(self, missing: Mapping[bytes, Read]) -> dict[bytes, bytes]:
        """The rows of what is not cached, each computed once however many want it."""
        joined = {key: self._flights[key] for key in missing if key in self._flights}
        filled = await self._compute({key: read for key, read in missing.items() if key not in joined})
        for key, flight in joined.items():
            filled[key] = await flight
        return filled

    async def _compute(self, reads: Mapping[bytes, Read]) -> dict[bytes, bytes]:
        """Asks the database, and keeps what it said."""
        if not reads:
            return {}
        loop = asyncio.get_running_loop()
        flights = {key: loop.create_future() for key in reads}
        self._flights.update(flights)
        try:
            filled = dict(zip(reads, await self._database.read_many(list(reads.values())), strict=True))
            for key, rows in filled.items():
                flights[key].set_result(rows)
            await self._cache.set_many(filled, self._ttl_s)
        finally:
            for key, flight in flights.items():
                _fail(flight)
                if self._flights.get(key) is flight:
                    del self._flights[key]
        return filled


def _fail(flight: asyncio.Future[bytes]) -> None:
    """Requests that wait for a failed one fail, too."""
    if not flight.done():
        flight.set_exception(ConnectionError("the request that asked for this first has failed"))
        # Nobody need be waiting.
        flight.exception()


class Invalidation:
    """Which keys a write makes wrong, by its parameters."""

    def __init__(self, site: SiteDefinition, write: SiteWrite) -> None:
        views = {view.name: view for view in site.views}
        names = list(write.parameters)
        objects = {view.name: one.name for view in site.views if (one := of_one(view)) is not None}
        #: Views with, for each of their parameters, the place of the write's.
        self._places = [
            (objects.get(view, view), [names.index(made_of[name].removeprefix(":")) for name in views[view].parameters])
            for view, made_of in write.invalidates
        ]

    def keys(self, values: Values) -> list[bytes]:
        return [key_of((view, tuple([values[place] for place in places]))) for view, places in self._places]
