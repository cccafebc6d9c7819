"""What the service asks of an upstream database, whichever it is.

*Invariants* of an implementation: a lookup's rows are one snapshot's, and all that the snapshot sees is in the stream
by its bound; values come as the stream prints them; no error holds a password; a cancelled question is cancelled
upstream, too.

Not here: how any database is asked (`postgres`, `mysql`); which one it is (`service.engine.databases.drivers`).
"""

from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
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

#: Gives the layouts of the tables to follow, by qualified name, whenever a source asks.


class Capture(Protocol):
    """Who else takes changes out of the database: a connector, which captures the tables that it was told to."""

    async def check_tables(self, tables: Iterable[str]) -> list[Finding]:
        """Tables that are not captured. Raises `UpstreamError`."""
        ...


class UpstreamSession(Protocol):
    """One connection, for questions about the database. All raise `UpstreamError`."""

    async def load_catalog(self, texts: Iterable[str] = ()) -> Catalog:
        """Tables, types, keys and views, at one snapshot: where a server has several databases, those of its own and
        of the databases that the texts name."""
        ...

    async def load_layouts(self, tables: Iterable[str]) -> dict[str, TableLayout]:
        """How the stream's rows of these tables are laid out; those that are gone are left out."""
        ...

    async def describe(self, statement: Statement) -> Described:
        """What the database says of a statement without running it. Raises `InvalidQuery` with its words."""
        ...

    async def expected_sizes(self, relations: Iterable[Chain | Aggregate], catalog: Catalog) -> dict[Relation, Size]:
        """How much a lookup of everything would answer, by the database's planner."""
        ...

    async def check_server(self) -> list[Finding]:
        """Findings about the server, the database and the role."""
        ...

    async def encryption(self) -> str:
        """The encryption of this connection: ``TLS``, ``Kerberos``, or "" for none. TLS is as the client knows it: the
        server may speak of a connection to a proxy in between."""
        ...

    async def check_streams(self, streams: int) -> list[Finding]:
        """Whether so many change streams can begin: one for each shard."""
        ...

    async def check_tables(self, tables: Iterable[str]) -> list[Finding]:
        """Findings about these tables: whether they can be read and followed."""
        ...

    async def check_schema(
        self, layouts: Mapping[str, TableLayout], tables: Mapping[str, Table], fresh: Catalog
    ) -> list[SchemaNotice]:
        """Followed tables that are no longer what `layouts` and `tables` say, by the catalog `fresh`."""
        ...

    async def schema_token(self, layouts: Mapping[str, TableLayout]) -> SchemaToken | None:
        """What changes with the schema, read cheaply, while these tables are followed; None: there is no such thing."""
        ...

    async def load_code(self) -> Mapping[tuple[str, str], str]:
        """Marks of what an answer may depend on beside the tables that it reads (functions, types, policies …), by kind
        and name; "" is a name that SQL need not say."""
        ...

    async def check_marks(self) -> list[Finding]:
        """Whether transactions that alter the schema say so in the stream."""
        ...

    async def make_marks(self) -> None:
        """See to it that they do (the finding ``schema_changes``)."""
        ...

    async def set_row_identity(self, table: str) -> None:
        """Make the stream carry whole old rows of a table (the finding ``replica_identity``)."""
        ...

    async def publish(self, tables: Iterable[str]) -> list[str]:
        """Make sure that the stream will carry these tables; returns those that it did not carry before."""
        ...


class Lookups(Protocol):
    """Everything that is read upstream on behalf of views. All raise `UpstreamError`."""

    #: Statements run upstream so far, heartbeats and pushes included.
    statements: int

    async def run(self, lookup: Lookup, catalog: Catalog, most: AnswerSize = UNLIMITED) -> LookupRows:
        """The rows that the engine asks for: ``too_large`` as soon as they are more than `most`."""
        ...

    async def snapshot(self) -> LookupRows:
        """A version and no rows: the heartbeat. Its snapshot may be that of a table that joins the stream."""
        ...

    async def settled(self, since: UpstreamSnapshot) -> bool:
        """Whether every snapshot from now on sees all that had been committed when `since` was taken, while there are
        transactions that were open then. False also if that cannot be known. `since` is one of `snapshot`."""
        ...

    async def executed(self) -> Gtids | None:
        """Transactions, by their global ids, that are in the stream by the bound of every later snapshot; None: the
        database has no such ids."""
        ...

    async def push(self) -> bool:
        """Write something, so that the stream passes every position handed out before. False: that is not allowed."""
        ...

    async def forward(
        self, queries: Sequence[tuple[str, Sequence[str | None]]], most: AnswerSize = UNLIMITED
    ) -> ForwardRows:
        """Run whole queries at one snapshot, with the texts of their parameters $1, $2 …; None is NULL. ``too_large``
        as soon as the answers together are more than `most`."""
        ...


class Reading(Protocol):
    """Rows of several lookups of everything, at one snapshot that is exact for the tables they read."""

    @property
    def snapshot(self) -> UpstreamSnapshot:
        """What they see."""
        ...

    @property
    def bound(self) -> int:
        """All of that is in the stream by it."""
        ...

    def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        """The rows of one of them, at most some thousand at a time; nothing is read ahead of whoever takes them, but
        for what the network holds. Raises `UpstreamError`."""
        ...


class Upstream(Protocol):
    """A database."""

    @property
    def lookups(self) -> Lookups:
        """Reads on behalf of views."""
        ...

    def session(self) -> AbstractAsyncContextManager[UpstreamSession]:
        """A connection, for a while."""
        ...

    def reading(self, lookups: Sequence[Lookup], catalog: Catalog) -> AbstractAsyncContextManager[Reading]:
        """All rows of lookups, on a connection beside those of `Lookups`. Raises `UpstreamError`."""
        ...

    def stream(self, sql: str, parameters: Sequence[str | None]) -> AsyncGenerator[AnswerPart]:
        """Run a query as `Lookups.forward` does, on a connection beside the pool's: its columns with some thousand rows
        at a time, at least once. What is not taken stays with the server; left before its end, the query is ended.
        Raises `UpstreamError`."""
        ...

    def change_stream(self, layouts: Layouts) -> ChangeStream:
        """A new change stream, not started."""
        ...

    @property
    def server(self) -> str:
        """Which server answers, since `begin_anew`; "" if that is not known. All connections are to that one."""
        ...

    async def begin_anew(self) -> None:
        """Let go of all connections: whichever server answers next is the one."""
        ...

    async def replaced(self) -> str:
        """Wait until another server answers; in words."""
        ...

    async def close(self) -> None:
        """Close all connections."""
        ...
