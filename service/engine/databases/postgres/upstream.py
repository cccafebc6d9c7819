"""PostgreSQL as an upstream (`service.engine.upstream.upstream`)."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

from psycopg import AsyncConnection

from cdc.change import SchemaNotice, TableLayout
from cdc.stream import ChangeStream, Layouts
from dataflow.plan.estimate import Size
from dataflow.plan.nodes import Aggregate, Chain, Relation
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Table
from dataflow.sql.statement import Statement
from service.engine.databases.postgres import checks, schema_marks, sizes
from service.engine.databases.postgres.bulk_reads import PostgresReading, reading
from service.engine.databases.postgres.catalog import load_catalog, load_layouts
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.describe import describe
from service.engine.databases.postgres.held_snapshot import HeldPostgres, holding
from service.engine.databases.postgres.identities import load_figures, load_identities
from service.engine.databases.postgres.lookups import PostgresLookups
from service.engine.databases.postgres.named_snapshot import PostgresHolder
from service.engine.databases.postgres.publication import ensure_published
from service.engine.databases.postgres.slots import slot_findings
from service.engine.upstream.identities import RowFigures, TableIdentity
from service.engine.upstream.named_snapshot import NamedSnapshots
from service.engine.upstream.results import AnswerPart, Described, Finding, SchemaToken
from service.engine.upstream.upstream import Capture, UpstreamSession
from service.settings.secrets import connection_url

#: Findings about a replication slot of the service's own.
_OF_SLOTS = frozenset({"replication_role", "replication_slots", "publication"})
#: Those about the login that reads the stream, which reports missing rights itself.
_OF_READERS = frozenset({"replication_role"})


@dataclass(frozen=True, slots=True)
class PostgresSession:
    """Implementation of `UpstreamSession`. `publication` is the one that the stream reads."""

    connection: AsyncConnection
    publication: str
    #: Connector that the stream comes from, if any; it owns slot and publication.
    capture: Capture | None = None
    #: Separate login that reads the stream.
    apart: bool = False
    #: Tables get full replica identity before they are followed.
    whole_rows: bool = False

    async def load_catalog(self, texts: Iterable[str] = ()) -> Catalog:  # noqa: ARG002
        found = await load_catalog(self.connection)
        if not self.whole_rows:
            return found
        return replace(found, tables={name: replace(table, identity=None) for name, table in found.tables.items()})

    async def load_layouts(self, tables: Iterable[str]) -> dict[str, TableLayout]:
        captured = self.capture is not None
        publication = None if captured else self.publication
        return await load_layouts(self.connection, tables, with_column_types=captured, publication=publication)

    async def describe(self, statement: Statement) -> Described:
        return await describe(self.connection, statement)

    async def expected_sizes(self, relations: Iterable[Chain | Aggregate], catalog: Catalog) -> dict[Relation, Size]:
        return await sizes.expected_sizes(self.connection, relations, catalog)

    async def check_server(self) -> list[Finding]:
        found = await checks.check_server(self.connection, self.publication)
        others = _OF_SLOTS if self.capture is not None else _OF_READERS if self.apart else frozenset[str]()
        return [finding for finding in found if finding.code not in others]

    async def encryption(self) -> str:
        """Encryption as known to libpq; only the server reports Kerberos."""
        if self.connection.pgconn.ssl_in_use:
            return "TLS"
        return "Kerberos" if await checks.encrypted_by_kerberos(self.connection) else ""

    async def check_streams(self, streams: int) -> list[Finding]:
        return [] if self.capture is not None else await checks.check_streams(self.connection, streams)

    async def check_slots(self) -> list[Finding]:
        return [] if self.capture is not None else await slot_findings(self.connection)

    async def check_tables(self, tables: Iterable[str]) -> list[Finding]:
        """Returns findings about tables, except that a table is not published yet, since it can be followed."""
        tables = list(tables)
        captured = self.capture is not None
        found = await checks.check_tables(
            self.connection, self.publication, tables, whole_rows=self.whole_rows, captured=captured
        )
        found = [finding for finding in found if finding.code != "publication"]
        return found if self.capture is None else found + await self.capture.check_tables(tables)

    async def check_schema(
        self, layouts: Mapping[str, TableLayout], tables: Mapping[str, Table], fresh: Catalog
    ) -> list[SchemaNotice]:
        published = self.capture is None
        return await checks.check_schema(self.connection, layouts, self.publication, tables, fresh, published=published)

    async def schema_token(self, layouts: Mapping[str, TableLayout]) -> SchemaToken:
        oids = [layout.table_id for layout in layouts.values()]
        return await schema_marks.read_token(self.connection, oids, streamed=self.capture is None)

    async def load_code(self) -> dict[tuple[str, str], str]:
        return await schema_marks.load_code(self.connection)

    async def check_marks(self) -> list[Finding]:
        """Returns findings without event triggers, unless a connector is used, which does not forward their
        messages."""
        return [] if self.capture is not None else await schema_marks.check_marks(self.connection)

    async def make_marks(self) -> None:
        await schema_marks.make_marks(self.connection)

    async def load_identities(self, tables: Iterable[str]) -> dict[str, TableIdentity]:
        if self.whole_rows or self.capture is not None:
            return {}
        found = await load_identities(self.connection, tables)
        figures = await load_figures(self.connection, found)
        return {name: replace(each, figures=figures.get(name, RowFigures())) for name, each in found.items()}

    async def repair_identity(self, finding: Finding) -> None:
        await checks.repair_identity(self.connection, finding)

    async def publish(self, tables: Iterable[str]) -> list[str]:
        if self.capture is not None:
            return []
        return await ensure_published(self.connection, self.publication, tables)


@dataclass(slots=True)
class PostgresUpstream:
    """Implementation of `Upstream`."""

    pool: PostgresPool
    lookups: PostgresLookups
    #: Factory of change streams: of a slot, or of Debezium's topics.
    make_stream: Callable[[Layouts], ChangeStream]
    publication: str
    capture: Capture | None = None
    #: Separate login that reads the stream.
    apart: bool = False
    #: As in `PostgresSession`.
    whole_rows: bool = False

    @property
    def describes_rows(self) -> bool:
        return self.capture is None

    @asynccontextmanager
    async def session(self) -> AsyncIterator[UpstreamSession]:
        async with self.pool.connection() as connection:
            yield PostgresSession(connection, self.publication, self.capture, self.apart, self.whole_rows)

    def reading(self, lookups: Sequence[Lookup], catalog: Catalog) -> AbstractAsyncContextManager[PostgresReading]:
        return reading(self.pool, lookups, catalog)

    def held(self, tables: Iterable[str]) -> AbstractAsyncContextManager[HeldPostgres]:
        return holding(self.pool, tables)

    def named_snapshots(self, url: str, password: str | None, readers: int, nice: int) -> NamedSnapshots:  # noqa: ARG002
        return PostgresHolder(self.pool, connection_url(url), password)

    def stream(self, sql: str, parameters: Sequence[str | None]) -> AsyncGenerator[AnswerPart]:
        return self.lookups.stream(sql, parameters)

    def change_stream(self, layouts: Layouts) -> ChangeStream:
        return self.make_stream(layouts)

    @property
    def server(self) -> str:
        return self.pool.watch.server

    async def begin_anew(self) -> None:
        await self.pool.begin_anew()

    async def continue_on(self, server: str) -> None:
        await self.pool.continue_on(server)

    async def replaced(self, promoted: Callable[[], None]) -> str:
        return await self.pool.watch.replaced(promoted)

    async def close(self) -> None:
        await self.pool.close()
