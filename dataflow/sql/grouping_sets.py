"""GROUPING SETS, ROLLUP and CUBE: a union of aggregates of the same rows, one for each set.

PostgreSQL manual, 7.2.4 "GROUPING SETS, CUBE, and ROLLUP"; MariaDB's "SELECT WITH ROLLUP", where its rows of totals are
the same in all clauses (`check_with_rollup`). While binding, the result of the k-th GROUPING call is column
`FIRST_GROUPING` + k.

*Invariants*: the union's columns are the grouped expressions (NULL in sets without them), a column for each aggregate
call, for each parameter of the rows, and for each GROUPING call.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import INT4, substitute, used_columns
from dataflow.plan.nodes import Aggregate, AggregateCall, Source, Union
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.sql.clauses import Columns, Rows, rows_of
from dataflow.sql.expressions.aggregates import FIRST_CALL, FIRST_WINDOW
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.syntax.spans import span_of

FIRST_GROUPING = 1_500_000
#: Maximum number of sets: each is an aggregate of its own.
_MOST = 32
_SETS = (exp.Rollup, exp.Cube, exp.GroupingSets)
Nodes = tuple[exp.Expr, ...]


def written_sets(group: exp.Group) -> list[Nodes] | None:
    """Returns the sets of a GROUP BY, each as the expressions that it groups by; None for a plain GROUP BY."""
    if any(v for k, v in group.args.items() if k not in ("expressions", "all", "rollup")):
        raise UnsupportedQuery("WITH CUBE and the like are not kept up to date.", span_of(group))
    if group.args.get("rollup"):
        group = exp.Group(expressions=[exp.Rollup(expressions=group.expressions)])
    if not any(isinstance(element, _SETS) for element in group.expressions):
        return None
    elements = [list(_sets_of(element)) for element in group.expressions]
    total = 1
    for sets in elements:
        total *= len(sets)
    if total > _MOST:
        raise UnsupportedQuery(f"More than {_MOST} grouping sets are not kept up to date.", span_of(group))
    return [tuple(node for part in parts for node in part) for parts in product(*elements)]


def _sets_of(element: exp.Expr) -> Iterator[Nodes]:
    """Yields the sets that one element of GROUP BY stands for."""
    if isinstance(element, exp.GroupingSets):
        for inner in element.expressions:
            yield from _sets_of(inner)
    elif isinstance(element, exp.Rollup):
        members = [_members(member) for member in element.expressions]
        for count in range(len(members), -1, -1):
            yield tuple(node for member in members[:count] for node in member)
    elif isinstance(element, exp.Cube):
        members = [_members(member) for member in element.expressions]
        for taken in product((True, False), repeat=min(len(members), _MOST.bit_length())):
            yield tuple(node for member, take in zip(members, taken, strict=False) if take for node in member)
    else:
        yield _members(element)


def _members(element: exp.Expr) -> Nodes:
    """Returns the expressions of one element: several in parentheses count as one."""
    if isinstance(element, exp.Tuple):
        return tuple(element.expressions)
    return (element.this if isinstance(element, exp.Paren) else element,)


def check_with_rollup(
    select: exp.Select, grouped: Sequence[Scalar], shown: Sequence[Scalar], having: Sequence[Scalar]
) -> None:
    """Refuses WITH ROLLUP unless the server's rows are those of the sets. `having`: what its conditions are about."""
    span = span_of(select.args["group"])
    if any(select.args.get(clause) for clause in ("distinct", "order", "windows")) or select.find(exp.Window):
        raise UnsupportedQuery(
            "DISTINCT, ORDER BY and window functions beside WITH ROLLUP are not kept up to date.", span
        )
    plain = {expression.index for expression in grouped if isinstance(expression, ColumnRef)}
    computed = {c for expression in grouped if not isinstance(expression, ColumnRef) for c in used_columns(expression)}
    if len(grouped) < len(select.args["group"].expressions) or plain & computed:
        raise UnsupportedQuery("WITH ROLLUP of constants, or of a column twice, is not kept up to date.", span)
    # Of an expression that is not shown as a whole, the server computes the last row's value.
    if any(expression not in grouped and computed & used_columns(expression) for expression in shown):
        raise UnsupportedQuery("A part of a shown expression that WITH ROLLUP groups by is not kept up to date.", span)
    # In conditions, the server takes a grouped column for one that is NULL only where its table's is.
    if any(column < FIRST_CALL for expression in having for column in used_columns(expression)):
        raise UnsupportedQuery("HAVING beside WITH ROLLUP is kept up to date for aggregates only.", span)


