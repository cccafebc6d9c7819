"""Columns of the SELECT around a subquery, named inside it: decorrelation.

An equality of an inner expression with an outer one becomes a column of the subquery's relation (as a parameter does),
which the SELECT around is joined by. Any other use of an outer column joins the outer table into the subquery once
more, as its *domain*: the subquery is then computed for each of the table's rows, and joined with it by its key.

(Galindo-Legaria and Joshi, "Orthogonal Optimization of Subqueries and Aggregation", SIGMOD 2001; Seshadri et al.,
"Complex Query Decorrelation", ICDE 1996.)

*Invariants*: inside a subquery, column `OUTER` + k is column k of the row around; no such column is left in a plan.
"""

from dataclasses import dataclass, field, replace

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import rejects_nulls, shift, substitute, used_columns
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, Relation, column_types
from dataflow.plan.nullability import never_null
from dataflow.plan.parametric import without_parameters
from dataflow.plan.rewriting import bottom_up, input_of, offsets, unique_keys
from dataflow.plan.rules.join_conditions import join_conditions
from dataflow.plan.rules.merge_blocks import merge_blocks
from dataflow.scalar import Call, ColumnRef, Scalar
from dataflow.schema import Catalog
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.scope import Scope
from dataflow.sql.loose_block import LooseBlock

OUTER = 3_000_000


@dataclass(frozen=True, slots=True)
class Domain:
    """A relation with the values of outer columns: outer column -> its own, and what it is joined by."""

    relation: Relation
    columns: dict[int, int]
    keys: tuple[int, ...]
    #: Own columns of which not all may be NULL around: such a row is not found by its key.
    present: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Around:
    """The names of the outer query that a subquery may use."""

    joined: LooseBlock
    scope: Scope
    catalog: Catalog
    #: Beside an aggregate only the group columns are there, so that a domain has the one column.
    by_key: bool = True
    #: Conditions on outer columns alone, from the subquery's own WHERE.
    conditions: list[Scalar] = field(default_factory=list)

    def domain(self, column: int) -> Domain:
        """A relation that has all values of an outer column."""
        starts = offsets(self.joined.inputs)
        position = input_of(starts, column)
        item, start = self.joined.inputs[position], starts[position]
        if isinstance(item.relation, Chain):
            item = replace(item, relation=without_parameters(item.relation))
        key = self._key(item.relation) if self.by_key else None
        if key is None:
            return self._values(item, start, column)
        columns = range(len(column_types(item.relation)))
        keys = tuple(start + c for c in sorted(key))
        return Domain(item.relation, {start + c: c for c in columns}, keys, frozenset(columns if item.left else ()))

    def _key(self, relation: Relation) -> frozenset[int] | None:
        keys = unique_keys(proper(relation, self.catalog), self.catalog)
        known = [k for k in keys if all(never_null(relation, c, self.catalog) for c in k)]
        return min(known, key=lambda k: (len(k), sorted(k)), default=None)

    def _values(self, item: BlockInput, start: int, column: int) -> Domain:
        """The different values of the column."""
        own = column - start
        block = Block((BlockInput(item.relation),), None, (_column(item.relation, own),))
        if not block.columns[0].type.comparable:
            raise UnsupportedQuery(f"When {block.columns[0].type.sql} values are equal is not known exactly.")
        known = not item.left and never_null(item.relation, own, self.catalog)
        return Domain(Aggregate(block, (0,), ()), {column: 0}, (column,), frozenset(() if known else (0,)))


def _column(relation: Relation, index: int) -> ColumnRef:
    return ColumnRef(index, column_types(relation)[index])


def proper(relation: Relation, catalog: Catalog) -> Relation:
    """A loose relation with join conditions, so that its unique keys are seen."""
    return bottom_up(join_conditions, bottom_up(merge_blocks, relation, catalog), catalog)


