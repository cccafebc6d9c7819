"""Memory that is short: what an eviction may take, and what readers say that they read."""

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from random import Random

from dataflow.engine.effects import Effect, LeafEffect, LeafEvict, LeafExtend, LeafFill, Refresh
from dataflow.engine.events import EvictKey, EvictSome
from dataflow.plan.parts import Lookup
from dataflow.types import Key, ViewId
from tests.simulation.report import require

Touch = tuple[ViewId, Key, int]


def check_eviction(
    event: EvictSome | EvictKey,
    effects: Sequence[Effect],
    pins: Collection[tuple[ViewId, Key]],
    counters: "Counter[str]",
) -> None:
    """Check that keys evicted on purpose stay away, unless they are pinned. The policy may evict so many keys, none of
    them pinned, and nothing is looked up: more would be keys that something still needs."""
    filled = [(effect.view, effect.key) for effect in effects if isinstance(effect, LeafFill | LeafExtend)]
    require(set(filled) <= set(pins), event, "filled", filled)
    if isinstance(event, EvictKey):
        return
    gone = [(effect.view, effect.key) for effect in effects if isinstance(effect, LeafEvict)]
    require(len(gone) <= event.keys, event, "took", gone)
    require(not set(gone) & set(pins), event, "took a pinned key:", gone)
    require(not any(isinstance(effect, Lookup | Refresh) for effect in effects), event, "led to", effects)
    counters["evicted_some"] += len(gone)


def count_refill(effect: LeafEffect, pins: Collection[tuple[ViewId, Key]], refilling: set[tuple[ViewId, Key]]) -> bool:
    """Notes pinned keys that go; whether one has come back."""
    if not isinstance(effect, LeafEvict | LeafFill):
        return False
    at = (effect.view, effect.key)
    if isinstance(effect, LeafEvict):
        refilling |= {at} & set(pins)
        return False
    back = at in refilling
    refilling.discard(at)
    return back


def any_touches(views: Sequence[ViewId], any_key: Callable[[ViewId, bool], Key], rng: Random) -> tuple[Touch, ...]:
    """Keys that are covered, some that are not, and how often they were read."""
    chosen = [rng.choice(views) for _ in range(rng.randint(0, 8))] if views else []
    return tuple((view, any_key(view, rng.random() < 0.8), rng.choice((1, 3, 20, 20))) for view in chosen)
