"""Interface to an upstream database.

*Invariants* of an implementation: a lookup's rows come from one snapshot, and everything it sees is in the stream by
its bound; values have the text form of the stream; no error contains a password; a cancelled request is cancelled
upstream, too.

Not here: implementations (`postgres`, `mysql`); their choice (`service.engine.databases.drivers`).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from cdc.change import SchemaNotice, TableLayout
from cdc.gtid import Gtids
from cdc.stream import ChangeStream, Layouts, UpstreamSnapshot
from dataflow.plan.estimate import Size
from dataflow.plan.nodes import Aggregate, Chain, Relation
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, Table
from dataflow.sql.statement import Statement
from dataflow.types import Row
from service.engine.upstream.held_snapshot import HeldSnapshots
from service.engine.upstream.identities import TableIdentity
from service.engine.upstream.named_snapshot import NamedSnapshots
from service.engine.upstream.results import (
    UNLIMITED,
    AnswerPart,
    AnswerSize,
    Described,
    Finding,
    ForwardRows,
    LookupRows,
    SchemaToken,
)

#: Returns the layouts of the tables to follow, by qualified name; called by a source whenever it needs them.


class Capture(Protocol):
    """External capture of changes: a connector with its own list of tables."""

    async def check_tables(self, tables: Iterable[str]) -> list[Finding]:
        """Returns findings about tables that are not captured. Raises `UpstreamError`."""
        ...


class UpstreamSession(Protocol):
    """One connection for queries about the database. All methods raise `UpstreamError`."""

    async def load_catalog(self, texts: Iterable[str] = ()) -> Catalog:
        """Loads tables, types, keys and views at one snapshot; on a server with several databases, of the current one
        and those named in the texts."""
        ...

    async def load_layouts(self, tables: Iterable[str]) -> dict[str, TableLayout]:
        """Loads the stream's row layouts of these tables; missing tables are left out."""
        ...

    async def describe(self, statement: Statement) -> Described:
        """Describes a statement without running it. Raises `InvalidQuery` with the database's message."""
        ...

    async def expected_sizes(self, relations: Iterable[Chain | Aggregate], catalog: Catalog) -> dict[Relation, Size]:
        """Estimates the size of a lookup of all rows, by the database's planner."""
        ...

    async def check_server(self) -> list[Finding]:
        """Returns findings about the server, the database and the role."""
        ...

    async def encryption(self) -> str:
        """Encryption of this connection: ``TLS``, ``Kerberos``, or "" for none. TLS is determined by the client: the
        server may describe a connection to a proxy in between."""
        ...

    async def check_streams(self, streams: int) -> list[Finding]:
        """Returns findings if fewer change streams are available than needed: one for each shard."""
        ...

    async def check_slots(self) -> list[Finding]:
        """Returns warnings about what the database keeps for change streams."""
        ...

    async def check_tables(self, tables: Iterable[str]) -> list[Finding]:
        """Returns findings about these tables: whether they can be read and followed."""
        ...

    async def check_schema(
        self, layouts: Mapping[str, TableLayout], tables: Mapping[str, Table], fresh: Catalog
    ) -> list[SchemaNotice]:
        """Returns followed tables that no longer match `layouts` and `tables`, by the catalog `fresh`."""
        ...

    async def schema_token(self, layouts: Mapping[str, TableLayout]) -> SchemaToken | None:
        """Reads a cheap token that changes with the schema while these tables are followed; None: not supported."""
        ...

    async def load_code(self) -> Mapping[tuple[str, str], str]:
        """Loads marks of everything beside tables that a result may depend on (functions, types, policies …), by kind
        and name; "" stands for objects that SQL uses without naming them."""
        ...

    async def check_marks(self) -> list[Finding]:
        """Returns findings if schema-altering transactions are not marked in the stream."""
        ...

    async def make_marks(self) -> None:
        """Installs the marks (the finding ``schema_changes``)."""
        ...

    async def load_identities(self, tables: Iterable[str]) -> dict[str, TableIdentity]:
        """Loads replica identities of these tables; nothing if views cannot save by other ones."""
        ...

    async def repair_identity(self, finding: Finding) -> None:
        """Runs the remedy of a finding ``replica_identity``."""
        ...

    async def publish(self, tables: Iterable[str]) -> list[str]:
        """Adds tables to the stream; returns those that were not in it before."""
        ...