class Correlations:
    """The outer columns that one SELECT names."""

    def __init__(self, around: Around | None, joined: LooseBlock) -> None:
        self._around = around
        self._joined = joined
        #: Outer column -> the column here that has its values.
        self._domains: dict[int, int] = {}
        #: Columns of domains: fixed by what the subquery is joined by.
        self.columns: set[int] = set()
        #: Sets of them that must not be all NULL in any row.
        self._present: list[set[int]] = []

    def forget(self) -> None:
        """Domains so far may be on the padded side of an outer join."""
        self._domains.clear()

    # Names

    def inside(self, node: exp.Column) -> Scalar | None:
        """An outer name, as a column of a domain."""
        found = None if self._around is None else self._around.scope.find(node)
        return None if found is None else self.domain(found)

    def named(self, node: exp.Column) -> Scalar | None:
        """An outer name, as a column of the row around."""
        found = None if self._around is None else self._around.scope.find(node)
        return None if found is None else shift(found, OUTER)

    # Conjuncts

    def correlated(self, part: Scalar) -> BoundParameter | None:
        """``inner expression = outer expression``."""
        if not isinstance(part, Call) or part.function != "=":
            return None
        sides = [used_columns(side) for side in part.arguments]
        for (inner, outer), (inner_used, outer_used) in (
            (part.arguments, sides),
            (part.arguments[::-1], sides[::-1]),
        ):
            if inner_used and outer_used and max(inner_used) < OUTER <= min(outer_used) and _joinable(inner, outer):
                return correlation(inner, shift(outer, -OUTER))
        return None

    def around_only(self, part: Scalar) -> bool:
        """Return whether a conjunct reads nothing but outer columns."""
        used = used_columns(part)
        return bool(used) and min(used) >= OUTER

    def settled(self, expression: Scalar) -> Scalar:
        """The expression with columns of domains for outer ones."""
        return substitute(expression, self._here)

    def domain(self, outer: Scalar) -> Scalar:
        """An expression over the row around, over columns of domains."""
        return substitute(outer, lambda ref: self._here(ColumnRef(ref.index + OUTER, ref.type)))

    def require(self, part: Scalar) -> None:
        """A condition on outer columns alone: without it, the subquery has no rows."""
        assert self._around is not None
        self._around.conditions.append(shift(part, -OUTER))

    def finish(self) -> None:
        """Turn correlations with a domain into joins with it: its keys are what is left to be joined."""
        kept: list[BoundParameter] = []
        for p in self._joined.parameters:
            if (
                p.outer is None
                or not used_columns(p.outer) <= set(self._domains)
                or (value := self.domain(p.outer)) == p.expression
            ):
                kept.append(p)
            else:
                self._joined.conjuncts.append(functions.comparison("=", p.expression, value))
        self._joined.parameters[:] = kept
        for columns in self._present:
            if not any(rejects_nulls(part, columns) for part in self._joined.conjuncts):
                raise UnsupportedQuery(
                    "A subquery names a column of the query around it other than by an equality; the column may be"
                    " NULL, and its rows have no key to find them by."
                )

    def _here(self, ref: ColumnRef) -> Scalar:
        if ref.index < OUTER:
            return ref
        outer = ref.index - OUTER
        if outer not in self._domains:
            self._join_domain(outer)
        return ColumnRef(self._domains[outer], ref.type)

    def _join_domain(self, outer: int) -> None:
        assert self._around is not None
        domain = self._around.domain(outer)
        offset = self._joined.append(domain.relation)
        found = {column: offset + own for column, own in domain.columns.items()}
        self._domains |= {column: own for column, own in found.items() if column not in self._domains}
        self.columns |= set(found.values())
        if domain.present:
            self._present.append({offset + c for c in domain.present})
        for key in domain.keys:
            here = _column(domain.relation, domain.columns[key])
            self._joined.parameters.append(correlation(shift(here, offset), ColumnRef(key, here.type)))


def correlation(inner: Scalar, outer: Scalar) -> BoundParameter:
    """The correlation of an inner expression with one over the row around: equal ones have equal names."""
    return BoundParameter(f" {inner.type.family} {outer!r}", inner, None, outer=outer)


def _joinable(inner: Scalar, outer: Scalar) -> bool:
    return inner.type.comparable and outer.type.comparable and inner.type.family == outer.type.family