@dataclass(slots=True)
class Groupings:
    """The GROUPING calls of a SELECT: the expressions that each asks about."""

    calls: list[tuple[Scalar, ...]] = field(default_factory=list)

    def bind(self, node: exp.Expr, binder: Binder) -> Scalar:
        """Returns the result of a call, as a column."""
        asked = tuple(binder.all(node.expressions))
        if asked not in self.calls:
            self.calls.append(asked)
        return ColumnRef(FIRST_GROUPING + self.calls.index(asked), INT4)


@dataclass(frozen=True, slots=True)
class GroupedSets:
    """The sets of a SELECT over its grouped expressions."""

    #: By the positions of their expressions.
    sets: Sequence[frozenset[int]]
    expressions: Sequence[Scalar]
    calls: Sequence[AggregateCall]
    #: Columns of the rows that parameters are compared with.
    keys: Sequence[Scalar]
    groupings: Sequence[tuple[Scalar, ...]]
    #: Whether there are no rows of no rows, as in MariaDB.
    strict: bool = False

    @property
    def always_a_row(self) -> bool:
        """True if one of the sets is empty: it has a row, even of no rows."""
        return frozenset() in self.sets and not self.strict

    def relation(self, rows: Rows, group: Any) -> Source:
        """Returns the union of the aggregates of `rows`."""
        if frozenset() in self.sets and not self.calls:
            raise UnsupportedQuery("An empty grouping set without an aggregate is not kept up to date.", span_of(group))
        columns = Columns(list(rows.columns()))
        for expression in (*self.expressions, *self.keys):
            columns.add(expression)
        block = rows.block(columns.expressions)
        sides = tuple(self._side(block, columns, members) for members in self.sets)
        return sides[0] if len(sides) == 1 else Union(sides)

    def _side(self, block: Source, columns: Columns, members: frozenset[int]) -> Source:
        # A key may be an expression of the set.
        grouped = list(dict.fromkeys([*(self.expressions[i] for i in sorted(members)), *self.keys]))
        group = tuple(map(columns.add, grouped))
        aggregate = Aggregate(block, group, tuple(self.calls), scalar=not members and self.always_a_row)
        at = {expression: ColumnRef(i, expression.type) for i, expression in enumerate(grouped)}
        shown = [
            at[expression] if i in members else Literal(None, expression.type)
            for i, expression in enumerate(self.expressions)
        ]
        results = [ColumnRef(len(grouped) + i, call.type) for i, call in enumerate(self.calls)]
        keys = [at[key] for key in self.keys]
        bits = [Literal(str(self._grouping(asked, members)), INT4) for asked in self.groupings]
        return rows_of(aggregate).block([*shown, *results, *keys, *bits])

    def _grouping(self, asked: tuple[Scalar, ...], members: frozenset[int]) -> int:
        """Returns the result of GROUPING in a set: a bit for each expression, 1 if it is not grouped by."""
        bits = 0
        for expression in asked:
            if expression not in self.expressions:
                raise InvalidQuery("Arguments of GROUPING must stand in GROUP BY.")
            bits = bits << 1 | (self.expressions.index(expression) not in members)
        return bits

    def key(self, expression: Scalar) -> ColumnRef:
        """Returns the column of a key."""
        behind = len(self.expressions) + len(self.calls)
        return ColumnRef(behind + list(self.keys).index(expression), expression.type)

    def settle(self, expression: Scalar) -> Scalar:
        """Returns an expression over the union, from one with the numbers of calls."""
        width = len(self.expressions)
        behind = width + len(self.calls) + len(self.keys)

        def placed(ref: ColumnRef) -> Scalar:
            if not FIRST_CALL <= ref.index < FIRST_WINDOW:
                return ref
            if ref.index >= FIRST_GROUPING:
                return ColumnRef(behind + ref.index - FIRST_GROUPING, ref.type)
            return ColumnRef(width + ref.index - FIRST_CALL, ref.type)

        return substitute(expression, placed)
