"""UNION, INTERSECT and EXCEPT of two lowered queries.

UNION ALL is a `Union`; UNION groups it by all columns; INTERSECT and EXCEPT count each group's rows of either side.
INTERSECT ALL and EXCEPT ALL do so after equal rows of a side were numbered, which makes them different.

*Invariants*: a parameter is a column of the union, which every branch has: what a key sees of a branch is what the
upstream sees of it with that value.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import BOOL, INT4, INT8, equality
from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Block,
    Chain,
    Frame,
    Source,
    Union,
    Window,
    WindowCall,
    column_types,
)
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import Catalog
from dataflow.sql.clauses import Lowered, comparable_group, rows_of
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.dialects import dialect_of
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.cast_types import UNKNOWN
from dataflow.sql.expressions.dialect import Dialect
from dataflow.sql.syntax.spans import span_of
from dataflow.sql.union_parameters import with_same_parameters

_ZERO = Literal("0", INT8)


@dataclass(frozen=True, slots=True)
class _Aligned:
    """Both sides with the same columns in the same places."""

    sides: tuple[Source, Source]
    outputs: tuple[tuple[str, int], ...]
    parameters: tuple[BoundParameter, ...]


def combined(node: exp.SetOperation, left: Lowered, right: Lowered, catalog: Catalog) -> Lowered:
    """The two sides as one relation. LIMIT and ORDER BY are the caller's. Constants without a type are text."""
    _check(node, left, right)
    left, right = with_same_parameters(left, right, node.key.upper())
    aligned = _aligned(node, left, right, catalog)
    # Only what a side has for any key matters, which is a question of parameters.
    scalar = (left.scalar or right.scalar) and bool(aligned.parameters)
    _check_columns(aligned, scalar=scalar)
    relation = _combined(node, aligned)
    return Lowered(relation, aligned.outputs, aligned.parameters, scalar=scalar, keyless=left.keyless or right.keyless)


def _combined(node: exp.SetOperation, aligned: _Aligned) -> Source:
    distinct = node.args.get("distinct")
    if isinstance(node, exp.Union) and not distinct:
        return Union(aligned.sides)
    _check_distinct(node, aligned)
    if isinstance(node, exp.Union):
        return _distinct(Union(aligned.sides))
    if distinct:
        return _counted(aligned.sides, except_=isinstance(node, exp.Except))
    first, second = map(_numbered, aligned.sides)
    rows = rows_of(_counted((first, second), except_=isinstance(node, exp.Except)))
    return rows.block(rows.columns()[:-1])


def _check(node: exp.SetOperation, left: Lowered, right: Lowered) -> None:
    name = node.key.upper()
    if any(v for k, v in node.args.items() if k in ("by_name", "side", "kind", "on")):
        raise UnsupportedQuery(f"{name} by name is not PostgreSQL's.", span_of(node))
    if len(left.outputs) != len(right.outputs):
        raise InvalidQuery(
            f"Both sides of {name} must show the same number of columns, not {len(left.outputs)} and"
            f" {len(right.outputs)}.",
            span_of(node.expression),
        )


def _check_columns(aligned: _Aligned, *, scalar: bool) -> None:
    """An aggregate without GROUP BY has a row for any key if each parameter is a column of its own."""
    if scalar and len({p.expression for p in aligned.parameters}) < len(aligned.parameters):
        raise UnsupportedQuery(
            "Without GROUP BY, an aggregate takes each parameter for a column of its own.", aligned.parameters[0].span
        )


# --- columns --------------------------------------------------------------------------------------------------------


def _aligned(node: exp.SetOperation, left: Lowered, right: Lowered, catalog: Catalog) -> _Aligned:
    name = node.key.upper()
    pairs: list[tuple[Scalar, Scalar]] = []

    def place(ours: Scalar, theirs: Scalar) -> int:
        if ours.type == theirs.type == UNKNOWN:
            ours, theirs = functions.typed(ours, catalog.text), functions.typed(theirs, catalog.text)
        one, other = _common(node, ours, theirs, dialect_of(catalog.dialect))
        if (one, other) not in pairs:
            pairs.append((one, other))
        return pairs.index((one, other))

    outputs = tuple(
        (ours[0], place(_column(left, ours[1]), _column(right, theirs[1])))
        for ours, theirs in zip(left.outputs, right.outputs, strict=True)
    )
    parameters = [
        replace(ours, expression=ColumnRef(at, pairs[at][0].type))
        for ours, theirs in _matched(name, left.parameters, right.parameters)
        for at in [place(ours.expression, theirs.expression)]
    ]
    sides = (_projected(left, [p[0] for p in pairs]), _projected(right, [p[1] for p in pairs]))
    return _Aligned(sides, outputs, tuple(parameters))


