"""Exact snapshot: a consistent snapshot whose place in the binary log is known, so no visibility is uncertain.

*Theory*: read the committed place, take the snapshot, read the log's end. If both places are equal, nothing was
committed in between, and the snapshot is at that place (`log_place`, `bracketed_snapshot`); this takes well under a
millisecond, and most servers are idle that long now and then. Otherwise a lock holds back commits while the snapshot is
taken, as ``mysqldump --single-transaction --master-data`` does (``FLUSH TABLES WITH READ LOCK``, right: RELOAD). Its
wait for running statements, during which others are blocked, is bounded.

Connections that begin at the same place see the same rows (`begin`, `locked`): each commit has its own place.

*Invariants*: the lock is released when its block ends, in all cases.

Not here: the rows read (`bulk_reads`).
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from cdc.gtid import GtidSet
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.position import BinlogSnapshot
from service.engine.databases.mysql.connect import Flavour, MySqlPool
from service.engine.databases.mysql.log_place import BEGIN, END, VISIBLE, end_place, visible_place
from service.engine.databases.mysql.wire import ServerError, ServerReply, Wire
from service.engine.upstream.results import UpstreamError

#: Number of attempts without a lock, and the longest pause between them.
TRIES = 40
_PAUSE_S = 0.02
#: Maximum wait of the lock for running statements.
_LOCK_S = 2
_LOCK = "FLUSH TABLES WITH READ LOCK"
_EXECUTED = "SELECT @@GLOBAL.gtid_executed"
_OWNED = "SELECT @@GLOBAL.gtid_owned"

Exact = BinlogSnapshot | BracketSnapshot


async def exact_snapshot(pool: MySqlPool, wire: Wire, tries: int = TRIES) -> Exact:
    """Begins a transaction at an exact snapshot. Raises UpstreamError, ServerError, ConnectionBroken."""
    flavour = known_flavour(pool)
    for number in range(tries):
        snapshot = await begin(wire, flavour)
        if snapshot is not None:
            return snapshot
        await wire.query(END)
        await pause(number)
    async with locked(pool):
        return await begin_locked(wire, flavour)


def known_flavour(pool: MySqlPool) -> Flavour:
    """Returns the server's flavour, connecting if necessary."""
    assert pool.flavour is not None, "known since the first connection"
    return pool.flavour


async def pause(number: int) -> None:
    """Waits between two attempts, at random intervals so as not to match a writer's rhythm."""
    await asyncio.sleep(_PAUSE_S * (number % 7) / 7)


async def begin(wire: Wire, flavour: Flavour) -> Exact | None:
    """Begins a transaction; returns its snapshot if that is exact. Raises ServerError, ConnectionBroken,
    UpstreamError."""
    if flavour.reports_places:
        visible, _, end = await wire.query_all([VISIBLE, BEGIN, flavour.log_end])
        place = end_place(end)
        return BinlogSnapshot(place) if visible_place(visible) == place else None
    asked = [flavour.log_end, _OWNED, _EXECUTED, BEGIN, flavour.log_end]
    before, owned, executed, _, end = await wire.query_all(asked)
    # Ids in the log are owned until executed: if none is owned, everything in the log has committed.
    if _text(owned) or end_place(before) != end_place(end):
        return None
    seen = GtidSet.parse(_text(executed))
    return BracketSnapshot(seen, end_place(end), seen, exact=True)


@asynccontextmanager
async def locked(pool: MySqlPool) -> AsyncIterator[None]:
    """Blocks commits during the block: everything in the log has committed, and nothing is added. Raises
    UpstreamError."""
    async with pool.apart() as locker:
        await locker.query(f"SET lock_wait_timeout = {_LOCK_S}")
        try:
            await locker.query(_LOCK)
        except ServerError as problem:
            raise _refused(pool, problem) from None
        yield
        await locker.query("UNLOCK TABLES")


async def begin_locked(wire: Wire, flavour: Flavour) -> Exact:
    """Begins a transaction and returns its snapshot, while commits are blocked. Raises like `begin`."""
    snapshot = await begin(wire, flavour)
    if snapshot is None and flavour.reports_places:
        # The reported place may belong to another connection's snapshot; the log's end is reliable.
        snapshot = BinlogSnapshot(end_place(await wire.query(flavour.log_end)))
    if snapshot is None:
        raise UpstreamError("failed", "The server reported inconsistent binary-log positions.", retryable=True)
    return snapshot


def _refused(pool: MySqlPool, problem: ServerError) -> UpstreamError:
    error = pool.error(problem)
    return UpstreamError(
        "unavailable" if error.code != "denied" else "failed",
        f"No exact snapshot could be taken while others write, and {_LOCK} failed: {error.detail}.",
        "Grant RELOAD to the service's login (docs/mysql.md)." if error.code == "denied" else None,
        retryable=True,
    )


def _text(reply: ServerReply) -> str:
    return str(reply.rows[0][0] or "")
