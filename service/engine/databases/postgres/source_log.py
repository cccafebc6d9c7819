"""PostgreSQL's log as a stream from Debezium's topics recognizes it after a restart (`cdc.debezium.place`).

The system's identifier, the timeline, and a log that has not become shorter: there is no slot of the service whose
transactions could be compared.
"""

from dataclasses import dataclass

from cdc.change import StreamLost
from cdc.postgres.position import format_lsn
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Lookups


@dataclass(frozen=True, slots=True)
class PostgresLog:
    """The log of the server that lookups use; implements `SourceLog`."""

    pool: PostgresPool
    lookups: Lookups

    async def mark(self) -> str:
        """Returns server, timeline and version; "" for a standby, whose timeline is not known. Raises `StreamLost`."""
        try:
            async with self.pool.connection() as connection:
                version = connection.info.server_version
        except UpstreamError as error:
            raise StreamLost(error.detail, error.retryable, error.hint) from None
        server = self.pool.watch.server
        return f"{server}, version {version}" if "timeline" in server else ""

    async def refusal(self, mark: str, position: int) -> str:
        """Returns why it is another log, or ends before `position`; empty if neither. Raises `StreamLost`."""
        now = await self.mark()
        if now != mark:
            return f"The database server is {now or 'a standby'}: it was {mark}."
        try:
            end = (await self.lookups.snapshot()).bound
        except UpstreamError as error:
            raise StreamLost(error.detail, error.retryable, error.hint) from None
        if end < position:
            return f"The database's log ends at {format_lsn(end)}, before {format_lsn(position)}, which was applied."
        return ""
