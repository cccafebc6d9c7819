"""MariaDB or MySQL as an upstream (`service.engine.upstream.upstream`)."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass

from cdc.change import SchemaNotice, TableLayout
from cdc.stream import ChangeStream, Layouts
from dataflow.plan.estimate import Size
from dataflow.plan.nodes import Aggregate, Chain, Relation
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Table
from dataflow.sql.statement import Statement
from service.engine.databases.mysql import changes, checks, sizes
from service.engine.databases.mysql.bulk_reads import MySqlReading, reading
from service.engine.databases.mysql.catalog import load_catalog, load_layouts
from service.engine.databases.mysql.connect import Flavour, MySqlPool
from service.engine.databases.mysql.describe import describe
from service.engine.databases.mysql.lookups import MySqlLookups
from service.engine.databases.mysql.wire import Wire
from service.engine.upstream.results import AnswerPart, Described, Finding
from service.engine.upstream.upstream import Capture, UpstreamSession

#: Findings that are about reading the log oneself.
_OF_READERS = frozenset({"replication_role", "binlog_row_metadata"})
#: Of these, those that are about the login that reads it.
_OF_LOGINS = frozenset({"replication_role"})


@dataclass(frozen=True, slots=True)
class MySqlSession:
    """Is an `UpstreamSession`."""

    wire: Wire
    flavour: Flavour
    capture: Capture | None = None
    #: Another login reads the log.
    apart: bool = False

    async def load_catalog(self, texts: Iterable[str] = ()) -> Catalog:
        """Tables, types, keys and views."""
        return await load_catalog(self.wire, self.flavour.dialect, texts)

    async def load_layouts(self, tables: Iterable[str]) -> dict[str, TableLayout]:
        """How the stream's rows are laid out."""
        return await load_layouts(self.wire, tables, self.flavour)

    async def describe(self, statement: Statement) -> Described:
        """What the server says of a statement."""
        return await describe(self.wire, statement, self.flavour.dialect)

    async def expected_sizes(self, relations: Iterable[Chain | Aggregate], catalog: Catalog) -> dict[Relation, Size]:
        """How much a lookup of everything would answer."""
        return await sizes.expected_sizes(self.wire, relations, catalog)

    async def check_server(self) -> list[Finding]:
        """Findings about server and role."""
        found = await checks.check_server(self.wire, self.flavour)
        if self.apart:
            found = [finding for finding in found if finding.code not in _OF_LOGINS]
        if self.capture is None:
            return found
        of_events = await checks.check_zero_dates(self.wire)
        return [*(finding for finding in found if finding.code not in _OF_READERS), *of_events]

    async def encryption(self) -> str:
        """``TLS`` if this connection is encrypted, else ""."""
        return "TLS" if self.wire.secured else ""

    async def check_streams(self, streams: int) -> list[Finding]:  # noqa: ARG002
        """Any number may read the binary log."""
        return []

    async def check_tables(self, tables: Iterable[str]) -> list[Finding]:
        """Findings about tables."""
        wanted = list(tables)
        found = await checks.check_tables(self.wire, wanted, self.flavour)
        return found if self.capture is None else [*found, *await self.capture.check_tables(wanted)]

    async def check_schema(
        self, layouts: Mapping[str, TableLayout], tables: Mapping[str, Table], fresh: Catalog
    ) -> list[SchemaNotice]:
        """Followed tables that are no longer what they were taken for."""
        return await changes.check_schema(self.wire, layouts, tables, fresh, self.flavour)

    async def schema_token(self, layouts: Mapping[str, TableLayout]) -> None:
        """The binary log has the statements that alter tables."""

    async def load_code(self) -> dict[tuple[str, str], str]:
        """What is not the server's own makes answers expire."""
        return {}

    async def check_marks(self) -> list[Finding]:
        """It says so itself."""
        return []

    async def make_marks(self) -> None:
        """Nothing has to be made."""

    async def set_row_identity(self, table: str) -> None:
        """Whether rows are whole is a setting of the server's."""

    async def publish(self, tables: Iterable[str]) -> list[str]:  # noqa: ARG002
        """The binary log has all tables."""
        return []


@dataclass(slots=True)
class MySqlUpstream:
    """Is an `Upstream`."""

    pool: MySqlPool
    lookups: MySqlLookups
    #: Makes the change stream: of the binary log, or of Debezium's topics.
    make_stream: Callable[[Layouts], ChangeStream]
    #: Who takes the changes out of the database, if that is not the source itself.
    capture: Capture | None = None
    #: Another login reads the log.
    apart: bool = False

    @asynccontextmanager
    async def session(self) -> AsyncIterator[UpstreamSession]:
        """A connection of the pool."""
        async with self.pool.connection() as wire:
            assert self.pool.flavour is not None, "known since the first connection"
            yield MySqlSession(wire, self.pool.flavour, self.capture, self.apart)

    def reading(self, lookups: Sequence[Lookup], catalog: Catalog) -> AbstractAsyncContextManager[MySqlReading]:  # noqa: ARG002
        """All rows of lookups."""
        return reading(self.pool, catalog)

    def stream(self, sql: str, parameters: Sequence[str | None]) -> AsyncGenerator[AnswerPart]:
        """The rows of a query, as they come."""
        return self.lookups.stream(sql, parameters)

    def change_stream(self, layouts: Layouts) -> ChangeStream:
        """A new change stream."""
        return self.make_stream(layouts)

    @property
    def server(self) -> str:
        """Which server answers."""
        return self.pool.watch.server

    async def begin_anew(self) -> None:
        """Lets go of all connections."""
        await self.pool.begin_anew()

    async def replaced(self) -> str:
        """Waits until another server answers."""
        return await self.pool.watch.replaced()

    async def close(self) -> None:
        """Closes the pool."""
        await self.pool.close()
