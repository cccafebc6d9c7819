"""The SQL of a part of one key's rows in PostgreSQL: what lies between two cuts of an order, in that order.

A cut's place among rows is lexicographic over the order's terms, NULLs where each term has them. Beside the exact
condition stands a weaker one on the first term alone, where that can be the start of an index scan.

Parameters, each one text: the key's values first, then the non-NULL values of the start cut, then those of the end
cut, in the order of the terms. Whether a cut's value is NULL, and how many rows are wanted, is part of the statement.

Not here: the rest of the statement (`lookup`), orders as bytes (`state.ordering`).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dataflow.plan.nodes import Chain, OrderTerm
from dataflow.plan.parts import Cut, Part
from dataflow.plan.render import render, type_name
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import SqlType, Table

_NEVER = "false"


def part_values(part: Part) -> list[str]:
    """The values of a part's parameters, behind those of the key."""
    return [value for cut in (part.start, part.end) for value in cut.values if value is not None]


def part_sql(part: Part, chain: Chain, table: Table, name: Callable[[int], str], first: int) -> tuple[list[str], str]:
    """Conditions, and what stands at the end of the statement. The part's first parameter is $`first`."""
    terms = [_Term.of(chain.columns[term.column], term, table, name) for term in part.order]
    numbers = iter(range(first, first + len(part_values(part))))
    start, end = (_bind(cut, terms, numbers) for cut in (part.start, part.end))
    conditions = [*_beyond(terms, start, part.start.behind), *_beyond(_reversed(terms), end, not part.end.behind)]
    # A constant orders nothing; as a number it would even be the place of a column.
    order = ", ".join(term.order_sql for term in terms if not term.constant)
    tail = f" ORDER BY {order}" if order else ""
    if order and part.limit_rows is not None:
        tail += f" FETCH FIRST {part.limit_rows} ROWS WITH TIES"
    return conditions, tail


@dataclass(frozen=True, slots=True)
class _Term:
    """One term of the order, as SQL."""

    sql: str
    type: SqlType
    descending: bool
    nulls_first: bool
    nullable: bool
    constant: bool

    @staticmethod
    def of(expression: Scalar, term: OrderTerm, table: Table, name: Callable[[int], str]) -> "_Term":
        sql = render(expression, name)
        if not isinstance(expression, ColumnRef):
            sql = f"({sql})"
            if expression.type.is_string:
                # A column's collation is known to be byte order; a computed text's may be the database's own.
                sql += ' COLLATE "C"'
        nullable = not (isinstance(expression, ColumnRef) and table.columns[expression.index].not_null)
        constant = isinstance(expression, Literal)
        return _Term(sql, expression.type, term.descending, term.nulls_first, nullable, constant)

    @property
    def order_sql(self) -> str:
        """The term in ORDER BY. Without NULLs it does not say where they are: an index is made for the default."""
        usual = not self.nullable or self.nulls_first == self.descending
        nulls = "" if usual else f" NULLS {'FIRST' if self.nulls_first else 'LAST'}"
        return f"{self.sql}{' DESC' if self.descending else ''}{nulls}"


@dataclass(frozen=True, slots=True)
class _Bound:
    """A cut's value for a term; `parameter` None is NULL."""

    parameter: str | None


def _bind(cut: Cut, terms: Sequence[_Term], numbers: Iterator[int]) -> list[_Bound]:
    return [
        _Bound(None if value is None else f"${next(numbers)}::{parameter_type(term.type)}")
        for value, term in zip(cut.values, terms, strict=False)
    ]


def parameter_type(sql_type: SqlType) -> str:
    """The type that a value is cast to when compared with a column, so that the column's index can be used."""
    if sql_type.is_integer:
        return "int8"
    return "text" if sql_type.kind == "base" and sql_type.name == "varchar" else type_name(sql_type)


def _reversed(terms: Sequence[_Term]) -> list[_Term]:
    """The order read backwards: what is before a cut is beyond it there."""
    return [replace(t, descending=not t.descending, nulls_first=not t.nulls_first) for t in terms]


def _beyond(terms: Sequence[_Term], bounds: Sequence[_Bound], strictly: bool) -> list[str]:
    """Conditions for rows beyond the bounds of the first terms, or (not `strictly`) at them."""
    if not bounds:
        return [_NEVER] if strictly else []
    row = _as_row(terms, bounds, strictly)
    if row is not None:
        return [row]
    exact: str | None = None
    for term, bound in reversed(list(zip(terms, bounds, strict=False))):
        after, same = _after(term, bound), _same(term, bound)
        at = (None if strictly else same) if exact is None else f"{same} AND ({exact})"
        exact = " OR ".join(part for part in (after, at) if part is not None) or _NEVER
    assert exact is not None
    leading = _leading(terms[0], bounds[0]) if len(bounds) > 1 else None
    return [f"({exact})", *([leading] if leading is not None else [])]


def _as_row(terms: Sequence[_Term], bounds: Sequence[_Bound], strictly: bool) -> str | None:
    """One comparison of rows, which is all an index needs: of terms without NULLs, all in one direction."""
    used = terms[: len(bounds)]
    if any(term.nullable or term.descending != used[0].descending for term in used):
        return None
    values = [bound.parameter for bound in bounds if bound.parameter is not None]
    if len(values) < len(bounds):
        return None
    operator = ("<" if used[0].descending else ">") + ("" if strictly else "=")
    if len(used) == 1:
        return f"{used[0].sql} {operator} {values[0]}"
    return f"({', '.join(term.sql for term in used)}) {operator} ({', '.join(values)})"


def _after(term: _Term, bound: _Bound) -> str | None:
    """Strictly beyond a value; None: nothing is."""
    if bound.parameter is None:
        return f"{term.sql} IS NOT NULL" if term.nulls_first else None
    found = f"{term.sql} {'<' if term.descending else '>'} {bound.parameter}"
    return found if term.nulls_first or not term.nullable else f"{found} OR {term.sql} IS NULL"


def _same(term: _Term, bound: _Bound) -> str:
    return f"{term.sql} IS NULL" if bound.parameter is None else f"{term.sql} = {bound.parameter}"


def _leading(term: _Term, bound: _Bound) -> str | None:
    """A condition on the first term that all rows beyond, or at, the bounds meet; None if an index cannot use one."""
    if bound.parameter is None:
        return None if term.nulls_first else f"{term.sql} IS NULL"
    if term.nullable and not term.nulls_first:
        return None
    return f"{term.sql} {'<=' if term.descending else '>='} {bound.parameter}"
