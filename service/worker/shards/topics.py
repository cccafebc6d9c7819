"""Subscriptions over several shards: each answer is followed at the shard that answers its reads.

What is told of several keys at once is told by the shard of the first one, which fills all of them. So a token belongs
to the continuity of one shard, and stays with it as long as the number of shards is the same.
"""

from collections.abc import Sequence

from service.web.principal import Principal
from service.worker.reads.reads import WantedRead
from service.worker.shards.reads import ShardedReads
from service.worker.subscriptions.topics import Subscription, Subscriptions


class ShardedSubscriptions:
    """Is a `Subscribes`."""

    def __init__(self, reads: ShardedReads, shards: Sequence[Subscriptions]) -> None:
        self._reads = reads
        self._shards = shards

    async def subscribe(
        self, wanted: WantedRead, after: str | None = None, principal: Principal | None = None
    ) -> Subscription:
        """Follows an answer at its shard. ApiError."""
        self._reads.refresh()
        shard = self._reads.shard_of(wanted)
        (own,) = self._reads.of_shard(shard, [wanted])
        return await self._shards[shard].subscribe(own, after, principal)
