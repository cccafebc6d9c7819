"""Keys of views as the eviction policy ranks them: their weights, costs and uses.

A key weighs the bytes of its rows, which are in the leaf store, and a fixed part for what is held here; it costs what
its last fill took.

*Maintains*: the policy has exactly the covered keys of views that are not kept whole and that no subscription pins; the
size noted in a view's coverage is about what the key's rows take.

Not here: what goes along with a key (`budget`), what is filled again (`refills`), policies (`dataflow.eviction`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol

from dataflow.engine.counts import NodeCounts
from dataflow.engine.key_sizes import KeySizes
from dataflow.errors import InvariantViolation
from dataflow.eviction.policy import Policy, Standing
from dataflow.sizing import rows_bytes, sampled_bytes, shared_number
from dataflow.state.coverage import Coverage
from dataflow.types import Delta, Key, Row, ViewId

#: A key of a view, as the policy knows it.
LeafKey = tuple[ViewId, Key]

#: What a key takes beside its rows: in its view's coverage, in the policy, in the leaf store.
KEY_BYTES = 600
#: What looking up one more key, or row, costs; a lookup costs 1.
ROW_COST = 0.01
#: What a fill costs that needs no lookup.
_LEAST_COST = 0.1
#: What the policy's tuple takes.
_ITEM_BYTES = 60
#: A view's mean cost follows its fills at this pace.
_PACE = 1 / 16


class Ranked(Protocol):
    """A view with keys."""

    view_id: ViewId
    coverage: Coverage
    #: Subscriptions by key.
    pins: dict[Key, int]
    #: Whether the view is kept whole.
    full: bool
    counts: NodeCounts
    #: What filling one of its keys costs, on average.
    refill_cost: float
    #: If its keys have limits of their own, and change in place.
    sizes: KeySizes | None


class Ranking:
    """Keeps a policy up to date."""

    def __init__(self, policy: Policy[LeafKey]) -> None:
        self._policy = policy

    def __len__(self) -> int:
        return len(self._policy)

    def filled(self, view: Ranked, key: Key, rows: Sequence[Row], cost: float) -> None:
        """`key` is covered by exactly these rows; getting them cost so much."""
        view.coverage.keys[key] = shared_number(sampled_bytes(rows))
        self._has_more(view, key, len(rows))
        self._paid(view, key, cost)

    def extended(self, view: Ranked, key: Key, rows: Sequence[Row], cost: float) -> None:
        """More of `key` is covered: these rows."""
        view.coverage.keys[key] = shared_number(view.coverage.keys[key] + sampled_bytes(rows))
        self._has_more(view, key, len(rows))
        self._paid(view, key, cost)

    @staticmethod
    def _has_more(view: Ranked, key: Key, rows: int) -> None:
        if view.sizes is not None:
            view.sizes.changed(key, rows, view.coverage.keys[key])

    def _paid(self, view: Ranked, key: Key, cost: float) -> None:
        cost = max(cost, _LEAST_COST)
        view.refill_cost += (cost - view.refill_cost) * _PACE
        self._rank(view, key, cost)

    def _rank(self, view: Ranked, key: Key, cost: float) -> None:
        if not view.full and key not in view.pins:
            self._policy.fill((view.view_id, key), KEY_BYTES + view.coverage.keys[key], cost)

    def changed(self, view: Ranked, changes: Mapping[Key, Delta]) -> int:
        """Rows of covered keys went and came; returns how many."""
        number = 0
        for key, (removed, added) in changes.items():
            number += len(removed) + len(added)
            if len(removed) != len(added) and not view.full:
                self._resize(view, key, rows_bytes(added) - rows_bytes(removed))
                self._has_more(view, key, len(added) - len(removed))
        return number

    def _resize(self, view: Ranked, key: Key, more: int) -> None:
        before = view.coverage.keys[key]
        after = max(0, before + more)
        view.coverage.keys[key] = shared_number(after)
        # The policy hears of it when it has doubled or halved.
        if before.bit_length() != after.bit_length():
            self._rank(view, key, view.refill_cost)

    def cleared(self, view: Ranked) -> None:
        """All keys have lost their rows."""
        for key, size in list(view.coverage.keys.items()):
            self._resize(view, key, -size)
        if view.sizes is not None:
            view.sizes.cleared()

    def lost(self, view: Ranked, key: Key) -> bool:
        """`key` is a hole now; whether it is hot: to be filled again at once."""
        item = (view.view_id, key)
        hot = self._policy.is_hot(item)
        self._policy.forget(item)
        if view.sizes is not None:
            view.sizes.lost(key)
        return hot

    def pinned(self, view: Ranked, key: Key) -> None:
        """A subscription to `key` began."""
        self._policy.forget((view.view_id, key))

    def unpinned(self, view: Ranked, key: Key) -> None:
        """The last subscription to `key` ended."""
        if key in view.coverage:
            self._rank(view, key, view.refill_cost)

    def dropped(self, view: Ranked) -> None:
        """The view has gone."""
        for key in view.coverage:
            self._policy.forget((view.view_id, key))

    def touched(self, keys: Iterable[tuple[ViewId, Key, int]]) -> None:
        """Counts reads of keys."""
        for view_id, key, times in keys:
            self._policy.touch((view_id, key), times)

    def standings(self) -> Iterator[tuple[LeafKey, Standing]]:
        """All keys with their standing."""
        return self._policy.standings()

    def restore(self, view: Ranked, key: Key, standing: Standing) -> None:
        """A covered key has the standing that it had in another engine."""
        if not view.full and key not in view.pins:
            self._policy.restore((view.view_id, key), standing)

    def restored(self, views: Iterable[Ranked]) -> None:
        """All keys of these views, of all there are, have been restored; those without a standing get one."""
        views = [view for view in views if not view.full]
        # Nothing else is ranked yet.
        if sum(len(view.coverage) for view in views) == len(self._policy):
            return
        for view in views:
            for key in view.coverage:
                if (view.view_id, key) not in self._policy:
                    self._rank(view, key, view.refill_cost)

    def victim(self) -> LeafKey | None:
        """The key to forget first; None if there is none."""
        return self._policy.victim()

    def state_bytes(self) -> int:
        """About what the policy takes."""
        return self._policy.state_bytes() + _ITEM_BYTES * len(self._policy)

    def check(self, views: Iterable[Ranked]) -> None:
        """Asserts that the policy has what may be chosen, and nothing else; for tests."""
        number = 0
        for view in views:
            if view.sizes is not None and view.sizes.rows.keys() != view.coverage.keys.keys():
                raise InvariantViolation(f"keys of view {view.view_id} are covered whose rows are not counted")
            for key, size in view.coverage.keys.items():
                ranked = (view.view_id, key) in self._policy
                number += ranked
                if ranked == (view.full or key in view.pins):
                    raise InvariantViolation(f"key {key} of view {view.view_id} is ranked exactly if it must not go")
                if size < 0:
                    raise InvariantViolation(f"key {key} of view {view.view_id} takes {size} bytes")
        if number != len(self._policy):
            raise InvariantViolation(f"{len(self._policy)} keys are ranked, {number} are covered")
