"""Subqueries in what a grouped SELECT shows: joined beside the aggregate, to its groups.

While binding, the columns of the subqueries' relations have numbers from `FIRST_SUBQUERY` on, as results of aggregates
have theirs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import substitute
from dataflow.plan.nodes import Relation, column_types
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.sql.clauses import Above, Rows
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.correlation import Around
from dataflow.sql.expressions.scope import Scope
from dataflow.sql.from_clause import FromClause
from dataflow.sql.loose_block import LooseBlock, refuse_pending
from dataflow.sql.subqueries import Subqueries

FIRST_SUBQUERY = 2_500_000


@dataclass(frozen=True, slots=True)
class _Attached:
    """A relation, and what it is joined by: over the joined rows first, then over the groups."""

    relation: Relation
    on: tuple[Scalar, ...]
    parameters: tuple[BoundParameter, ...]
    every: bool


class GroupedSubqueries:
    """The subqueries beside one SELECT's aggregate."""

    def __init__(self, from_clause: FromClause) -> None:
        self._from = from_clause
        self._attached: list[_Attached] = []
        self.width = FIRST_SUBQUERY
        self.bind = Subqueries(from_clause.environment, self).bind

    @property
    def empty(self) -> bool:
        """True if there are none."""
        return not self._attached

    def around(self, scope: Scope) -> Around:
        """The joined rows: what is named of them must be grouped."""
        return replace(self._from.around(scope), by_key=False)

    def attach(
        self, relation: Relation, on: Sequence[Scalar], parameters: Sequence[BoundParameter], *, every: bool
    ) -> None:
        """Notes a relation to be joined later."""
        self._attached.append(_Attached(relation, tuple(on), tuple(parameters), every))
        self.width += len(column_types(relation))

    def never_null(self, expression: Scalar) -> bool:
        """Return whether an expression over the groups is never NULL, as far as it is known yet."""
        known = isinstance(expression, ColumnRef | Literal)
        return known and self._from.never_null(expression)

    def place(self, place: Callable[[Scalar], Scalar]) -> None:
        """Expressions over the joined rows become such over the groups."""
        self._attached = [replace(a, on=tuple(map(place, a.on))) for a in self._attached]

    def join(self, rows: Rows, above: Above, settle: Callable[[Scalar], Scalar]) -> tuple[Rows, Above]:
        """The groups joined with all that was noted."""
        behind = len(rows.columns()) - FIRST_SUBQUERY

        def moved(expression: Scalar) -> Scalar:
            return substitute(
                settle(expression),
                lambda ref: ref if ref.index < FIRST_SUBQUERY else ColumnRef(ref.index + behind, ref.type),
            )

        joined = LooseBlock(list(rows.inputs), [moved(c) for c in rows.conjuncts], list(above.parameters))
        for a in self._attached:
            joined.append(a.relation)
            if not (a.every and not a.on and not a.parameters):
                parameters = [replace(p, expression=moved(p.expression)) for p in a.parameters]
                joined.join_left(len(joined.inputs) - 1, [moved(part) for part in a.on], parameters)
        for pending in joined.finish():
            raise refuse_pending(pending)
        above = replace(above, parameters=tuple(joined.parameters)).changed(lambda e, _: moved(e))
        return Rows(tuple(joined.inputs), tuple(joined.conjuncts)), above


def refuse_beside(above: Above) -> UnsupportedQuery:
    """The error of parameters of an aggregate that always has a row, with subqueries beside it."""
    return UnsupportedQuery(
        "Subqueries beside an aggregate without GROUP BY that has parameters are not kept up to date.",
        above.parameters[0].span,
    )
