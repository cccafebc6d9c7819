"""A consistent snapshot whose place in the binary log is known exactly: what is read at it is never unsure.

*Theory*: what committed before is told, then the snapshot is taken, then the end of the log is told. If these agree,
nothing was committed in between, and the snapshot is that place (`log_place`,
`bracketed_snapshot`); that takes well under a millisecond, so most servers are still for
so long now and then. One that never is gets a lock that holds back commits while the snapshot is taken, as ``mysqldump
--single-transaction --master-data`` does (``FLUSH TABLES WITH READ LOCK``, right: RELOAD), and no longer than that; how
long running statements may keep it waiting, which holds back others, is bounded.

Several connections that begin at the same place see the same (`begin`, `locked`): each commit has a place of its own.

*Invariants*: the lock is gone when its block ends, however that ends.

Not here: what is read (`bulk_reads`).
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

#: How often the server is tried to be caught still, and the longest pause in between.
TRIES = 40
_PAUSE_S = 0.02
#: How long running statements may keep the lock waiting.
_LOCK_S = 2
_LOCK = "FLUSH TABLES WITH READ LOCK"
_EXECUTED = "SELECT @@GLOBAL.gtid_executed"
_OWNED = "SELECT @@GLOBAL.gtid_owned"

Exact = BinlogSnapshot | BracketSnapshot


async def exact_snapshot(pool: MySqlPool, wire: Wire, tries: int = TRIES) -> Exact:
    """Begin a transaction at such a snapshot. Raises UpstreamError, ServerError, ConnectionBroken."""
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
    """Which server it is."""
    assert pool.flavour is not None, "known since the first connection"
    return pool.flavour


async def pause(number: int) -> None:
    """Between two tries: not in step with whoever writes."""
    await asyncio.sleep(_PAUSE_S * (number % 7) / 7)


async def begin(wire: Wire, flavour: Flavour) -> Exact | None:
    """A transaction, and its snapshot if that is exact. Raises ServerError, ConnectionBroken, UpstreamError."""
    if flavour.dialect == "mariadb":
        visible, _, end = await wire.query_all([VISIBLE, BEGIN, flavour.log_end])
        place = end_place(end)
        return BinlogSnapshot(place) if visible_place(visible) == place else None
    asked = [flavour.log_end, _OWNED, _EXECUTED, BEGIN, flavour.log_end]
    before, owned, executed, _, end = await wire.query_all(asked)
    # What the log has is owned until it is executed: nothing is, so all of it has committed.
    if _text(owned) or end_place(before) != end_place(end):
        return None
    seen = GtidSet.parse(_text(executed))
    return BracketSnapshot(seen, end_place(end), seen, exact=True)


@asynccontextmanager
async def locked(pool: MySqlPool) -> AsyncIterator[None]:
    """Nothing commits until the end of the block: all that has a place in the log has committed, and nothing gets one.
    Raises UpstreamError."""
    async with pool.apart() as locker:
        await locker.query(f"SET lock_wait_timeout = {_LOCK_S}")
        try:
            await locker.query(_LOCK)
        except ServerError as problem:
            raise _refused(pool, problem) from None
        yield
        await locker.query("UNLOCK TABLES")


async def begin_locked(wire: Wire, flavour: Flavour) -> Exact:
    """A transaction, and its snapshot, while nothing commits. Raises as `begin`."""
    snapshot = await begin(wire, flavour)
    if snapshot is None and flavour.dialect == "mariadb":
        # Told of another connection's place, perhaps; the end of the log is this one's.
        snapshot = BinlogSnapshot(end_place(await wire.query(flavour.log_end)))
    if snapshot is None:
        raise UpstreamError("failed", "The server reported inconsistent binary-log positions.", retryable=True)
    return snapshot


def _refused(pool: MySqlPool, problem: ServerError) -> UpstreamError:
    error = pool.error(problem)
    return UpstreamError(
        "unavailable" if error.code != "denied" else "failed",
        f"Writers leave no moment to read this at an exact place, and {_LOCK} is not possible: {error.detail}.",
        "Grant RELOAD to the service's login (docs/mysql.md)." if error.code == "denied" else None,
        retryable=True,
    )


def _text(reply: ServerReply) -> str:
    return str(reply.rows[0][0] or "")
