"""Aggregate functions of a SELECT: collected while its expressions are bound, and the grouping of what stands beside.

While binding, the result of the k-th call is column `FIRST_CALL` + k; `GroupBy` turns that, and group columns, into
columns of the aggregate.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.expressions import BOOL, INT8, substitute, used_columns
from dataflow.plan.nodes import AggregateCall, AggregateFunction, CallOrder
from dataflow.plan.result_types import average_type, sum_type, summable
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql import functions
from dataflow.sql.cast_types import TEXT, UNKNOWN
from dataflow.sql.spans import span_of

if TYPE_CHECKING:
    from dataflow.sql.bind import Binder

FIRST_CALL = 1_000_000
#: Results of window functions have numbers from here on (`windows`); grouping leaves them alone.
FIRST_WINDOW = 2_000_000
#: Called for a column that is not grouped: raises unless the group columns determine it.
OnMissing = Callable[[ColumnRef], None]
_FUNCTIONS = {f.value: f for f in AggregateFunction if f is not AggregateFunction.COUNT_ROWS}
_FUNCTIONS["every"] = AggregateFunction.BOOL_AND
_ARGUMENTS = {
    AggregateFunction.STRING_AGG: 2,
    AggregateFunction.JSON_OBJECT_AGG: 2,
    AggregateFunction.JSONB_OBJECT_AGG: 2,
}
#: Where a NULL counts, FILTER cannot make a NULL of what it drops.
_COUNTING_NULLS = frozenset(
    {
        AggregateFunction.ARRAY_AGG,
        AggregateFunction.JSON_AGG,
        AggregateFunction.JSONB_AGG,
        AggregateFunction.JSON_OBJECT_AGG,
        AggregateFunction.JSONB_OBJECT_AGG,
    }
)
#: The order of the rows makes a difference.
_ORDERED = _COUNTING_NULLS | {AggregateFunction.STRING_AGG}
#: Counting a value twice makes a difference.
_COUNTING = _ORDERED | {AggregateFunction.COUNT, AggregateFunction.SUM, AggregateFunction.AVG}


@dataclass(frozen=True, slots=True)
class WrittenCall:
    """A function call as the SQL has it, taken apart."""

    name: str
    #: None for ``count(*)``.
    arguments: tuple[exp.Expr, ...] | None
    distinct: bool = False
    order: tuple[exp.Expr, ...] = ()
    filter: exp.Expr | None = None


def written_call(node: Any, binder: "Binder") -> WrittenCall:
    """The call of an aggregate's (or window's) function as written, perhaps with FILTER."""
    condition: exp.Expr | None = None
    if isinstance(node, exp.Filter):
        condition, node = node.expression.this, node.this
    name = binder.written_name(node)
    if isinstance(node, exp.WithinGroup):
        raise UnsupportedQuery("WITHIN GROUP is not kept up to date.", span_of(node))
    if isinstance(node, exp.IgnoreNulls | exp.RespectNulls):
        raise UnsupportedQuery("IGNORE NULLS and RESPECT NULLS are not kept up to date.", span_of(node))
    if isinstance(node.this, exp.Star):
        return WrittenCall(name, None, filter=condition)
    arguments: list[exp.Expr] = []
    order: tuple[exp.Expr, ...] = ()
    distinct = False
    for part in _parts(node):
        inner = part
        if isinstance(inner, exp.Order):
            order, inner = tuple(inner.expressions), inner.this
        if isinstance(inner, exp.Distinct):
            distinct = True
            arguments += inner.expressions
        else:
            arguments.append(inner)
    return WrittenCall(name, tuple(arguments), distinct, order, condition)


def _parts(node: exp.Expr) -> list[Any]:
    """A function's arguments in the order in which they are written."""
    known = ("this", "expressions", "expression", "separator", "offset", "default")
    if any(v for k, v in node.args.items() if k not in (*known, "big_int")):
        raise UnsupportedQuery(f"{node.sql('postgres')} is not kept up to date.", span_of(node))
    parts: list[Any] = []
    for key in known:
        value = node.args.get(key)
        if isinstance(value, list):
            parts += value
        elif isinstance(value, exp.Expr):
            parts.append(value)
    return parts


