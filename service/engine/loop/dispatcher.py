"""Dispatcher: the only caller of `Engine.step`; performs the effects of each step.

A step and its leaf commit run without yielding the loop, so other tasks see both or neither: no queue of events and no
lock is needed. An answer is read from the leaf store right after the commit that completed it, before another event
could evict its rows.

Invariants: after a step failed, no event reaches that engine and nothing more is committed from it.

Not here: the performers of effects (registered by `on`).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, TypeVar

import structlog

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
    Reach,
    ViewStatus,
)
from dataflow.engine.engine import Engine
from dataflow.engine.events import (
    Advance,
    Apply,
    Event,
    LoadRows,
    LookupsDone,
    Read,
    ReadBatch,
    RefreshDone,
    SnapshotTaken,
    StreamStarted,
    Work,
)
from dataflow.types import Position
from service.engine.loop.ages import Ages
from service.leaf_store.writer import LeafWriter
from service.protocol.counters import Counters

log = structlog.get_logger()
E = TypeVar("E")

_LEAF = frozenset(
    {LeafFill, LeafExtend, LeafFillAll, LeafChange, LeafClear, LeafEvict, LeafLoaded, LeafForget, LeafDrop}
)
#: Events after which readers see a new position or age, even if no row changed.
_MOVES = frozenset({StreamStarted, Apply, Advance, SnapshotTaken})
#: Events that may increase memory use. A read fills keys that can be computed from cached rows; rows of a lookup are
#: stored once the stream has reached its position.
_GROWS = frozenset({Read, ReadBatch, LookupsDone, LoadRows, Work, RefreshDone, Apply, Advance})


class Dispatcher:
    """Steps `engine`, commits to `leaf` and hands the other effects to their registered performers.

    State: `failure` is the event at which the engine failed; while it is set, steps do nothing.
    """

    def __init__(self, leaf: LeafWriter, ages: Ages, counters: Counters) -> None:
        self._leaf = leaf
        self._ages = ages
        self._counters = counters
        self._performers: dict[type, Callable[[Any], None]] = {}
        self._watchers: list[Callable[[Position], None]] = []
        self._on_commit: Callable[[Sequence[LeafEffect], Position], None] = lambda *_: None
        self._on_start: Callable[[], None] = lambda: None
        self._on_growth: Callable[[], None] = lambda: None
        self._on_work: Callable[[], None] = lambda: None
        self._on_failure: Callable[[Event], None] = lambda _: None
        self.engine: Engine | None = None
        self.failure: Event | None = None

    def on(self, effect: type[E], perform: Callable[[E], None]) -> None:
        """Registers `perform` for an effect; it runs after the step's commit (`ViewStatus`: before it, as part of
        it)."""
        self._performers[effect] = perform

    def on_reach(self, reach: Callable[[Position], None]) -> None:
        """Registers `reach` for each position that the engine waits for."""
        self.on(Reach, lambda effect: reach(effect.position))

    def on_move(self, watch: Callable[[Position], None]) -> None:
        """Registers `watch` for the position after each commit that may have moved it."""
        self._watchers.append(watch)

    def on_commit(self, tell: Callable[[Sequence[LeafEffect], Position], None]) -> None:
        """Registers `tell` for the leaf effects and the position of each commit that has any."""
        self._on_commit = tell

    def on_start(self, tell: Callable[[], None]) -> None:
        """Registers `tell` for the start of each engine."""
        self._on_start = tell

    def on_growth(self, tell: Callable[[], None]) -> None:
        """Registers `tell` for each step that may have increased memory use."""
        self._on_growth = tell

    def on_work(self, tell: Callable[[], None]) -> None:
        """Registers `tell` for each step that leaves work to continue."""
        self._on_work = tell

    def on_failure(self, tell: Callable[[Event], None]) -> None:
        """Registers `tell` for the event at which the engine fails."""
        self._on_failure = tell

    def start(self, engine: Engine) -> None:
        """Directs events to `engine` from now on."""
        self.engine = engine
        self.failure = None
        self._on_start()

    @contextmanager
    def paused(self) -> Iterator[Engine]:
        """Ignores events within the block, which has the engine for itself."""
        engine, self.engine = self.engine, None
        assert engine is not None
        try:
            yield engine
        finally:
            self.engine = engine

    def stop(self) -> None:
        """Ignores events until the next `start`."""
        self.engine = None

    @property
    def running(self) -> bool:
        return self.engine is not None and self.failure is None

    @property
    def position(self) -> Position:
        """Position applied by the engine; 0 without one."""
        return 0 if self.engine is None else self.engine.applied

    def at_ms(self, position: Position) -> int:
        """Wall clock time of an answer at `position`."""
        return self._ages.sent_ms_at(position)

    def step(self, event: Event) -> None:
        """Hands an event to the engine and performs its effects."""
        engine = self.engine
        if engine is None or self.failure is not None:
            return
        try:
            effects = engine.step(event)
            self._counters.steps += 1
            self._commit(event, engine, effects)
            for effect in effects:
                kind = type(effect)
                if kind not in _LEAF and kind is not ViewStatus:
                    self._performers[kind](effect)
        except Exception:
            self._fail(event)
            return
        if type(event) in _MOVES:
            for watch in self._watchers:
                watch(engine.applied)
        if type(event) in _GROWS:
            self._on_growth()
        if engine.working:
            self._on_work()

    def _commit(self, event: Event, engine: Engine, effects: list[Any]) -> None:
        leaf: list[Any] = []
        status = False
        for effect in effects:
            kind = type(effect)
            if kind in _LEAF:
                leaf.append(effect)
                self._counters.leaf_evictions += kind is LeafEvict
            elif kind is ViewStatus:
                status = True
                self._performers[kind](effect)
        if leaf or status or type(event) in _MOVES:
            together = type(event) is Apply and len(event.transactions) > 1
            failed = self._leaf.commit(leaf, engine.applied, self._ages.applied(engine.applied), together=together)
            self._counters.leaf_commits += 1
            for view, error in failed.items():
                self._performers[ViewStatus](ViewStatus(view, "broken", str(error) or type(error).__name__))
        if leaf:
            self._on_commit(leaf, engine.applied)

    def _fail(self, event: Event) -> None:
        self.failure = event
        self._counters.engine_failures += 1
        log.exception("the engine failed; a new one starts with empty state", event_kind=type(event).__name__)
        # It may be the store that failed, or a lack of memory.
        with suppress(Exception):
            self._leaf.doubt()
        self._on_failure(event)