class Lookups(Protocol):
    """All upstream reads on behalf of views. All methods raise `UpstreamError`."""

    #: Statements run upstream so far, heartbeats and pushes included.
    statements: int

    async def run(
        self, lookup: Lookup, catalog: Catalog, most: AnswerSize = UNLIMITED, stall_s: float | None = None
    ) -> LookupRows:
        """Runs a lookup; fails with ``too_large`` as soon as its rows exceed `most`. The result says if it took the
        server, not this process, longer than `stall_s` (`stalls`)."""
        ...

    async def run_round(
        self, lookups: Sequence[Lookup], catalog: Catalog, most: AnswerSize, stall_s: float
    ) -> list[LookupRows | None]:
        """Runs lookups on one connection, sent together. The result is None of those to be run alone: they failed,
        exceed `most`, or were cancelled so that others do not wait for them longer than `stall_s`."""
        ...

    async def snapshot(self) -> LookupRows:
        """Returns a version without rows: the heartbeat. Its snapshot may serve for a table that joins the stream."""
        ...

    async def settled(self, since: UpstreamSnapshot) -> bool:
        """Returns True if every later snapshot sees everything committed before `since` was taken, despite transactions
        open then. False also if unknown. `since` comes from `snapshot`."""
        ...

    async def executed(self) -> Gtids | None:
        """Returns the global ids of transactions that are in the stream by the bound of every later snapshot; None: the
        database has no such ids."""
        ...

    async def push(self) -> bool:
        """Writes a message, so that the stream passes every position returned before. False: not permitted."""
        ...

    async def forward(
        self, queries: Sequence[tuple[str, Sequence[str | None]]], most: AnswerSize = UNLIMITED
    ) -> ForwardRows:
        """Runs whole queries at one snapshot, with the texts of their parameters $1, $2 …; None is NULL. Fails with
        ``too_large`` as soon as the results together exceed `most`."""
        ...


class Reading(Protocol):
    """Rows of several lookups of all rows, at one snapshot that is exact for the tables they read."""

    @property
    def snapshot(self) -> UpstreamSnapshot:
        """Snapshot of all batches."""
        ...

    @property
    def bound(self) -> int:
        """Position by which everything that the snapshot sees is in the stream."""
        ...

    def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        """Yields the rows of one lookup, at most some thousand at a time, without read-ahead beyond network buffers.
        Raises `UpstreamError`."""
        ...


class Upstream(Protocol):
    """Upstream database."""

    @property
    def lookups(self) -> Lookups:
        """Reads on behalf of views."""
        ...

    @property
    def describes_rows(self) -> bool:
        """True if the change stream states the columns of each row, so that followed tables can be extended."""
        ...

    def session(self) -> AbstractAsyncContextManager[UpstreamSession]:
        """Opens a connection for queries about the database."""
        ...

    def reading(self, lookups: Sequence[Lookup], catalog: Catalog) -> AbstractAsyncContextManager[Reading]:
        """Reads all rows of lookups, on a connection beside those of `Lookups`. Raises `UpstreamError`."""
        ...

    def held(self, tables: Iterable[str]) -> AbstractAsyncContextManager[HeldSnapshots]:
        """Holds snapshots of these tables, one after the other, on connections outside the pool. Raises
        `UpstreamError`."""
        ...

    def named_snapshots(self, url: str, password: str | None, readers: int, nice: int) -> NamedSnapshots:
        """Returns the holder of snapshots for other processes, which connect by `url`, or query at most `readers`
        processes of priority `nice`."""
        ...

    def stream(self, sql: str, parameters: Sequence[str | None]) -> AsyncGenerator[AnswerPart]:
        """Runs a query like `Lookups.forward`, on a connection outside the pool; yields its columns with some thousand
        rows at a time, at least once. Rows that are not consumed stay on the server; leaving early cancels the query.
        Raises `UpstreamError`."""
        ...

    def change_stream(self, layouts: Layouts) -> ChangeStream:
        """Returns a new change stream that is not started."""
        ...

    @property
    def server(self) -> str:
        """Server of all connections since `begin_anew`; "" if unknown."""
        ...

    async def begin_anew(self) -> None:
        """Closes all connections; the next server that responds is accepted."""
        ...

    async def continue_on(self, server: str) -> None:
        """Closes all connections to the former server: the change stream continues on this one."""
        ...

    async def replaced(self, promoted: Callable[[], None]) -> str:
        """Waits until a connection leads to another server that is not accepted; returns a description. Calls
        `promoted` if it may be a promoted standby."""
        ...

    async def close(self) -> None: ...
