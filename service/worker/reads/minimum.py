"""Minimum versions that requests ask for: whether the leaf store has one, and waiting for it.

A position is compared with the store's. What transactions, named by their global ids, are in the store only the engine
knows; of those that it was asked for, a worker remembers that they are.

Not here: their texts (`version`).
"""

from cdc.gtid import Gtids
from cdc.mysql.position import KIND
from dataflow.types import Position
from service.ground.version import Minimum, refuse_foreign
from service.leaf_store.answer import LeafState
from service.protocol.wire import EngineClient

#: Intervals of ids, roughly, that are remembered by their text's length.
_KEPT_CHARACTERS = 10_000


class Minimums:
    """*State*: `_there`, transactions that are in every state of the store of `_epoch` from now on."""

    def __init__(self, engine: EngineClient) -> None:
        self._engine = engine
        self._epoch = ""
        self._there: Gtids | None = None

    def has(self, state: LeafState, minimum: Minimum) -> bool:
        """Whether it is known that the store, in this state, is that new."""
        if isinstance(minimum, Position):
            return state.position >= minimum and not (state.position ^ minimum) & KIND
        there = self._there
        return state.epoch == self._epoch and type(there) is type(minimum) and minimum <= there  # type: ignore[operator]

    async def wait(self, state: LeafState | None, minimum: Minimum, limit_s: float) -> None:
        """Return once the store is that new; `state` is one of now. ApiError ``bad_request``, ``version_timeout``."""
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
        """They were there after the state of `epoch`; should another one have begun, nobody asks for this one."""
        there = self._there
        if epoch == self._epoch and type(there) is type(gtids) and len(str(there)) < _KEPT_CHARACTERS:
            gtids = there | gtids  # type: ignore[operator]
        self._epoch, self._there = epoch, gtids
