"""Orders and parts of keys, by definition: what the engine's places and intervals are compared with."""

from collections import Counter
from collections.abc import Iterable, Sequence
from decimal import Decimal
from functools import cmp_to_key
from random import Random
from typing import Any

from dataflow.engine.events import Ahead, Extent
from dataflow.plan.nodes import OrderTerm
from dataflow.plan.parts import END, START, Cut, Interval, Part
from dataflow.schema import SqlType
from dataflow.types import Row, Value


def _value(text: str, sql_type: SqlType) -> tuple[int, Any]:
    if sql_type.name == "text":
        return (0, text.encode())
    number = Decimal(text)
    return (1, Decimal(0)) if number.is_nan() else (0, number)


class RowOrder:
    """ORDER BY over rows of some types."""

    def __init__(self, order: Sequence[OrderTerm], types: Sequence[SqlType]) -> None:
        self.order = tuple(order)
        self.types = types
        self.key = cmp_to_key(self._compare_rows)

    def _compare_term(self, term: OrderTerm, a: Value, b: Value) -> int:
        if a is None or b is None:
            nulls = (a is not None) - (b is not None)
            return nulls if term.nulls_first else -nulls
        x, y = (_value(v, self.types[term.column]) for v in (a, b))
        return ((x > y) - (x < y)) * (-1 if term.descending else 1)

    def _compare(self, row: Row, values: Iterable[Value]) -> int:
        for term, value in zip(self.order, values, strict=False):
            found = self._compare_term(term, row[term.column], value)
            if found:
                return found
        return 0

    def _compare_rows(self, a: Row, b: Row) -> int:
        return self._compare(a, [b[term.column] for term in self.order])

    def before(self, row: Row, cut: Cut) -> bool:
        """Return whether the row lies before the cut."""
        found = self._compare(row, cut.values)
        return found < 0 or (found == 0 and cut.behind)

    def within(self, row: Row, interval: Interval) -> bool:
        """Return whether the row lies in the interval."""
        return not self.before(row, interval.start) and self.before(row, interval.end)

    def reaching(self, covered: Sequence[Interval], start: Cut) -> Cut | None:
        """How far is covered without a gap from `start` on."""
        if start == END:
            return END
        for cut in (self._before_the_next(start), start):
            # Behind one integer and before the next are the ends of an interval, too, which has no rows.
            for interval in covered:
                if not self.further(interval.start, cut) and self.further(interval.end, cut):
                    return interval.end
        return None

    def _before_the_next(self, cut: Cut) -> Cut:
        """Return an equal cut: between two consecutive integers there is nothing."""
        term = self.order[len(cut.values) - 1]
        last = cut.values[-1] if cut.values else None
        if not cut.behind or last is None or self.types[term.column].name not in ("int4", "int8"):
            return cut
        following = str(int(last) + (-1 if term.descending else 1))
        return Cut((*cut.values[:-1], following), behind=False)

    def further(self, a: Cut, b: Cut) -> bool:
        """Return whether cut `a` is further than cut `b`."""
        if END in (a, b):
            return b != END
        for term, x, y in zip(self.order, a.values, b.values, strict=False):
            found = self._compare_term(term, x, y)
            if found:
                return found > 0
        if len(a.values) == len(b.values):
            return a.behind and not b.behind
        return a.behind if len(a.values) < len(b.values) else not b.behind

    def part(self, rows: Iterable[Row], part: Part) -> list[Row]:
        """Return the rows of a lookup of a part: FETCH FIRST … ROWS WITH TIES."""
        found = sorted((r for r in rows if self.within(r, Interval(part.start, part.end))), key=self.key)
        if part.limit_rows is None or len(found) <= part.limit_rows:
            return found
        last = found[part.limit_rows - 1]
        return [row for row in found if self._compare_rows(row, last) <= 0]

    def any_cut(self, rows: Sequence[Row], rng: Random) -> Cut:
        """A place near some row, or an end."""
        if not rows or rng.random() < 0.15:
            return rng.choice((START, END))
        row = rng.choice(rows)
        length = rng.randint(1, len(self.order))
        return Cut(tuple(row[t.column] for t in self.order[:length]), rng.random() < 0.5)

    def any_extent(self, rows: Sequence[Row], rng: Random) -> Extent:
        """Return an extent that a read may request."""
        choice = rng.random()
        if choice < 0.2:
            return None
        if choice < 0.7:
            start = START if rng.random() < 0.7 else self.any_cut(rows, rng)
            return Ahead(rng.choice((1, 1, 2, 3)), start)
        return Interval(self.any_cut(rows, rng), self.any_cut(rows, rng))


def within(bag: "Counter[Row]", covered: Iterable[Interval], order: RowOrder) -> "Counter[Row]":
    """The rows that lie in one of some intervals."""
    intervals = list(covered)
    return Counter({row: n for row, n in bag.items() if any(order.within(row, interval) for interval in intervals)})
