"""The SQL of a part of one key's rows in MariaDB and MySQL, cuts written in as constants (`postgres.part` is
PostgreSQL's).

A cut's place among rows is lexicographic over the order's terms. Its condition is ORed comparisons, which are ranges of
an index on the terms; beside them stands a weaker one on the first term alone. Enums and sets are in the order of their
numbers, and compare with constants as texts, so they are compared as numbers.

Not here: the rest of the statement (`lookup`), orders as bytes (`state.ordering`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dataflow.lookups.mysql.render import constant, render
from dataflow.plan.nodes import Chain, OrderTerm
from dataflow.plan.parts import Cut, Part
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import SqlType, Table
from dataflow.types import Value
from dataflow.types.rules import ValueKind

_NEVER = "FALSE"


@dataclass(frozen=True, slots=True)
class PartSql:
    """A part as SQL."""

    conditions: list[str]
    #: Terms of ORDER BY; () if no row comes before another.
    order: tuple[str, ...]
    #: How many rows are wanted, and those that tie with the last; None is all.
    rows: int | None
    #: Whether none tie.
    unique: bool


def part_sql(part: Part, chain: Chain, table: Table, keys: Sequence[ColumnRef], name: Callable[[int], str]) -> PartSql:
    """The part of one key's rows, whose key is on columns `keys` of the table."""
    terms = [_Term.of(chain.columns[term.column], term, table, name) for term in part.order]
    start, end = part.start, part.end
    conditions = [*_beyond(terms, start, start.behind), *_beyond(_reversed(terms), end, not end.behind)]
    # A constant orders nothing; as a number it would even be the place of a column.
    order = tuple(sql for term in terms if not term.constant for sql in term.order_sql)
    fixed = {key.index for key in keys}
    fixed |= {c.index for term in part.order if isinstance(c := chain.columns[term.column], ColumnRef)}
    unique = any(fixed.issuperset(key) for key in table.keys)
    return PartSql(conditions, order, part.limit_rows if order else None, unique)


@dataclass(frozen=True, slots=True)
class _Term:
    """One term of the order, as SQL."""

    #: As it is ordered by, and as it is compared with constants.
    sql: str
    compared: str
    type: SqlType
    descending: bool
    nulls_first: bool
    nullable: bool
    constant: bool

    @staticmethod
    def of(expression: Scalar, term: OrderTerm, table: Table, name: Callable[[int], str]) -> "_Term":
        sql = render(expression, name)
        compared = f"({sql} + 0)" if _is_numbered(expression.type) else sql
        nullable = not (isinstance(expression, ColumnRef) and table.columns[expression.index].not_null)
        is_constant = isinstance(expression, Literal)
        return _Term(sql, compared, expression.type, term.descending, term.nulls_first, nullable, is_constant)

    @property
    def order_sql(self) -> tuple[str, ...]:
        """The term in ORDER BY: NULLs are least."""
        own = f"{self.sql}{' DESC' if self.descending else ''}"
        if not self.nullable or self.nulls_first != self.descending:
            return (own,)
        return f"({self.sql} IS NULL){' DESC' if self.nulls_first else ''}", own

    def value(self, value: str) -> str:
        """A cut's value as a constant."""
        if not _is_numbered(self.type):
            return constant(value, self.type)
        labels = self.type.labels
        if self.type.kind == "enum":
            return str(labels.index(value) + 1 if value else 0)
        return str(sum(1 << labels.index(label) for label in value.split(",") if value))


def _is_numbered(sql_type: SqlType) -> bool:
    return sql_type.rules.kind is ValueKind.LABELS


def _reversed(terms: Sequence[_Term]) -> list[_Term]:
    """The order read backwards: what is before a cut is beyond it there."""
    return [replace(t, descending=not t.descending, nulls_first=not t.nulls_first) for t in terms]


def _beyond(terms: Sequence[_Term], cut: Cut, strictly: bool) -> list[str]:
    """Conditions for rows beyond the cut, or (not `strictly`) at it."""
    if not cut.values:
        return [_NEVER] if strictly else []
    pairs = list(zip(terms, cut.values, strict=False))
    exact: str | None = None
    for term, value in reversed(pairs):
        after, same = _after(term, value), _same(term, value)
        at = (None if strictly else same) if exact is None else f"({same} AND {exact})"
        found = [part for part in (after, at) if part is not None]
        exact = _NEVER if not found else found[0] if len(found) == 1 else f"({' OR '.join(found)})"
    assert exact is not None
    leading = _leading(*pairs[0]) if len(pairs) > 1 else None
    return [exact, *([leading] if leading is not None else [])]


def _after(term: _Term, value: Value) -> str | None:
    """Strictly beyond a value; None: nothing is."""
    if value is None:
        return f"{term.sql} IS NOT NULL" if term.nulls_first else None
    found = f"{term.compared} {'<' if term.descending else '>'} {term.value(value)}"
    return found if term.nulls_first or not term.nullable else f"({found} OR {term.sql} IS NULL)"


def _same(term: _Term, value: Value) -> str:
    return f"{term.sql} IS NULL" if value is None else f"{term.compared} = {term.value(value)}"


def _leading(term: _Term, value: Value) -> str | None:
    """A condition on the first term that all rows beyond, or at, the cut meet; None if an index cannot use one."""
    if value is None:
        return None if term.nulls_first else f"{term.sql} IS NULL"
    if term.nullable and not term.nulls_first:
        return None
    return f"{term.compared} {'<=' if term.descending else '>='} {term.value(value)}"