def _column(lowered: Lowered, column: int) -> Scalar:
    """A column of a side; a constant of no type as such."""
    relation = lowered.relation
    if isinstance(relation, Block | Chain) and isinstance(constant := relation.columns[column], Literal):
        return constant
    return ColumnRef(column, column_types(relation)[column])


def _common(node: exp.SetOperation, ours: Scalar, theirs: Scalar, dialect: Dialect) -> tuple[Scalar, Scalar]:
    """Two columns in their common type."""
    try:
        one, other = dialect.same_type(node.key.upper(), [ours, theirs])
    except UnsupportedQuery as error:
        error.span = error.span or span_of(node.expression)
        raise
    if one.type != other.type:
        # Two collations: what is known of both.
        text = functions.text_type((one, other))
        target = replace(one.type, collation=text.collation, folding=text.folding, weights=text.weights)
        one, other = (e if e.type == target else Call("cast", (e,), target) for e in (one, other))
    return one, other


def _matched(
    name: str, ours: Sequence[BoundParameter], theirs: Sequence[BoundParameter]
) -> list[tuple[BoundParameter, BoundParameter]]:
    """The parameters of both sides, one by one."""
    found: list[tuple[BoundParameter, BoundParameter]] = []
    rest = list(theirs)
    for p in ours:
        twin = next((t for t in rest if (t.name, t.operator, t.kind) == (p.name, p.operator, p.kind)), None)
        if twin is None:
            raise _lonely(name, p)
        rest.remove(twin)
        found.append((p, twin))
    if rest:
        raise _lonely(name, rest[0])
    return found


def _lonely(name: str, parameter: BoundParameter) -> UnsupportedQuery:
    if parameter.outer is not None:
        return UnsupportedQuery(
            f"Both sides of {name} in a subquery must name the same columns of the query around it."
        )
    return parameter.refused(
        f"{parameter.title} must be compared with a column in both sides of {name}, in the same way."
    )


def _projected(lowered: Lowered, columns: Sequence[Scalar]) -> Source:
    return rows_of(lowered.relation).block(columns)


# --- distinct -------------------------------------------------------------------------------------------------------


def _check_distinct(node: exp.SetOperation, aligned: _Aligned) -> None:
    types = column_types(aligned.sides[0])
    comparable_group([ColumnRef(i, t) for i, t in enumerate(types)], node)
    shown = {column for _, column in aligned.outputs}
    for p in aligned.parameters:
        if not p.single and isinstance(p.expression, ColumnRef) and p.expression.index not in shown:
            raise p.refused(
                f"{p.title} is a list or a range over a column that {node.key.upper()} does not show:"
                " rows of several keys would be taken together."
            )


def _distinct(union: Union) -> Block:
    rows = rows_of(Aggregate(union, tuple(range(len(column_types(union)))), ()))
    return rows.block(rows.columns())


def _counted(sides: tuple[Source, Source], *, except_: bool) -> Block:
    """The groups that both sides have, or the first one only."""
    width = len(column_types(sides[0]))
    tagged = tuple(_tagged(side, str(number)) for number, side in enumerate(sides))
    tag = ColumnRef(width, INT4)
    calls = tuple(
        AggregateCall(AggregateFunction.COUNT, _if(equality(tag, Literal(str(number), INT4))), INT8)
        for number in range(2)
    )
    aggregate = Aggregate(Union(tagged), tuple(range(width)), calls)
    rows = rows_of(aggregate)
    ours, theirs = (ColumnRef(width + number, INT8) for number in range(2))
    other = equality(theirs, _ZERO) if except_ else Call(">", (theirs, _ZERO), BOOL)
    kept = replace(rows, conjuncts=(Call(">", (ours, _ZERO), BOOL), other))
    return kept.block(rows.columns()[:width])


def _numbered(side: Source) -> Block:
    """The rows of a side, equal ones numbered from 1 on."""
    number = WindowCall("row_number", (), (), Frame(), INT8)
    rows = rows_of(Window(side, tuple(range(len(column_types(side)))), (number,)))
    return rows.block(rows.columns())


def _tagged(side: Source, tag: str) -> Source:
    rows = rows_of(side)
    return rows.block([*rows.columns(), Literal(tag, INT4)])


def _if(condition: Scalar) -> Scalar:
    return functions.case([(condition, Literal("1", INT8))], Literal(None, INT8))
