"""Minimum versions of requests: the check against the leaf store, and the wait.

A position is compared with the store's. Only the engine knows whether transactions, given by global ids, are in the
store; a worker caches its positive answers.

Not here: parsing (`service.ground.version`).
"""

from cdc.gtid import Gtids
from cdc.mysql.position import KIND
from dataflow.types import Position
from service.ground.version import Minimum, refuse_foreign
from service.leaf_store.answer import LeafState
from service.protocol.engine_client import EngineClient

#: Bound on cached intervals of ids, by the length of their text.
_KEPT_CHARACTERS = 10_000


class Minimums:
    """*State*: `_there`, transactions that are in every later state of the store of `_epoch`."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self._epoch = ""
        self._there: Gtids | None = None

    def has(self, state: LeafState, minimum: Minimum) -> bool:
        """Return whether the store, in this state, is known to have reached the minimum."""
        if isinstance(minimum, Position):
            return state.position >= minimum and not (state.position ^ minimum) & KIND
        there = self._there
        return state.epoch == self._epoch and type(there) is type(minimum) and minimum <= there  # type: ignore[operator]

    async def wait(self, state: LeafState | None, minimum: Minimum, limit_s: float) -> None:
        """Wait until the store has reached the minimum; `state` is a current one. Raises ApiError(bad_request,
        version_timeout)."""
        if state is not None:
            refuse_foreign(minimum, state.position)
            if self.has(state, minimum):
                return
        if isinstance(minimum, Position):
            await self._engine.reach(minimum, limit_s)
        else:
            await self._engine.reach_gtids(minimum, limit_s)
            if state is not None:
                self._remember(state.epoch, minimum)

    def _remember(self, epoch: str, gtids: Gtids) -> None:
        """Cache that the transactions are in the store. If another epoch has begun since, the entry of `epoch` is
        never used."""
        there = self._there
        if epoch == self._epoch and type(there) is type(gtids) and len(str(there)) < _KEPT_CHARACTERS:
            gtids = there | gtids  # type: ignore[operator]
        self._epoch, self._there = epoch, gtids
