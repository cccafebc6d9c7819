"""Orders of rows as bytes, and places in them: the limits of the intervals of ordered coverage.

A cut's *place*, bytes, compares with the places of rows as the order has it; an interval is half-open, so a row is in
it exactly if ``start <= place < end``.

*Invariants*: no row's place is a proper prefix of another's. NULL has its own first byte, so it sorts where the order
says.

Not here: cuts and intervals themselves (`plan.parts`); which intervals are covered (`intervals`).
"""

from collections.abc import Callable, Iterator, Sequence
from typing import cast

from dataflow.errors import EvaluationError
from dataflow.plan.nodes import OrderTerm
from dataflow.plan.parts import Cut
from dataflow.schema import SqlType
from dataflow.types import Row, Value
from dataflow.types.rules import OrderText

_INVERTED = bytes(255 - i for i in range(256))
_NULL_FIRST, _VALUE, _NULL_LAST = b"\x00", b"\x01", b"\x02"


class Ordering:
    """An ORDER BY over rows of some types. ValueError if the order of a type is not known."""

    def __init__(self, terms: Sequence[OrderTerm], types: Sequence[SqlType]) -> None:
        self.terms = tuple(terms)
        self._parts = [(term.column, _part(term, types[term.column])) for term in terms]
        self._columns = [(term.column, _column_parts(term, types[term.column])) for term in terms]
        self._texts = [(term, types[term.column].order_text) for term in terms]

    def place_of_row(self, row: Row) -> bytes:
        """Bytes that sort as the row does. No result is a proper prefix of another."""
        return b"".join([part(row[column]) for column, part in self._parts])

    def places_of_rows(self, rows: Sequence[Row]) -> list[bytes]:
        """Returns `place_of_row` of each, column by column."""
        if not self._parts:
            return [b""] * len(rows)
        columns = [part([row[column] for row in rows]) for column, part in self._columns]
        return columns[0] if len(columns) == 1 else list(map(b"".join, zip(*columns, strict=True)))

    def place(self, cut: Cut) -> bytes | None:
        """Returns the place of a cut among those of rows; None is behind them all."""
        found = b"".join([part(value) for (_, part), value in zip(self._parts, cut.values, strict=False)])
        return _behind(found) if cut.behind else found

    def cut_at(self, row: Row, behind: bool) -> Cut:
        """The cut before or behind a row and all that tie with it."""
        return Cut(tuple([row[column] for column, _ in self._parts]), behind)

    def columns_of_place(self, place: bytes) -> Iterator[bytes]:
        """Yields the bytes of each column, of a place that more may follow."""
        for term, text in self._texts:
            _, length = _value(term, text, place)
            yield place[:length]
            place = place[length:]

    def cut_of_place(self, place: bytes) -> Cut:
        """The cut before all rows that have this place. ValueError if no row can have it."""
        values: list[Value] = []
        rest = place
        try:
            for term, text in self._texts:
                value, length = _value(term, text, rest)
                values.append(value)
                rest = rest[length:]
            cut = Cut(tuple(values), behind=False)
            if not rest and self.place(cut) == place:
                return cut
        except (IndexError, ValueError, EvaluationError) as reason:
            raise ValueError("not the place of a row") from reason
        raise ValueError("not the place of a row")


def _part(term: OrderTerm, sql_type: SqlType) -> Callable[[Value], bytes]:
    form, descending = sql_type.order_form, term.descending
    null = _NULL_FIRST if term.nulls_first else _NULL_LAST

    def part(value: Value) -> bytes:
        if value is None:
            return null
        data = form(value)
        return _VALUE + (data.translate(_INVERTED) if descending else data)

    return part


def _column_parts(term: OrderTerm, sql_type: SqlType) -> Callable[[Sequence[Value]], list[bytes]]:
    """`_part` of many values."""
    form, part = sql_type.order_form, _part(term, sql_type)

    def parts(values: Sequence[Value]) -> list[bytes]:
        if term.descending or None in values:
            return list(map(part, values))
        return [_VALUE + data for data in map(form, cast(Sequence[str], values))]

    return parts


def _value(term: OrderTerm, text: OrderText, data: bytes) -> tuple[Value, int]:
    """The value whose part `data` begins with, and how long that is. The inverse of `_part`."""
    if data[:1] in (_NULL_FIRST, _NULL_LAST):
        return None, 1
    value, length = text(data[1:].translate(_INVERTED) if term.descending else data[1:])
    return value, length + 1


def _behind(prefix: bytes) -> bytes | None:
    """The first bytes behind all that begin with `prefix`."""
    stripped = prefix.rstrip(b"\xff")
    return stripped[:-1] + bytes((stripped[-1] + 1,)) if stripped else None
