"""Column types for sources that print values themselves: Debezium's events do not contain PostgreSQL's texts.

Not here: types of the engine (`catalog`).
"""

from collections.abc import Mapping
from dataclasses import dataclass

from psycopg import AsyncConnection

from cdc.column_type import ColumnType

#: A domain resolves to its base type, with the modifier that it sets.
_TYPES = """
SELECT t.oid::int8, t.typname, t.typtype = 'd', t.typbasetype::int8, t.typtypmod,
       CASE WHEN t.typcategory = 'A' AND t.typlen = -1 THEN t.typelem::int8 ELSE 0 END,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
        FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid)
FROM pg_catalog.pg_type t WHERE t.typtype <> 'p'
"""
#: Offset of ``atttypmod`` for lengths and numeric.
_BASE = 4
_FRACTION_DIGITS = 6
_WITH_FRACTION = frozenset({"time", "timetz", "timestamp", "timestamptz"})


@dataclass(frozen=True, slots=True)
class _Row:
    name: str
    is_domain: bool
    base: int
    base_modifier: int
    element: int
    labels: list[str] | None


class Kinds:
    """`ColumnType`s by a type's OID and a column's modifier."""

    def __init__(self, rows: Mapping[int, _Row]) -> None:
        self._rows = rows

    def of(self, oid: int, modifier: int) -> ColumnType:
        """Returns the type of a column; for a type created later, a name unknown to all sources."""
        row = self._rows.get(oid)
        if row is None:
            return ColumnType("unknown")
        if row.is_domain:
            return self.of(row.base, row.base_modifier)
        if row.element:
            return ColumnType(row.name, element=self.of(row.element, modifier))
        if row.labels is not None:
            return ColumnType(row.name, labels=tuple(row.labels))
        return _modified(row.name, modifier)


async def load_kinds(connection: AsyncConnection) -> Kinds:
    """Loads all types. Raises psycopg.Error."""
    rows = await (await connection.execute(_TYPES.encode())).fetchall()
    return Kinds({oid: _Row(*rest) for oid, *rest in rows})


def _modified(name: str, modifier: int) -> ColumnType:
    if name in _WITH_FRACTION:
        return ColumnType(name, precision=_FRACTION_DIGITS if modifier < 0 else modifier)
    if name in ("bit", "varbit"):
        return ColumnType(name, length=max(0, modifier))
    number = modifier - _BASE
    if number < 0:
        return ColumnType(name)
    if name in ("bpchar", "varchar"):
        return ColumnType(name, length=number)
    if name == "numeric":
        # The scale is an 11-bit signed number.
        return ColumnType(name, precision=number >> 16 & 0xFFFF, scale=((number & 0x7FF) ^ 0x400) - 0x400)
    return ColumnType(name)
