"""The leaf store as a dictionary, kept by an engine's leaf effects and nothing else."""

from collections import Counter

from dataflow.engine.effects import (
    LeafChange,
    LeafClear,
    LeafDrop,
    LeafEffect,
    LeafEvict,
    LeafExtend,
    LeafFill,
    LeafFillAll,
    LeafForget,
    LeafLoaded,
    ViewStatus,
)
from dataflow.plan.parts import WHOLE, Interval
from dataflow.types import Key, Row, ViewId


class WrongEffectError(AssertionError):
    """An effect that the leaf store could not have carried out."""


class LeafView:
    """The covered keys of one view. A full view covers every key; one without rows is not in `rows`. Before it is ready
    nobody looks at it."""

    __slots__ = ("full", "parts", "ready", "rows")

    def __init__(self) -> None:
        self.full = False
        #: Whether what a full view has is all.
        self.ready = False
        self.rows: dict[Key, Counter[Row]] = {}
        #: The covered intervals of keys that are covered in part.
        self.parts: dict[Key, tuple[Interval, ...]] = {}

    def covers(self, key: Key) -> bool:
        """Return whether a read of the whole key is a hit."""
        return self.ready if self.full else key in self.rows and key not in self.parts

    def holds(self, key: Key) -> bool:
        """Return whether something of the key is covered."""
        return self.ready if self.full else key in self.rows

    def covered(self, key: Key) -> tuple[Interval, ...]:
        """The covered intervals of a key."""
        return self.parts.get(key, (WHOLE,)) if self.holds(key) else ()

    def extend(self, key: Key, rows: list[Row], covered: tuple[Interval, ...]) -> None:
        """More of a key is covered."""
        if self.covers(key):
            raise WrongEffectError(f"an extension of key {key}, which is covered whole")
        self.rows.setdefault(key, Counter()).update(rows)
        self.parts[key] = covered
        if covered == (WHOLE,):
            del self.parts[key]

    def change(self, key: Key, removed: list[Row], added: list[Row]) -> None:
        """Rows that go and come under a covered key."""
        if None in key and key not in self.rows:
            return
        if not self.full and key not in self.rows:
            raise WrongEffectError(f"a change of key {key}, which is not covered")
        bag = self.rows.setdefault(key, Counter())
        if set(removed) & set(added):
            raise WrongEffectError(f"equal rows go and come under {key}: {removed} {added}")
        for row in removed:
            if not bag[row]:
                raise WrongEffectError(f"{row} is removed from {key}, which holds {dict(bag)}")
            bag[row] -= 1
            if not bag[row]:
                del bag[row]
        bag.update(added)


class LeafModel:
    """All views' covered keys. `touched` collects the views whose rows may differ from what was compared last."""

    def __init__(self) -> None:
        self.views: dict[ViewId, LeafView] = {}
        self.touched: set[ViewId] = set()
        #: Views of which all was written that are not said to be ready yet: by the end of the step they are.
        self.loaded: set[ViewId] = set()

    def report(self, status: ViewStatus) -> None:
        """A view is building, ready or broken."""
        leaf = self.views.get(status.view)
        if leaf is not None and leaf.full:
            leaf.ready = status.status == "ready"
            self.touched.add(status.view)
            self.loaded.discard(status.view)

    def covers(self, view: ViewId, key: Key) -> bool:
        """Return whether a read of the key is a hit."""
        return view in self.views and self.views[view].covers(key)

    def apply(self, effect: LeafEffect) -> None:
        """Carry one effect out."""
        self.touched.add(effect.view)
        leaf = self.views.setdefault(effect.view, LeafView())
        if isinstance(effect, LeafFill):
            leaf.rows[effect.key] = Counter(effect.rows)
            leaf.parts.pop(effect.key, None)
        elif isinstance(effect, LeafExtend):
            leaf.extend(effect.key, effect.rows, effect.covered)
        elif isinstance(effect, LeafFillAll):
            leaf.full, leaf.ready = True, False
            leaf.rows = {key: Counter(rows) for key, rows in effect.rows.items() if None not in key}
        elif isinstance(effect, LeafChange):
            for key, (removed, added) in effect.changes.items():
                leaf.change(key, removed, added)
        elif isinstance(effect, LeafClear):
            leaf.rows = {key: Counter() for key in leaf.rows}
        elif isinstance(effect, LeafEvict):
            self.evict(leaf, effect)
        elif isinstance(effect, LeafLoaded):
            if not leaf.full or leaf.ready:
                raise WrongEffectError(f"{effect}, which was not being written")
            self.loaded.add(effect.view)
        elif isinstance(effect, LeafForget):
            self.views[effect.view] = LeafView()
        elif isinstance(effect, LeafDrop):
            del self.views[effect.view]

    def evict(self, leaf: LeafView, effect: LeafEvict) -> None:
        """A key, or all of a full view, is a hole again."""
        if leaf.full:
            if effect.key != ():
                raise WrongEffectError(f"key {effect.key} of a full view is evicted")
            leaf.full = leaf.ready = False
            leaf.rows = {}
        elif leaf.rows.pop(effect.key, None) is None:
            raise WrongEffectError(f"key {effect.key} is evicted, which is not covered")
        else:
            leaf.parts.pop(effect.key, None)
