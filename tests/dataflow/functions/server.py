"""Evaluating an expression on a server for many rows at once, errors included."""

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from dataflow.types import Row, Value

PINNED = "-c TimeZone=UTC -c DateStyle=ISO,MDY -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
Connection = psycopg.Connection[tuple[Any, ...]]


class Failed:
    """Error of the server; its text is for people."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Failed)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"error: {self.message}"


def printed(server: Connection, type_name: str, values: Sequence[Value]) -> list[Value]:
    """Values as the server prints them; those that it does not take are left out."""
    return [v for v in evaluate(server, "c0", [type_name], [(v,) for v in values]) if not isinstance(v, Failed)]


def evaluate(server: Connection, sql: str, types: Sequence[str], rows: Sequence[Row]) -> list[Value | Failed]:
    """Return the values that the server prints for an expression over c0, c1 …, row by row."""
    texts = [f"t{i}" for i in range(len(types))]
    arrays = ", ".join(["%s::text[]"] * len(types))
    source = f"unnest({arrays}) WITH ORDINALITY AS u({', '.join(texts)}, n)"
    columns = [[row[i] for row in rows] for i in range(len(types))]
    return _evaluated(server, sql, types, [f"c{i}" for i in range(len(types))], source, columns)


class StoredRows:
    """Rows that many expressions are evaluated over, stored on the server as texts; `types` are by column."""

    def __init__(self, server: Connection, types: Mapping[str, str], rows: Sequence[Row]) -> None:
        self._server, self._types = server, types
        texts = [f"t{i}" for i in range(len(types))]
        server.execute(f"CREATE TEMP TABLE stored_rows (n int, {', '.join(f'{t} text' for t in texts)})".encode())
        with server.cursor() as cursor, cursor.copy("COPY stored_rows FROM STDIN") as copy:
            for number, row in enumerate(rows):
                copy.write_row((number, *row))

    def evaluate(self, sql: str) -> list[Value | Failed]:
        """Return the values that the server prints for an expression over the columns, row by row."""
        return _evaluated(self._server, sql, list(self._types.values()), list(self._types), "stored_rows AS u")


def _evaluated(
    server: Connection,
    sql: str,
    types: Sequence[str],
    names: Sequence[str],
    source: str,
    parameters: Sequence[object] | None = None,
) -> list[Value | Failed]:
    """The expression for each row of `source`, by a function that is defined anew each time, once per width."""
    texts = [f"t{i}" for i in range(len(types))]
    casts = ", ".join(f"{t}::{type_name} AS {name}" for t, type_name, name in zip(texts, types, names, strict=True))
    server.execute(
        f"CREATE OR REPLACE FUNCTION pg_temp.evaluated({', '.join(f'{t} text' for t in texts)})"
        " RETURNS text LANGUAGE plpgsql AS $body$ DECLARE r text; BEGIN"
        f" SELECT CASE WHEN (e) IS NULL THEN NULL ELSE concat('=', e) END INTO r"
        f" FROM (SELECT {sql} AS e FROM (SELECT {casts}) v OFFSET 0) w;"
        " RETURN r; EXCEPTION WHEN OTHERS THEN RETURN '!' || SQLERRM; END $body$".encode()
    )
    arguments = ", ".join(f"u.{t}" for t in texts)
    cursor = server.execute(f"SELECT pg_temp.evaluated({arguments}) FROM {source} ORDER BY u.n".encode(), parameters)
    return [_value(found) for (found,) in cursor.fetchall()]


def _value(found: str | None) -> Value | Failed:
    if found is None:
        return None
    return found[1:] if found[0] == "=" else Failed(found[1:])
