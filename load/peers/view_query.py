"""Queries for a view: one key with its statement, several with one statement for all, where it can be written so; and
the JSON of the result."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from psycopg import AsyncConnection, AsyncCursor, Error

from load.peers.statements import NamedStatement, Values, batched, numbered, wire_form

_Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class NumberedStatement:
    """A statement and where its values are among those that are given."""

    sql: str
    places: tuple[int, ...]

    @classmethod
    def of(cls, statement: NamedStatement, parameters: Mapping[str, str]) -> "NumberedStatement":
        """The statement for the values of all these parameters, in their order."""
        order = list(parameters)
        return cls(statement.sql, tuple([order.index(name) for name in statement.names]))

    def arguments(self, values: Values) -> list[str | None]:
        """Wire values for one key."""
        return [wire_form(values[place]) for place in self.places]

    def lists(self, keys: Sequence[Values]) -> list[str | None]:
        """Wire values for many keys, whose parameters are not lists themselves."""
        return [wire_form(tuple([_scalar(values[place]) for values in keys])) for place in self.places]


@dataclass(frozen=True, slots=True)
class BatchStatement:
    """A statement to run, and the places of the reads that it answers."""

    view: str
    sql: str
    arguments: list[str | None]
    places: Sequence[int]
    many: bool


class ViewQuery:
    """A view's statements. *State*: `_columns` has the names of its columns, once it was read."""

    def __init__(self, sql: str, parameters: Mapping[str, str]) -> None:
        self.one = NumberedStatement.of(numbered(sql, parameters), parameters)
        statement = batched(sql, parameters)
        self._many = None if statement is None else NumberedStatement.of(statement, parameters)
        self._columns: tuple[str, ...] = ()

    async def try_batch(self, connection: AsyncConnection[Any]) -> None:
        """Use the statement for many keys only if the database takes it (it refuses a key's value in a LIMIT)."""
        if self._many is None:
            return
        try:
            await connection.execute(self._many.sql, self._many.lists([]))
        except Error:
            self._many = None

    def questions(self, view: str, places: Sequence[int], keys: Sequence[Values]) -> list[BatchStatement]:
        """Statements for keys, given their places among a request's reads."""
        if self._many is not None and len(keys) > 1:
            return [BatchStatement(view, self._many.sql, self._many.lists(keys), places, many=True)]
        one = self.one
        return [
            BatchStatement(view, one.sql, one.arguments(values), [place], many=False)
            for place, values in zip(places, keys, strict=True)
        ]

    async def answer(self, cursor: AsyncCursor[Any]) -> bytes:
        rows = await cursor.fetchall()
        return self._json(cursor, rows, 0) if rows else b"[]"

    async def answers(self, cursor: AsyncCursor[Any]) -> dict[int, bytes]:
        """The rows of many, by the key's number; keys without rows are not there."""
        by_key: dict[int, list[_Row]] = {}
        for row in await cursor.fetchall():
            # A join may bring the keys in any order; rows of one are in theirs.
            by_key.setdefault(row[0], []).append(row)
        return {n: self._json(cursor, rows, 1) for n, rows in by_key.items()}

    def _json(self, cursor: AsyncCursor[Any], rows: Sequence[_Row], skipped: int) -> bytes:
        """A JSON array of rows without their first columns."""
        columns = self._columns
        if not columns:
            described = cursor.description or ()
            columns = self._columns = unique_names([column.name for column in described[skipped:]])
        return orjson.dumps([dict(zip(columns, row[skipped:], strict=True)) for row in rows])


def unique_names(names: Sequence[str]) -> tuple[str, ...]:
    """The names readers see: a repeated one gets ``_2``, ``_3``, …"""
    taken: list[str] = []
    for name in names:
        candidate, n = name, 1
        while candidate in taken:
            n += 1
            candidate = f"{name}_{n}"
        taken.append(candidate)
    return tuple(taken)


def _scalar(value: Any) -> str | None:
    assert not isinstance(value, tuple)
    scalar: str | None = value
    return scalar
