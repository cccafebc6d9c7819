"""Subscriptions over several shards: each answer is followed at the shard that answers its reads.

An answer of several keys is followed at the shard of the first one, which fills all of them. A token belongs to the
epoch of one shard, and stays valid there while the number of shards does not change.
"""

from collections.abc import Sequence

from service.web.principal import Principal
from service.worker.reads.reads import WantedRead
from service.worker.shards.reads import ShardedReads
from service.worker.subscriptions.topics import Subscription, Subscriptions


class ShardedSubscriptions:
    """The `Subscribes` of several shards."""

    def __init__(self, reads: ShardedReads, shards: Sequence[Subscriptions]) -> None:
        self._reads = reads
        self._shards = shards

    async def subscribe(
        self, wanted: WantedRead, after: str | None = None, principal: Principal | None = None
    ) -> Subscription:
        """Follow an answer at its shard. Raises ApiError."""
        self._reads.refresh()
        shard = self._reads.shard_of(wanted)
        (own,) = self._reads.of_shard(shard, [wanted])
        return await self._shards[shard].subscribe(own, after, principal)
