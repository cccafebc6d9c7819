"""Restarts of the engine from a checkpoint: the state of the old one, through bytes, perhaps with damage; other views;
tables that are not what they were. The stream goes on where it was.

Not here: files (`tests/service/engine/checkpoint`).
"""

import marshal
from collections import Counter
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING

from dataflow.engine.chunks import Chunk, Damaged
from dataflow.engine.effects import LeafRestored
from dataflow.engine.events import Restore, Restored, StreamStarted
from dataflow.types import Snapshot, ViewId
from tests.simulation.leaf_model import LeafModel, LeafView
from tests.simulation.report import brief

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


def restart_from_checkpoint(run: "Simulation", rng: Random) -> None:
    """Another engine goes on at the position of the old one, with what that knew."""
    start = _start(run)
    if start is None:
        return
    written = [_through_bytes(chunk) for chunk in run.engine.chunks()]
    former = run.leaf
    run.counters += run.engine.counters
    run.pins.clear()
    run.new_engine()
    run.step(StreamStarted(run.position, start, restoring=True))
    _install(run, rng)
    changed = frozenset([rng.choice(sorted(run.world.catalog.tables))] if rng.random() < 0.1 else ())
    for chunk in _damaged(written, rng):
        _restore(run, Restore(chunk, changed), former)
    run.step(Restored())


def _start(run: "Simulation") -> Snapshot | None:
    """A snapshot that sees all that the old engine has applied; None if there is none yet."""
    visibility = run.world.visibility
    if visibility.by_commit:
        return visibility.joined()
    sees, snapshot = run.engine.seen_by(run.engine.applied), visibility.snapshot()
    return snapshot if sees is not None and sees(snapshot) else None


def _through_bytes(chunk: Chunk) -> Chunk:
    kind: type[Chunk] = type(chunk)
    return kind(*marshal.loads(marshal.dumps(tuple(chunk))))


def _install(run: "Simulation", rng: Random) -> None:
    """Installs the views of before, in another order, perhaps without one, or one of them twice or kept whole."""
    views = list(run.views)
    rng.shuffle(views)
    if len(views) > 1 and rng.random() < 0.1:
        gone = views.pop()
        del run.views[gone]
        run.dropped.add(gone)
    if views and rng.random() < 0.1:
        run.whole ^= {rng.choice(views)}
    for view_id in views:
        run.install(view_id)
    if rng.random() < 0.1:
        run.do_install(rng)


def _damaged(written: list[Chunk], rng: Random) -> Iterator[Chunk]:
    """The chunks as they are read: some cannot be, some are missing, from some on all are."""
    if rng.random() < 0.6 or not written:
        return iter(written)
    damage, at = rng.choice(("torn", "missing", "truncated", "first")), rng.randrange(len(written))
    if damage == "torn":
        return iter([*written[:at], Damaged(), *written[at + 1 :]])
    if damage == "missing":
        return iter(written[:at] + written[at + 1 :])
    return iter(written[:at] if damage == "truncated" else written[at:])


def _restore(run: "Simulation", event: Restore, former: LeafModel) -> None:
    """One chunk. What an engine covers is compared when it has all of them."""
    if run.trace is not None:
        run.trace.append(f"-> {brief(event)}")
    for effect in run.engine.step(event):
        if isinstance(effect, LeafRestored):
            run.leaf.views[effect.view] = _copied(former.views.get(ViewId(effect.former)))
            run.leaf.touched.add(effect.view)
        else:
            run.perform_effect(effect, event)


def _copied(view: LeafView | None) -> LeafView:
    copy = LeafView()
    if view is not None:
        copy.full, copy.parts = view.full, dict(view.parts)
        copy.rows = {key: Counter(rows) for key, rows in view.rows.items()}
    return copy
