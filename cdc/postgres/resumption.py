"""A connection that continues a stream after another one broke, from its permanent slot.

The server sends the transactions whose commit records begin at the requested position or later (PostgreSQL's
`SnapBuildXactNeedsSkip`). The position of a stream is the end of the last commit that was decoded, or a later one up to
which nothing else committed, so none is lost and none comes twice.

*Invariants*: the stream continues only in the same log that still reaches its position (the same system and timeline,
or a timeline that left this one behind the position, when a standby was promoted), and from its own slot: one that
another service has created again under its name is confirmed beyond the position.

Not here: when to try again (`stream`).
"""

import asyncio
from dataclasses import dataclass, field

import psycopg
from psycopg import sql

from cdc.change import StreamLost
from cdc.postgres.position import format_lsn, parse_lsn
from cdc.postgres.replication import ReplicationConnection, ServerState
from cdc.postgres.slot import RELEASE_S, Slot, drop, held_bytes

_POLL_S = 0.05
_COLD_START = "The stream begins anew, and everything is evicted."
#: The replication connection runs simple queries only, so the name is a literal.
_STATE = """
SELECT active_pid, wal_status, confirmed_flush_lsn::text, pg_catalog.to_jsonb(s) ->> 'invalidation_reason'
FROM pg_catalog.pg_replication_slots s WHERE slot_name = {}
"""
_TERMINATE = """
SELECT pg_catalog.pg_terminate_backend(active_pid) FROM pg_catalog.pg_replication_slots
WHERE slot_name = {} AND active_pid = ANY ({}::int[])
"""


@dataclass(slots=True)
class Resumption:
    """Attempts to continue one stream. *State*: `pids`, processes of the server that have served the stream."""

    slot: Slot
    publication: str
    server: ServerState
    pids: set[int] = field(default_factory=set)

    async def attempt(
        self, conninfo: str, timeout_s: float, position: int, start: int | None = None
    ) -> ReplicationConnection:
        """Return a connection that continues at `position`; it begins at `start`, if given, which is before that.
        Raises StreamLost if the slot cannot be used, and psycopg's errors if the server cannot be reached."""
        start = position if start is None else start
        connection = await ReplicationConnection.open(conninfo, timeout_s)
        try:
            server = await self._check_server(connection, position)
            await self._release(connection, start)
            self.pids.add(connection.pid)
            await connection.begin(self.slot.name, self.publication, start)
            self.server = server
        except (psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState) as problem:
            await connection.close()
            raise StreamLost(
                f"The slot {self.slot.name} cannot be used: {problem.diag.message_primary}.", True
            ) from None
        except BaseException:
            await connection.close()
            raise
        return connection

    async def drop(self, ordinary: psycopg.AsyncConnection) -> bool:
        """Drop the slot, after the process that still serves a broken connection; return False if it is in use."""
        await ordinary.execute(self._terminate())
        return await drop(ordinary, self.slot.name)

    async def free(self, ordinary: psycopg.AsyncConnection, keep_bytes: int) -> None:
        """Terminate the process that still serves a broken connection. On a server without a limit, drop a slot that
        holds more than `keep_bytes`, and raise StreamLost."""
        await ordinary.execute(self._terminate())
        if self.slot.bounded:
            return
        held = await held_bytes(ordinary, self.slot.name)
        if held > keep_bytes and await drop(ordinary, self.slot.name):
            raise StreamLost(
                f"The slot {self.slot.name} was dropped: the stream could not continue while the database kept {held} "
                f"bytes of its log for it, more than [cdc] slot_keep = {keep_bytes}. {_COLD_START}",
                retryable=True,
            )

    def _terminate(self) -> sql.Composed:
        return sql.SQL(_TERMINATE).format(sql.Literal(self.slot.name), sql.Literal(sorted(self.pids)))

    async def _check_server(self, connection: ReplicationConnection, position: int) -> ServerState:
        """Return the server's state. Raises StreamLost unless its log has all that precedes the position."""
        found, known = await connection.identify(), self.server
        if found.system == known.system and await connection.is_standby():
            raise psycopg.errors.CannotConnectNow(f"The server is a standby ({found}).")
        shared: int | None = found.flushed
        if found.system != known.system:
            shared = None
        elif found.timeline != known.timeline:
            shared = await connection.end_of_timeline(known.timeline, found.timeline)
        if shared is None:
            raise StreamLost(
                f"Another database server answers at the stream's address: {found} instead of {known}. {_COLD_START}",
                retryable=True,
            )
        shared = min(shared, found.flushed)
        if shared < position:
            raise StreamLost(
                f"The database's log is the stream's only up to {format_lsn(shared)}, before its position "
                f"{format_lsn(position)}: the server has lost transactions. {_COLD_START}",
                retryable=True,
            )
        return found

    async def _release(self, connection: ReplicationConnection, position: int) -> None:
        """Wait until the slot is free. A process that served the stream's broken connection is terminated."""
        give_up = asyncio.get_running_loop().time() + RELEASE_S
        name = sql.Literal(self.slot.name)
        while True:
            row = await connection.row(sql.SQL(_STATE).format(name))
            pid = self._check_slot(row, position)
            if pid is None:
                return
            if pid in self.pids:
                await connection.row(self._terminate())
            elif asyncio.get_running_loop().time() > give_up:
                raise StreamLost(
                    f"The slot {self.slot.name} is in use by another service (process {pid} of the database). "
                    f"{_COLD_START}",
                    retryable=True,
                    hint="Give each service a state directory of its own.",
                )
            await asyncio.sleep(_POLL_S)

    def _check_slot(
        self, row: tuple[int | None, str | None, str | None, str | None] | None, position: int
    ) -> int | None:
        """Return the process that uses the slot. Raises StreamLost unless the slot still has the stream."""
        name = self.slot.name
        if row is None:
            raise StreamLost(f"The slot {name} was dropped. {_COLD_START}", retryable=True)
        pid, status, confirmed, reason = row
        if status == "lost":
            raise StreamLost(
                f"The server has invalidated the slot {name} ({reason or 'wal_removed'}) and removed its log. "
                f"{_COLD_START}",
                retryable=True,
                hint="To allow longer interruptions, raise max_slot_wal_keep_size (or idle_replication_slot_timeout).",
            )
        if confirmed is None or parse_lsn(confirmed) > position:
            raise StreamLost(f"The slot {name} was created again by another service. {_COLD_START}", retryable=True)
        return pid
