"""The pods of all shards, from the settings, and the shards and replicas to ask.

*Theory*: if the number of shards changes, slots move only when the new shards can answer, and then one by one
(`moving`). Removed shards are asked until no slot is left with them.

*Invariants*: a pod whose address remains in the settings keeps its connections. While slots move, a slot whose home
is unreachable is read at its new home.

Not here: changes of the file (`service.settings.gateway_file`).
"""

import asyncio
from collections.abc import Iterator
from itertools import count

import structlog

from service.gateway.counting import GatewayCounters
from service.gateway.known import LearnedViews
from service.gateway.moving import SlotHomes, homes_of_all
from service.gateway.pods import ShardPods
from service.gateway.replica import PodTimeouts, Replica
from service.settings.gateway import GatewaySection
from service.sharding.homes import SLOTS, homes_among

#: Intervals of moves of slots, and of attempts to reach new shards.
_MOVE_EACH_S, _TRY_EACH_S = 0.1, 0.5
_log = structlog.get_logger(__name__)


class Topology:
    """*State*: `shards` are those that may be asked; `settled`, their number before the change in progress, if there
    is one; `_earlier`, their number before the last completed change: a fully materialized view may take longer to
    build at its new home than keys take to move."""

    def __init__(
        self, settings: GatewaySection, reach: PodTimeouts, known: LearnedViews, counters: GatewayCounters
    ) -> None:
        self._known = known
        self._reach = reach
        self._counters = counters
        self._move_s = settings.move_s
        self._replicas: dict[str, Replica] = {}
        self._slots = count()
        self._changing: asyncio.Task[None] | None = None
        self.settled = self._earlier = settings.shards
        self.homes = SlotHomes(settings.shards)
        self.shards = self._made(settings)

    def home(self, slot: int) -> int:
        """Return the shard of a slot."""
        shard = self.homes.home(slot)
        if self._changing is not None and not self.shards[shard].is_there:
            return self.homes.new_home(slot)
        return shard

    def pods(self, shard: int) -> ShardPods:
        """Return the replicas of a shard; of the first one if the shard was removed after it was chosen: any shard
        can answer keys."""
        return self.shards[shard if shard < len(self.shards) else 0]

    def homes_of_view(self, view: str) -> list[int]:
        """Return the shards that may have a fully materialized view, most likely first."""
        counts = (self.homes.shards, self.settled, self._earlier)
        homes = dict.fromkeys(homes_among(shards).of_view(view) for shards in counts)
        return [home for home in homes if home < len(self.shards)]

    def any_slot(self) -> int:
        """Return the next slot in turn, for requests without a key, so that all replicas get equally many."""
        return next(self._slots) % SLOTS

    def change(self, settings: GatewaySection) -> None:
        before, shards = self.shards, self._made(settings)
        # Removed shards are asked as long as they have slots.
        self.shards = [*shards, *before[len(shards) :]]
        if self._changing is not None:
            self._changing.cancel()
            self._changing = None
        if settings.shards != self.homes.shards or self.homes.is_moving or len(before) > len(shards):
            self._changing = asyncio.ensure_future(self._change(settings.shards))
        else:
            self._settle(settings.shards)

    async def close(self) -> None:
        if self._changing is not None:
            self._changing.cancel()
        for replica in self._replicas.values():
            replica.close(now=True)

    @property
    def away(self) -> list[str]:
        """Return the addresses of unreachable pods."""
        return [replica.address for replica in self._all() if replica.is_away]

    async def _change(self, shards: int) -> None:
        _log.info("the number of shards changes", before=self.settled, after=shards)
        for pods in self.shards[self.settled : shards]:
            await self._until_ready(pods)
        # With many shards it takes longer than requests should wait.
        await asyncio.to_thread(homes_of_all, shards)
        self._known.forget_homes()
        loop = asyncio.get_running_loop()
        self.homes.change(shards, loop.time(), self._move_s)
        while self.homes.is_moving:
            self.homes.move(loop.time())
            await asyncio.sleep(_MOVE_EACH_S)
        self._changing = None
        self._settle(shards)
        _log.info("all keys have their homes", shards=shards)

    async def _until_ready(self, pods: ShardPods) -> None:
        while not any([await replica.is_ready() for replica in pods.replicas]):
            await asyncio.sleep(_TRY_EACH_S)

    def _settle(self, shards: int) -> None:
        """Remove shards that are not asked any more."""
        if shards != self.settled:
            self.settled, self._earlier = shards, self.settled
        self._known.forget_homes()
        self.shards = self.shards[:shards]
        there = {replica.address for replica in self._all()}
        for address in self._replicas.keys() - there:
            self._replicas.pop(address).close()

    def _made(self, settings: GatewaySection) -> list[ShardPods]:
        return [
            ShardPods(number, tuple(map(self._replica, *addresses)), self._counters)
            for number, addresses in enumerate(zip(settings.pods, settings.admin_pods, strict=True))
        ]

    def _replica(self, address: str, admin: str) -> Replica:
        replica = self._replicas.get(address)
        if replica is None:
            replica = self._replicas[address] = Replica(address, self._reach, admin)
        replica.admin = admin
        return replica

    def _all(self) -> Iterator[Replica]:
        return (replica for pods in self.shards for replica in pods.replicas)
