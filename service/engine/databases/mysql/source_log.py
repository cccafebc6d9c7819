"""MariaDB's binary log as a stream from Debezium's topics recognizes it after a restart (`cdc.debezium.place`).

As for a stream of the log itself (`cdc.mysql.place`): the server with its version, and the global ids of all that
precedes an offset of a file. MySQL's log cannot be recognized: its global ids do not say what precedes an offset.
"""

import json
from dataclasses import dataclass

from cdc.change import StreamLost
from cdc.gtid import GtidPosition
from cdc.mysql.position import format_position, position_of
from service.engine.databases.mysql.connect import MySqlPool
from service.engine.databases.mysql.wire import ConnectionBroken, ServerError, Wire
from service.engine.upstream.results import UpstreamError


@dataclass(frozen=True, slots=True)
class MariaDbLog:
    """The log of the server that lookups use; implements `SourceLog`."""

    pool: MySqlPool

    async def mark(self) -> str:
        """Returns server, version, the log's end, and the global ids up to there; "" for MySQL. Raises `StreamLost`."""
        try:
            async with self.pool.connection() as wire:
                flavour = self.pool.flavour
                if flavour is None or flavour.dialect != "mariadb":
                    return ""
                file, offset = await _end(wire, flavour.log_end)
                gtids = await _gtids(wire, file, offset)
                return json.dumps([*await self._server(wire), file, offset, gtids])
        except (UpstreamError, ServerError, ConnectionBroken) as problem:
            raise _lost(problem) from None

    async def refusal(self, mark: str, position: int) -> str:
        """Returns why it is another log, or ends before `position`; empty if neither. Raises `StreamLost`."""
        name, version, file, offset, gtids = json.loads(mark)
        try:
            async with self.pool.connection() as wire:
                flavour = self.pool.flavour
                assert flavour is not None, "known since the first connection"
                server = await self._server(wire)
                if server != [name, version]:
                    return f"The server is {', '.join(server)}: it was {name}, {version}."
                end = position_of(*await _end(wire, flavour.log_end))
                if end < max(position, position_of(file, offset)):
                    return f"The binary log ends at {format_position(end)}, before what was applied."
                if await _gtids(wire, file, offset) != gtids:
                    return f"The binary log does not have {file}:{offset}, or other transactions before it."
        except (UpstreamError, ServerError, ConnectionBroken) as problem:
            raise _lost(problem) from None
        return ""

    async def _server(self, wire: Wire) -> list[str]:
        reply = await wire.query("SELECT VERSION()")
        return [self.pool.watch.server, str(reply.rows[0][0])]


async def _end(wire: Wire, statement: str) -> tuple[str, int]:
    reply = await wire.query(statement)
    if not reply.rows:
        raise UpstreamError("failed", "The server writes no binary log.")
    file, offset, *_ = reply.rows[0]
    return str(file), int(str(offset))


async def _gtids(wire: Wire, file: str, offset: int) -> str | None:
    """Returns the global ids before an offset; None if the log does not have that."""
    quoted = file.replace("\\", "\\\\").replace("'", "''")
    reply = await wire.query(f"SELECT BINLOG_GTID_POS('{quoted}', {offset})")
    found = reply.rows[0][0]
    return None if found is None else str(GtidPosition.parse(str(found)))


def _lost(problem: UpstreamError | ServerError | ConnectionBroken) -> StreamLost:
    if isinstance(problem, UpstreamError):
        return StreamLost(problem.detail, problem.retryable, problem.hint)
    return StreamLost(f"The database's log cannot be identified: {problem}.", retryable=True)