class Calls:
    """The aggregate calls of one SELECT."""

    def __init__(self) -> None:
        self.calls: dict[AggregateCall, int] = {}
        self._depth = 0

    @property
    def inside(self) -> bool:
        """Whether the arguments of an aggregate are being bound."""
        return self._depth > 0

    def bind(self, node: exp.Expr, binder: "Binder") -> Scalar:
        """The result of an aggregate function, as a column."""
        if self._depth:
            raise InvalidQuery("Aggregate functions cannot be nested.", span_of(node))
        self._depth += 1
        try:
            call = binder.dialect.aggregate_call(written_call(node, binder), binder)
        finally:
            self._depth -= 1
        result = ColumnRef(FIRST_CALL + self.calls.setdefault(call, len(self.calls)), call.type)
        return binder.dialect.aggregate_value(result, call)


def aggregate_call(written: WrittenCall, binder: "Binder") -> AggregateCall:
    """The call of an aggregate function, bound."""
    function = _FUNCTIONS.get(written.name)
    if function is None:
        raise UnsupportedQuery(f"{written.name.upper()} is not kept up to date.")
    kept = None if written.filter is None else functions.condition(binder.bind(written.filter))
    if written.arguments is None:
        if function is not AggregateFunction.COUNT:
            raise InvalidQuery(f"{written.name.upper()} takes an expression, not *.")
        return _count_rows(kept)
    if len(written.arguments) != _ARGUMENTS.get(function, 1):
        raise UnsupportedQuery(f"{written.name.upper()} of {len(written.arguments)} arguments is not kept up to date.")
    arguments = [binder.value(a) for a in written.arguments]
    if function is AggregateFunction.STRING_AGG:
        arguments = _strings(written.name, arguments)
    arguments[0] = _argument(function, arguments[0])
    order = _order(written, binder, arguments)
    distinct = written.distinct and function in _COUNTING
    if distinct:
        _check_distinct(arguments)
    result = _result(function, arguments[0].type)
    if kept is not None and function not in _COUNTING_NULLS:
        arguments[0] = functions.case([(kept, arguments[0])], Literal(None, UNKNOWN))
        kept = None
    return AggregateCall(
        function,
        arguments[0],
        result,
        others=tuple(arguments[1:]),
        distinct=distinct,
        order=order if function in _ORDERED else (),
        keeps=kept,
    )


def _count_rows(kept: Scalar | None) -> AggregateCall:
    if kept is None:
        return AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8)
    one = functions.case([(kept, Literal("1", INT8))], Literal(None, UNKNOWN))
    return AggregateCall(AggregateFunction.COUNT, one, INT8)


def _argument(function: AggregateFunction, argument: Scalar) -> Scalar:
    """The first argument as the function takes it."""
    sql_type, name = argument.type, function.value.upper()
    match function:
        case AggregateFunction.SUM | AggregateFunction.AVG if not summable(sql_type):
            raise UnsupportedQuery(f"{name} of {sql_type.sql} is not kept up to date.")
        case AggregateFunction.MIN | AggregateFunction.MAX:
            if not sql_type.rules.extremes:
                raise UnsupportedQuery(f"{name} of {sql_type.sql} is not kept up to date.")
            return functions.sortable(argument)
        case AggregateFunction.BOOL_AND | AggregateFunction.BOOL_OR:
            return functions.condition(argument)
        case (
            AggregateFunction.COUNT_ROWS
            | AggregateFunction.COUNT
            | AggregateFunction.SUM
            | AggregateFunction.AVG
            | AggregateFunction.STRING_AGG
            | AggregateFunction.ARRAY_AGG
            | AggregateFunction.JSON_AGG
            | AggregateFunction.JSONB_AGG
            | AggregateFunction.JSON_OBJECT_AGG
            | AggregateFunction.JSONB_OBJECT_AGG
        ):
            return argument


def _strings(name: str, arguments: Sequence[Scalar]) -> list[Scalar]:
    """The arguments of STRING_AGG, by that or another name: texts, or byte strings."""
    if all(argument.type.is_bytes for argument in arguments):
        return list(arguments)
    for argument in arguments:
        if not argument.type.is_string:
            raise UnsupportedQuery(f"{name.upper()} of {argument.type.sql} is not kept up to date.")
    return [functions.cast(argument, TEXT) for argument in arguments]


