"""The upstream's own answers, in the JSON form of the HTTP contract; here PostgreSQL (`mariadb_oracle`)."""

from collections.abc import Callable
from typing import Any, Protocol

import psycopg
from psycopg.pq import ExecStatus

from cdc.postgres.session import session_sql
from dataflow.schema import SqlType
from service.leaf_store.render import compile_row
from tests.sql.comparison import Answer, parse
from tests.sql.corpus_file import Arguments, with_values

FLOAT4 = 700
_TYPES = "SELECT oid, typname, typtype, typcategory = 'A' AND typlen = -1, typelem FROM pg_catalog.pg_type"


class Oracle(Protocol):
    """A database that is asked what it answers."""

    def execute(self, sql: str) -> str | None:
        """Runs statements as one transaction; the message of what failed."""
        ...

    def position(self) -> str:
        """Version that a read needs to see everything committed now."""
        ...

    def written(self, sql: str, arguments: Arguments) -> str:
        """The statement with its parameters written in."""
        ...

    def answer(self, sql: str) -> Answer | str:
        """Return a statement's rows, or the message of its failure."""
        ...


class UpstreamOracle:
    """A connection with the pinned session settings. *State*: the types it has seen, the encoders of row types."""

    def __init__(self, url: str) -> None:
        self.connection = psycopg.connect(url, autocommit=True)
        self.connection.execute(session_sql().encode())
        self._types: dict[int, SqlType] = {}
        self._encoders: dict[tuple[tuple[str, int], ...], Callable[[Any], bytes]] = {}

    def close(self) -> None:
        """Disconnects."""
        self.connection.close()

    def execute(self, sql: str) -> str | None:
        """Runs statements as one transaction; the message of what failed."""
        try:
            self.connection.execute(sql.encode())
        except psycopg.Error as error:
            return str(error)
        return None

    def position(self) -> str:
        """Version that a read needs to see everything committed now."""
        row = self.connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return str(row[0])

    def written(self, sql: str, arguments: Arguments) -> str:
        """The statement with its parameters written in, as literals whose type the server finds out."""
        return with_values(sql, arguments)

    def answer(self, sql: str) -> Answer | str:
        """Return a statement's rows, or the message of its failure."""
        result = self.connection.pgconn.exec_params(sql.encode(), None)
        if result.status != ExecStatus.TUPLES_OK:
            return result.get_error_message("utf-8")
        columns = tuple(((result.fname(i) or b"").decode(), result.ftype(i)) for i in range(result.nfields))
        encode = self._encoders.get(columns)
        if encode is None:
            encode = compile_row([(name, i, self._type(oid)) for i, (name, oid) in enumerate(columns)])
            self._encoders[columns] = encode
        texts = [
            tuple(None if (v := result.get_value(i, j)) is None else v.decode() for j in range(len(columns)))
            for i in range(result.ntuples)
        ]
        singles = frozenset(name for name, oid in columns if oid == FLOAT4)
        return Answer([parse(encode(row)) for row in texts], singles)

    def _type(self, oid: int) -> SqlType:
        if oid not in self._types:
            rows = {row[0]: row for row in self.connection.execute(_TYPES).fetchall()}
            for found, (_, name, kind, is_array, element) in rows.items():
                inner = SqlType(rows[element][1], rows[element][1]) if is_array and element in rows else None
                own = "array" if inner is not None else {"e": "enum", "b": "base"}.get(kind, "other")
                self._types[found] = SqlType(name if inner is None else inner.name, name, own, inner)
        return self._types[oid]
