"""Evaluating an expression on a server for many rows at once, errors included."""

from collections.abc import Sequence
from itertools import count
from typing import Any

import psycopg

from dataflow.types import Row, Value

PINNED = "-c TimeZone=UTC -c DateStyle=ISO,MDY -c IntervalStyle=postgres -c extra_float_digits=1 -c bytea_output=hex"
Connection = psycopg.Connection[tuple[Any, ...]]
_numbers = count(1)


class Failed:
    """That the server has an error; its text is for people."""

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


def evaluate(
    server: Connection, sql: str, types: Sequence[str], rows: Sequence[Row], names: Sequence[str] = ()
) -> list[Value | Failed]:
    """What the server prints for an expression over c0, c1 … (or columns of these names), row by row."""
    columns = names or [f"c{i}" for i in range(len(types))]
    name = f"pg_temp.f{next(_numbers)}"
    declared = ", ".join(f"t{i} text" for i in range(len(types)))
    casts = ", ".join(f"t{i}::{t} AS {columns[i]}" for i, t in enumerate(types))
    server.execute(
        f"CREATE FUNCTION {name}({declared}) RETURNS text LANGUAGE plpgsql AS $body$ DECLARE r text; BEGIN"
        f" SELECT CASE WHEN (e) IS NULL THEN NULL ELSE concat('=', e) END INTO r"
        f" FROM (SELECT {sql} AS e FROM (SELECT {casts}) v OFFSET 0) w;"
        " RETURN r; EXCEPTION WHEN OTHERS THEN RETURN '!' || SQLERRM; END $body$".encode()
    )
    places = ", ".join(f"u.t{i}" for i in range(len(types)))
    texts = ", ".join(f"t{i}" for i in range(len(types)))
    arrays = ", ".join(["%s::text[]"] * len(types))
    cursor = server.execute(
        f"SELECT {name}({places}) FROM unnest({arrays}) WITH ORDINALITY AS u({texts}, n) ORDER BY u.n",
        [[row[i] for row in rows] for i in range(len(types))],
    )
    return [_value(found) for (found,) in cursor.fetchall()]


def _value(found: str | None) -> Value | Failed:
    if found is None:
        return None
    return found[1:] if found[0] == "=" else Failed(found[1:])
