"""Reads over several shards, with one version for all answers of a request (for one shard: `Reads`).

*Theory*: each shard answers its part, exact in an interval of positions (`service.sharding.common_version`). If the
intervals do not overlap, the lagging shards are awaited and all stores are read again, a few times. Constant changes
may prevent a common version; then one shard answers the whole request, since any can answer any key. Only a request
for views that are fully materialized in different shards may then be refused; it can be retried.
`service.gateway.batches` does the same over HTTP.

*Invariants*: all answers of one call are exact at one version, or an error is raised. No transaction of a leaf store
is open during an await.

Not here: the choice of shards (`placement`), reads of one shard (`service.worker.reads.one_shard`); requests
(`router`, `batch`).
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress

from dataflow.types import Position
from service.ground.errors import ApiError
from service.ground.version import Minimum
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.request import Values
from service.protocol.engine_client import EngineClient
from service.protocol.reads import AnswerSource
from service.settings.sections import HttpSettings
from service.sharding.common_version import CommonVersion, awaited, late, meet, reached
from service.sharding.scatter import ShardPart, joined, split
from service.web.principal import Principal
from service.worker.reads.engine_queue import Waiting
from service.worker.reads.notes import NOTED
from service.worker.reads.one_shard import ShardQuestion
from service.worker.reads.reads import Answers, Reads, ViewRoute, WantedRead
from service.worker.shards.placement import PlacedView, Placing

#: Attempts at a common version before one shard answers.
_ROUNDS = 3


class ShardedReads:
    """The reads of one worker over all shards. *Maintains*: `routes` has the views of all catalogs, each from a
    shard that has it."""

    def __init__(self, shards: Sequence[Reads], engines: Sequence[EngineClient]) -> None:
        self.shards = shards
        self.placing = Placing.over(shards)
        self.routes: dict[str, ViewRoute] = {}
        #: Requests over several shards, by the way in which they reached one version.
        self.outcomes: Counter[str] = Counter()
        self._engines = engines

    @property
    def limits(self) -> HttpSettings:
        return self.shards[0].limits

    @property
    def waiting(self) -> Waiting:
        """The limit on requests that wait for the first shard."""
        return self.shards[0].waiting

    @property
    def catalog(self) -> object:
        """An object that is replaced whenever a catalog changes."""
        return self.placing.catalogs

    def refresh(self) -> None:
        if self.placing.follow():
            self.routes = {name: placed.route for name, placed in self.placing.views.items()}

    def route(self, name: str, principal: Principal | None) -> ViewRoute:
        """Follow the catalogs and return a readable view. Raises ApiError, as `Reads.route`."""
        self.refresh()
        return self.listed(name, principal)

    def listed(self, name: str, principal: Principal | None) -> ViewRoute:
        """Return a readable view of the latest known catalogs. Raises ApiError."""
        placed = self.placing.views.get(name)
        shard = self.placing.unknown() if placed is None else placed.shard
        return self.shards[shard].listed(name, principal)

    def shard_of(self, wanted: WantedRead) -> int:
        """Return the shard that answers a read."""
        placed = self.placing.views.get(wanted.view.info.name)
        return 0 if placed is None else placed.of_values(wanted.values)

    def of_shard(self, shard: int, wanted: Sequence[WantedRead]) -> list[WantedRead]:
        """Return the reads with the routes of a shard. Raises ApiError if it has other views of these names."""
        routes, same = self.shards[shard].routes, []
        for each in wanted:
            info = each.view.info
            route = routes.get(info.name)
            if route is None:
                # It raises the error of a starting shard, or of the view.
                route = self.shards[shard].listed(info.name, None)
            if route is not each.view and not is_same(route.info, info):
                raise ApiError("view_building", f"View {info.name!r} is being replaced.", "Try again in a moment.")
            same.append(WantedRead(route, each.values, each.window))
        return same

    def are_replaced(self, views: Sequence[ViewRoute]) -> bool:
        """Return whether one of the names denotes another view by now."""
        self.refresh()
        return any(
            route is not None and not is_same(route.info, view.info)
            for view in views
            for route in [self.routes.get(view.info.name)]
        )

    async def checkpoint(self) -> Position:
        """Return the upstream's current position, from any running shard. Raises ApiError."""
        failed: ApiError | None = None
        for reads in self.shards:
            try:
                return await reads.checkpoint()
            except ApiError as error:
                failed = failed or error
        assert failed is not None
        raise failed

    def parts(self, wanted: Sequence[WantedRead]) -> list[ShardPart[WantedRead]]:
        """Return the reads by shard."""
        return split(wanted, map(self.shard_of, wanted))

    def at_once(self, parts: Sequence[ShardPart[WantedRead]]) -> Answers | None:
        """Return the answers if all are hits at one version. Raises ApiError."""
        asking = self._asking(parts)
        if any(part.bounded for part in asking):
            return None
        if not all(part.look() for part in asking):
            return None
        met = meet([part.timeline for part in asking])
        if met is None:
            return None
        for part in asking:
            part.reads.count_hits(part.wanted)
        self.outcomes["met"] += 1
        answers = _answers(parts, met)
        if (noted := NOTED.get()) is not None:
            noted.answered(_noted(parts), answers.answers, None)
        return answers

    async def serve(
        self, wanted: Sequence[WantedRead], wait_s: float | None = None, minimum: Minimum | None = None
    ) -> Answers:
        """Read as `Reads.serve`, over the shards concerned; each waits for the minimum version. Raises ApiError."""
        parts = self.parts(wanted)
        if len(parts) <= 1:
            return await self._by_one(parts[0].shard if parts else 0, wanted, wait_s, minimum)
        noted, token = NOTED.get(), NOTED.set(None)
        try:
            answers = await self._serve(parts, wanted, wait_s, minimum)
        except ApiError:
            if noted is not None:
                noted.failed(_noted(parts))
            raise
        finally:
            NOTED.reset(token)
        if noted is not None:
            noted.answered(_noted(parts), answers.answers, None if answers.hit else answers.source)
        return answers

    async def _by_one(
        self, shard: int, wanted: Sequence[WantedRead], wait_s: float | None, minimum: Minimum | None
    ) -> Answers:
        reads = self.shards[shard]
        mine = self.of_shard(shard, wanted)
        position = None if minimum is None else await reads.wait_for(minimum, wait_s)
        return await reads.serve(mine, wait_s, position)

    async def _serve(
        self,
        parts: Sequence[ShardPart[WantedRead]],
        wanted: Sequence[WantedRead],
        wait_s: float | None,
        minimum: Minimum | None,
    ) -> Answers:
        one = self._one_of(parts)
        if one is not None and any(w.view.max_lag_ms is not None for w in wanted):
            # A fallback has a version of its own in each shard.
            return await self._by_one(one, wanted, wait_s, minimum)
        asking = self._asking(parts)
        await asyncio.gather(*(part.first(wait_s, minimum) for part in asking))
        met = await self._met(asking, [self._engines[part.shard] for part in parts], wait_s, minimum)
        if met is not None:
            self.outcomes["met_again" if any(len(part.timeline) > 1 for part in asking) else "met"] += 1
            return _answers(parts, met)
        if one is not None:
            self.outcomes["one_shard"] += 1
            return await self._by_one(one, wanted, wait_s, minimum)
        self.outcomes["apart"] += 1
        raise ApiError(
            "versions_apart",
            "The requested keys are on several shards and change too fast for a common version.",
            "Try again, or request fewer keys at once.",
        )

    async def _met(
        self,
        asking: Sequence[ShardQuestion],
        engines: Sequence[EngineClient],
        wait_s: float | None,
        minimum: Minimum | None,
    ) -> CommonVersion[Answers] | None:
        """Return answers at a common version; None if no attempt found one."""
        until_s = time.monotonic() + self.limits.read_timeout_s
        for _ in range(_ROUNDS):
            timelines = [part.timeline for part in asking]
            if not all(timelines) or len({timeline[-1].server for timeline in timelines}) > 1:
                return None
            least = 0 if minimum is None else reached(timelines)
            if (met := meet(timelines, least=least)) is not None:
                return met
            target = awaited(timelines)
            try:
                await asyncio.gather(
                    *(engines[n].reach(target, max(0.0, until_s - time.monotonic())) for n in late(timelines))
                )
            except ApiError:
                return None
            # Read all stores in immediate succession, which makes overlaps most likely.
            missing = [part for part in asking if not part.look()]
            with suppress(ApiError):
                await asyncio.gather(*(part.ask(wait_s) for part in missing))
        timelines = [part.timeline for part in asking]
        return meet(timelines, least=0 if minimum is None else reached(timelines))

    def _asking(self, parts: Sequence[ShardPart[WantedRead]]) -> list[ShardQuestion]:
        return [ShardQuestion(self.shards[part.shard], self.of_shard(part.shard, part.items)) for part in parts]

    def _one_of(self, parts: Sequence[ShardPart[WantedRead]]) -> int | None:
        """Return the shard that can answer all reads; None if several views are fully materialized in different
        shards."""
        whole = {part.shard for part in parts if any(map(self._is_whole, part.items))}
        if len(whole) > 1:
            return None
        return whole.pop() if whole else max(parts, key=lambda part: len(part.items)).shard

    def _is_whole(self, wanted: WantedRead) -> bool:
        placed: PlacedView | None = self.placing.views.get(wanted.view.info.name)
        return placed is not None and placed.whole


def is_same(one: ViewInfo, other: ViewInfo) -> bool:
    """Return whether values of parameters have the same meaning in both views."""
    return one.definition == other.definition


def _noted(parts: Sequence[ShardPart[WantedRead]]) -> list[tuple[ViewInfo, Values]]:
    return joined(parts, [[(w.view.info, w.values) for w in part.items] for part in parts])


def _answers(parts: Sequence[ShardPart[WantedRead]], met: CommonVersion[Answers]) -> Answers:
    read = [exact.answers for exact in met.parts]
    return Answers(
        joined(parts, [each.answers for each in read]),
        met.position,
        min(each.at_ms for each in read),
        all(each.hit for each in read),
        next((each.source for each in read if each.source is not AnswerSource.STORED), AnswerSource.STORED),
    )
