"""Several engines as one `Control`: each operation is performed by all engines that it concerns.

A shard may have replicas: engines with the same rows. The shard is then whichever of them answers (`replicas`), and
`everyone` are all of them, which have views, keys and counters of their own.

Not here: the operations (`service.engine.admin.operations`), merging of replies (`merge`), views that are the same
at all engines (`registration`).
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

from service.ground.errors import ApiError
from service.leaf_store.layout import key_part
from service.protocol.admin_models import (
    Evicted,
    EvictKeys,
    Footprints,
    Health,
    Plan,
    PlanNode,
    Prewarmed,
    PrewarmKeys,
    ViewState,
)
from service.protocol.admin_operations import (
    BeginPrewarm,
    Control,
    Evict,
    ExplainView,
    GetFootprints,
    GetGraph,
    GetHealth,
    GetStats,
    GetView,
    ListChanges,
    ListPrewarms,
    ListViews,
    Operation,
    PutResult,
    RegisterView,
    RemoveView,
    SettleView,
    ViewChange,
)
from service.protocol.stats import Stats
from service.sharding.homes import homes_among
from service.supervisor.admin.delegation import DelegatedOperations
from service.supervisor.admin.merge import (
    ELSEWHERE,
    merged_filling,
    merged_footprints,
    merged_health,
    merged_stats,
    merged_view,
    merged_views,
)
from service.supervisor.admin.registration import Registering, answer_of, is_away

R = TypeVar("R")
#: Texts of a view's parameters.
KeyTexts = Sequence[str | None]
#: The shard at which a key of a view is read, given the number of shards and the view's state at one of them.
Place = Callable[[int, ViewState], Callable[[KeyTexts], int]]


class Engines(DelegatedOperations):
    """A `Control`. *State*: the engines, which `follow` may change."""

    def __init__(
        self,
        shards: Sequence[Control],
        everyone: Sequence[Control] | None = None,
        registering: Registering | None = None,
        place: Place | None = None,
    ) -> None:
        self._registering = registering or Registering()
        self._place = place or _by_entry
        self.follow(shards, everyone)

    def follow(self, shards: Sequence[Control], everyone: Sequence[Control] | None = None) -> None:
        """Replaces the engines; `everyone`: with all replicas, in the shards' order."""
        self._shards = tuple(shards)
        self._everyone = self._shards if everyone is None else tuple(everyone)

    async def delegate(self, operation: Operation[R]) -> R:
        return await self._shards[0].call(operation)

    async def _all(self, operation: Operation[R]) -> list[R]:
        """Replies of all shards. Raises ApiError if one does not answer."""
        return await asyncio.gather(*(shard.call(operation) for shard in self._shards))

    async def _reachable(self, operation: Operation[R]) -> list[R]:
        """Replies of all engines that can be reached. Raises ApiError if none can, or if one refuses."""
        answers = [answer for _, answer in await asyncio.gather(*(answer_of(e, operation) for e in self._everyone))]
        failed = [answer for answer in answers if isinstance(answer, ApiError)]
        replies = [answer for answer in answers if not isinstance(answer, ApiError)]
        refused = [error for error in failed if not is_away(error)]
        if refused or (failed and not replies):
            raise (refused or failed)[0]
        return replies

    # Questions

    async def views(self) -> list[ViewState]:
        return merged_views(await self._reachable(ListViews()))

    async def view(self, name: str) -> ViewState:
        return merged_view(await self._states(name))

    async def _states(self, name: str) -> list[ViewState]:
        """A view's states at the shards that have it. Raises ApiError(view_not_found)."""
        states = [view for views in await self._reachable(ListViews()) for view in views if view.name == name]
        if not states:
            raise ApiError("view_not_found", f"View {name!r} does not exist.")
        return states

    async def plan(self, name: str) -> Plan:
        """The plan of the shard that maintains the view, or of the first that has it."""
        shards = self._shards
        home = homes_among(len(shards)).of_view(name)
        failed: ApiError | None = None
        for number in sorted(range(len(shards)), key=lambda shard: shard != home):
            try:
                return await shards[number].call(ExplainView(name))
            except ApiError as error:
                failed = failed or error
        assert failed is not None
        raise failed

    async def graph(self, shard: int | None) -> list[PlanNode]:
        shard = shard or 0
        if shard >= len(self._shards):
            raise ApiError("bad_request", f"There is no shard {shard}.", f"The last one is {len(self._shards) - 1}.")
        return await self._shards[shard].call(GetGraph(shard))

    async def footprints(self) -> Footprints:
        return merged_footprints(await self._reachable(GetFootprints()))

    async def stats(self) -> Stats:
        return merged_stats(await self._reachable(GetStats()))

    async def health(self) -> Health:
        return merged_health(await self._all(GetHealth()))

    async def changes(self) -> dict[str, ViewChange]:
        """Changes that all engines know; one that some have missed is sent again."""
        of_all = await self._all(ListChanges())
        names = set.intersection(*(set(changes) for changes in of_all))
        return {name: min((changes[name] for changes in of_all), key=lambda change: change.at_ms) for name in names}

    async def prewarmed(self) -> list[Prewarmed]:
        return [each for of_shard in await self._reachable(ListPrewarms()) for each in of_shard]

    # Changes

    async def register(self, wanted: RegisterView) -> PutResult:
        return await self._registering.put(self._everyone, wanted)

    async def remove(self, wanted: RemoveView) -> None:
        await self._registering.drop(self._everyone, wanted)

    async def settle(self, wanted: SettleView) -> bool:
        return any(await self._all(wanted))

    async def evict(self, wanted: EvictKeys) -> Evicted:
        share = None if wanted.state_bytes is None else -(-wanted.state_bytes // len(self._everyone))
        if wanted.view is not None:
            await self._states(wanted.view)
        done = await self._evicted(wanted.model_copy(update={"state_bytes": share}))
        # A key that was named has one home, and any shard may have it besides.
        keys = [each.keys for each in done]
        return Evicted(views=int(wanted.view is not None), keys=max(keys) if wanted.keys is not None else sum(keys))

    async def _evicted(self, wanted: EvictKeys) -> list[Evicted]:
        """Replies of the engines that have the view: an ad-hoc view is not at all of them. Raises ApiError if no engine
        has evicted anything."""
        answers = [answer for _, answer in await asyncio.gather(*(answer_of(e, Evict(wanted)) for e in self._everyone))]
        failed = [answer for answer in answers if isinstance(answer, ApiError)]
        done = [answer for answer in answers if not isinstance(answer, ApiError)]
        refused = [e for e in failed if e.code != "view_not_found" and not self._registering.may_miss(e)]
        if refused or not done:
            raise (refused or failed)[0]
        return done

    async def prewarm(self, wanted: PrewarmKeys) -> Prewarmed:
        """Fills each key at its home; keys of a fully materialized view at the view's."""
        view, shards = wanted.view, self._shards
        states = await self._all(GetView(view))
        whole = any(state.status == ELSEWHERE for state in states)
        home, of_key = homes_among(len(shards)).of_view(view), self._place(len(shards), states[0])
        own: dict[int, list[list[str | None]]] = {}
        for key in wanted.keys:
            own.setdefault(home if whole else of_key(key), []).append(key)
        begun = await asyncio.gather(
            *(shards[shard].call(BeginPrewarm(wanted.model_copy(update={"keys": keys}))) for shard, keys in own.items())
        )
        return merged_filling(begun)


def _by_entry(shards: int, state: ViewState) -> Callable[[KeyTexts], int]:
    """The shard of a key as workers choose it (`service.worker.shards.placement`)."""
    of_key = homes_among(shards).keys_of(state.name)
    return lambda key: of_key(key_part(tuple(key)))