def _order(written: WrittenCall, binder: "Binder", arguments: Sequence[Scalar]) -> tuple[CallOrder, ...]:
    """ORDER BY inside the parentheses; constants order nothing."""
    terms: list[CallOrder] = []
    for term in written.order:
        expression = functions.settled(binder.bind(term.this))
        if written.distinct and expression not in arguments:
            raise UnsupportedQuery(
                "With DISTINCT, an aggregate's ORDER BY is about its arguments.", span_of(term) or span_of(term.this)
            )
        if used_columns(expression):
            functions.sortable(expression)
            terms.append(CallOrder(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first"))))
    return tuple(terms)


def _check_distinct(arguments: Sequence[Scalar]) -> None:
    for argument in arguments:
        if not argument.type.comparable:
            raise UnsupportedQuery(f"When {argument.type.sql} values are equal is not known exactly.")


def _result(function: AggregateFunction, argument: SqlType) -> SqlType:
    match function:
        case AggregateFunction.COUNT_ROWS | AggregateFunction.COUNT:
            return INT8
        case AggregateFunction.SUM:
            return sum_type(argument)
        case AggregateFunction.AVG:
            return average_type(argument)
        case AggregateFunction.BOOL_AND | AggregateFunction.BOOL_OR:
            return BOOL
        case AggregateFunction.ARRAY_AGG:
            return array_type(argument)
        case AggregateFunction.JSON_AGG | AggregateFunction.JSON_OBJECT_AGG:
            return SqlType("json", "json")
        case AggregateFunction.JSONB_AGG | AggregateFunction.JSONB_OBJECT_AGG:
            return SqlType("jsonb", "jsonb")
        case AggregateFunction.MIN | AggregateFunction.MAX | AggregateFunction.STRING_AGG:
            if argument.name == "varchar":
                return SqlType("text", "text", collation=argument.collation)
            return functions.plain_type(argument)


def array_type(element: SqlType) -> SqlType:
    """The type of arrays of `element`."""
    if element.kind == "array":
        raise UnsupportedQuery("Arrays of arrays are not kept up to date.")
    plain = functions.plain_type(element)
    return SqlType(plain.name, f"{plain.sql}[]", "array", plain)


def refuse_aggregate(node: exp.Expr, binder: "Binder") -> Scalar:
    """In WHERE, ON and GROUP BY there are none."""
    if isinstance(node, exp.Window):
        raise InvalidQuery("Window functions cannot stand in WHERE, ON or GROUP BY.", span_of(node))
    if isinstance(node, exp.Filter | exp.WithinGroup) or binder.written_name(node) in binder.dialect.aggregates:
        raise InvalidQuery("Aggregate functions cannot stand in WHERE, ON or GROUP BY.", span_of(node))
    raise UnsupportedQuery(f"{binder.written_name(node).upper()} is not kept up to date.", span_of(node))


class GroupBy:
    """The group columns: expressions over the joined row.

    Maintains: `expressions` has no expression twice.
    """

    def __init__(self) -> None:
        self.expressions: list[Scalar] = []

    def add(self, expression: Scalar) -> int:
        """The place of a group column."""
        if expression not in self.expressions:
            self.expressions.append(expression)
        return self.expressions.index(expression)

    def place(self, expression: Scalar, missing: OnMissing) -> Scalar:
        """An expression of the grouped SELECT over the group columns; calls keep their numbers for `settle`."""
        if expression in self.expressions:
            return ColumnRef(self.expressions.index(expression), expression.type)
        if isinstance(expression, ColumnRef):
            if expression.index >= FIRST_CALL:
                return expression
            missing(expression)
            return ColumnRef(self.add(expression), expression.type)
        if isinstance(expression, Literal):
            return expression
        arguments = tuple(self.place(a, missing) for a in expression.arguments)
        return Call(expression.function, arguments, expression.type)

    def settle(self, expression: Scalar) -> Scalar:
        """Numbers of calls as columns behind the group columns, once no group column comes any more."""

        def behind(ref: ColumnRef) -> Scalar:
            if not FIRST_CALL <= ref.index < FIRST_WINDOW:
                return ref
            return ColumnRef(len(self.expressions) + ref.index - FIRST_CALL, ref.type)

        return substitute(expression, behind)
