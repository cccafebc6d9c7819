"""MariaDB or MySQL as an upstream (`service.engine.upstream.upstream`)."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace

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
from service.engine.databases.mysql.held_snapshot import HeldMySql, holding
from service.engine.databases.mysql.lookups import MySqlLookups
from service.engine.databases.mysql.wire import Wire
from service.engine.upstream.identities import TableIdentity
from service.engine.upstream.named_snapshot import NamedSnapshots
from service.engine.upstream.results import AnswerPart, Described, Finding
from service.engine.upstream.upstream import Capture, UpstreamSession

#: Findings about reading the log.
_OF_READERS = frozenset({"replication_role", "binlog_row_metadata"})
#: Those about the login that reads the log.
_OF_LOGINS = frozenset({"replication_role"})


@dataclass(frozen=True, slots=True)
class MySqlSession:
    """Implementation of `UpstreamSession`."""

    wire: Wire
    flavour: Flavour
    capture: Capture | None = None
    #: Separate login that reads the log.
    apart: bool = False

    async def load_catalog(self, texts: Iterable[str] = ()) -> Catalog:
        return await load_catalog(self.wire, self.flavour.dialect, texts)

    async def load_layouts(self, tables: Iterable[str]) -> dict[str, TableLayout]:
        return await load_layouts(self.wire, tables, self.flavour)

    async def describe(self, statement: Statement) -> Described:
        return await describe(self.wire, statement, self.flavour.dialect)

    async def expected_sizes(self, relations: Iterable[Chain | Aggregate], catalog: Catalog) -> dict[Relation, Size]:
        return await sizes.expected_sizes(self.wire, relations, catalog)

    async def check_server(self) -> list[Finding]:
        found = await checks.check_server(self.wire, self.flavour)
        if self.apart:
            found = [finding for finding in found if finding.code not in _OF_LOGINS]
        if self.capture is None:
            return found
        of_events = await checks.check_zero_dates(self.wire)
        # Events do not distinguish values that the log omits from NULL.
        of_reader = [replace(f, fatal=f.fatal or f.code == "row_image") for f in found if f.code not in _OF_READERS]
        return [*of_reader, *of_events]

    async def encryption(self) -> str:
        return "TLS" if self.wire.secured else ""

    async def check_streams(self, streams: int) -> list[Finding]:  # noqa: ARG002
        """Returns no findings: the number of readers of the binary log is unlimited."""
        return []

    async def check_slots(self) -> list[Finding]:
        """Returns no findings: the server keeps its log by its own settings."""
        return []

    async def check_tables(self, tables: Iterable[str]) -> list[Finding]:
        wanted = list(tables)
        found = await checks.check_tables(self.wire, wanted, self.flavour, follows_keys=self.capture is None)
        return found if self.capture is None else [*found, *await self.capture.check_tables(wanted)]

    async def check_schema(
        self, layouts: Mapping[str, TableLayout], tables: Mapping[str, Table], fresh: Catalog
    ) -> list[SchemaNotice]:
        return await changes.check_schema(self.wire, layouts, tables, fresh, self.flavour)

    async def schema_token(self, layouts: Mapping[str, TableLayout]) -> None:
        """Returns None: the binary log contains the statements that alter tables."""

    async def load_code(self) -> dict[tuple[str, str], str]:
        """Returns no marks: results that depend on user-defined objects expire."""
        return {}

    async def check_marks(self) -> list[Finding]:
        """Returns no findings: the binary log marks them itself."""
        return []

    async def make_marks(self) -> None:
        """Does nothing."""

    async def load_identities(self, tables: Iterable[str]) -> dict[str, TableIdentity]:  # noqa: ARG002
        """Returns nothing: row images are a setting of the server."""
        return {}

    async def repair_identity(self, finding: Finding) -> None:
        """Does nothing: there are no such findings."""

    async def publish(self, tables: Iterable[str]) -> list[str]:  # noqa: ARG002
        """Returns no tables: the binary log contains all tables."""
        return []


@dataclass(slots=True)
class MySqlUpstream:
    """Implementation of `Upstream`."""

    pool: MySqlPool
    lookups: MySqlLookups
    #: Factory of change streams: of the binary log, or of Debezium's topics.
    make_stream: Callable[[Layouts], ChangeStream]
    #: External capture of changes, if the source itself is not one.
    capture: Capture | None = None
    #: Separate login that reads the log.
    apart: bool = False

    @property
    def describes_rows(self) -> bool:
        return False

    @asynccontextmanager
    async def session(self) -> AsyncIterator[UpstreamSession]:
        async with self.pool.connection() as wire:
            assert self.pool.flavour is not None, "known since the first connection"
            yield MySqlSession(wire, self.pool.flavour, self.capture, self.apart)

    def reading(self, lookups: Sequence[Lookup], catalog: Catalog) -> AbstractAsyncContextManager[MySqlReading]:  # noqa: ARG002
        return reading(self.pool, catalog)

    def held(self, tables: Iterable[str]) -> AbstractAsyncContextManager[HeldMySql]:
        return holding(self.pool, tables)

    def named_snapshots(self, url: str, password: str | None, readers: int, nice: int) -> NamedSnapshots:
        from service.engine.databases.mysql.named_snapshot import MySqlHolder

        return MySqlHolder(self.pool, url, password, readers, nice)

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
        """Does nothing: a stream of the binary log continues only on the same server."""

    async def replaced(self, promoted: Callable[[], None]) -> str:
        return await self.pool.watch.replaced(promoted)

    async def close(self) -> None:
        await self.pool.close()
