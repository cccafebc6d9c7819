"""The upstream crashes and recovers: commits at the end of the log, which were not flushed, are gone, though lookups
may have seen them. Their positions and ids are assigned again. The connection of the stream breaks and is resumed.

The stream has what is flushed, so nothing that was applied is gone. Nor is what was there when a stream began or a
table joined: these wait for flushes. A snapshot taken at a restart from a checkpoint, or when an identity was altered,
may be of what a crash undoes: lookups that must see it wait until the upstream has assigned as much again.

Not here: a crash of the engine (`simulation`).
"""

from random import Random
from typing import TYPE_CHECKING

from dataflow.engine.events import StreamResumed
from tests.simulation.world import World

if TYPE_CHECKING:
    from tests.simulation.simulation import Simulation


def resume(run: "Simulation", rng: Random) -> None:
    """The stream's connection breaks, at times because the upstream crashes; another one continues the stream.

    The shell drops a heartbeat's snapshot from before; other answers from before arrive all the same.
    """
    world = run.world
    if rng.random() < 0.8:
        first = max(run.next_entry, world.flushed)
        run.counters["crashed"] += 1
        run.counters["undone"] += crash(world, rng.randint(first, len(world.log)), run.position)
        for _ in range(rng.randint(0, 3)):
            run.do_transaction(rng)
    run.heartbeats.clear()
    run.step(StreamResumed())
    if rng.random() < 0.5:
        # The first batch brings transactions.
        run.do_apply(rng)


def catch_up(run: "Simulation", rng: Random) -> None:
    """Transactions, until positions and ids are as far as before all crashes: where a snapshot that was taken before
    one is awaited, lookups wait for that."""
    while run.world.wal < run.world.lost_wal or run.world.next_xid < run.world.lost_xid:
        run.do_transaction(rng)


def crash(world: World, entries: int, position: int) -> int:
    """Lose all but so many entries of the log, of which the stream has read up to `position`; return how many."""
    for transaction in list(world.open.values()):
        world.roll_back(transaction)
    lost, world.log[entries:] = world.log[entries:], []
    gone = {committed.xid for committed in lost}
    for versions in world.versions.values():
        versions[:] = [v for v in versions if v.creator not in gone]
        for version in versions:
            if version.deleter in gone:
                version.deleter = None
    world.limbo -= gone
    for xid in gone:
        world.ends.pop(xid, None)
    for modes in world.last.values():
        for holders in modes.values():
            holders -= gone
    world.last_truncate = {table: xid for table, xid in world.last_truncate.items() if xid not in gone}
    world.lost_wal, world.lost_xid = max(world.lost_wal, world.wal), max(world.lost_xid, world.next_xid)
    world.wal = max(position, world.log[-1].streamed.end if world.log else 0, world.flushed_wal)
    world.next_xid = max([world.flushed_xid, *(committed.xid + 1 for committed in world.log)])
    world.visibility.forget(gone)
    # Recovery ends with everything visible that has survived.
    world.reveal_all()
    world.seen_end = min(world.seen_end, world.wal)
    return len(gone)
