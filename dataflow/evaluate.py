"""Scalar expressions, compiled to closures over a row. The functions here are all that plans may use, and exactly the
upstream's: three-valued logic, equality and order of each type, errors where the upstream has errors.

A `Call` is by canonical name (the tables at the end); its arguments are of the types that the upstream would compute
with, so casts are calls of their own. Constants are prepared once, not per row.

*Invariants*: booleans are ``t``, ``f`` or NULL. Nothing here depends on anything but the row.

Not here: which SQL may use which function on which types (`sql.functions`), SQL text of an expression (`plan.render`).
"""

import re
from collections.abc import Callable, Sequence
from operator import eq, ge, gt, itemgetter, le, lt, ne
from typing import Any

from dataflow import arithmetic
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types import Row, Value
from dataflow.values import FLOATS, INTEGERS, comparable, family, float4, normal_form, order_form, orderable

Function = Callable[[Row], Value]
Predicate = Callable[[Row], bool]
#: What a comparison compares: a value as something that Python compares as the upstream compares the values.
Form = Callable[[str], Any]

_OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}


def compile_scalar(expression: Scalar) -> Function:
    """A function from a row to the expression's value; it raises EvaluationError where the upstream has an error."""
    if isinstance(expression, ColumnRef):
        return itemgetter(expression.index)
    if isinstance(expression, Literal):
        value = expression.value
        return lambda _row: value
    if expression.function in _PREDICATES and expression.function not in _THREE_VALUED:
        holds = _PREDICATES[expression.function](expression)
        return lambda row: "t" if holds(row) else "f"
    try:
        compiler = _COMPILERS[expression.function]
    except KeyError:
        raise ValueError(f"no function {expression.function!r}") from None
    return compiler(expression)


def compile_predicate(expression: Scalar) -> Predicate:
    """A function that says whether the expression is TRUE (not FALSE, not NULL) for a row."""
    if isinstance(expression, Call) and expression.function in _PREDICATES:
        return _PREDICATES[expression.function](expression)
    function = compile_scalar(expression)
    return lambda row: function(row) == "t"


# --- comparisons ----------------------------------------------------------------------------------------------------


def comparison_forms(operator: str, left: SqlType, right: SqlType) -> tuple[Form | None, Form | None]:
    """What to compare values of these types by; None: their texts. ValueError if it is not known."""
    names = {left.name, right.name}
    if "base" == left.kind == right.kind and names <= INTEGERS | FLOATS | {"numeric"} and len(names) > 1:
        return _number_forms(left, right)
    if family(left) != family(right):
        raise ValueError(f"{left.sql} and {right.sql} are not compared")
    if operator in ("=", "<>"):
        if not (comparable(left) and comparable(right)):
            raise ValueError(f"equality of {left.sql} is not known")
        return normal_form(left), normal_form(right)
    if not (orderable(left) and orderable(right)):
        raise ValueError(f"the order of {left.sql} is not known")
    if left.name in INTEGERS:
        return int, int
    if left.name in ("bool", "uuid"):
        return None, None
    return order_form(left), order_form(right)


def _number_forms(left: SqlType, right: SqlType) -> tuple[Form, Form]:
    """Numbers of different types, as the upstream converts them to compare them."""
    names = {left.name, right.name}
    if names <= INTEGERS:
        return int, int
    if not names & FLOATS:
        return order_form(SqlType("numeric", "numeric")), order_form(SqlType("numeric", "numeric"))
    as_double = order_form(SqlType("float8", "float8"))

    def form(sql_type: SqlType) -> Form:
        # A float4 is compared as the double that it is, not as the double nearest to its text.
        return (lambda text: as_double(repr(float4(text)))) if sql_type.name == "float4" else as_double

    return form(left), form(right)


def _same(text: str) -> str:
    return text


def _sides(call: Call, operator: str) -> tuple[Function, Function, Form, Form]:
    left, right = call.arguments
    left_form, right_form = comparison_forms(operator, left.type, right.type)
    return compile_scalar(left), compile_scalar(right), left_form or _same, right_form or _same


def _comparison(call: Call) -> Function:
    compare = _OPERATORS[call.function]
    left, right, left_form, right_form = _sides(call, call.function)

    def function(row: Row) -> Value:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        return "t" if compare(left_form(a), right_form(b)) else "f"

    return function


def _comparison_holds(call: Call) -> Predicate:
    compare = _OPERATORS[call.function]
    left, right, left_form, right_form = _sides(call, call.function)
    constant = call.arguments[1]
    if isinstance(constant, Literal):
        if constant.value is None:
            return lambda _row: False
        fixed = right_form(constant.value)
        return lambda row: (a := left(row)) is not None and compare(left_form(a), fixed)

    def holds(row: Row) -> bool:
        a, b = left(row), right(row)
        return a is not None and b is not None and compare(left_form(a), right_form(b))

    return holds


def _distinct_holds(call: Call) -> Predicate:
    left, right, left_form, right_form = _sides(call, "=")

    def holds(row: Row) -> bool:
        a, b = left(row), right(row)
        if a is None or b is None:
            return a is not b
        return bool(left_form(a) != right_form(b))

    return holds


def _not_distinct_holds(call: Call) -> Predicate:
    distinct = _distinct_holds(call)
    return lambda row: not distinct(row)


def _in(call: Call) -> Function:
    """``x IN (constants)``; the constants are of x's family."""
    subject = compile_scalar(call.arguments[0])
    form = normal_form(call.arguments[0].type) or _same
    constants = [a.value for a in call.arguments[1:] if isinstance(a, Literal)]
    if len(constants) != len(call.arguments) - 1:
        raise ValueError("IN takes constants")
    wanted = frozenset(form(c) for c in constants if c is not None)
    otherwise = None if None in constants else "f"

    def function(row: Row) -> Value:
        value = subject(row)
        if value is None:
            return None
        return "t" if form(value) in wanted else otherwise

    return function


# --- logic ----------------------------------------------------------------------------------------------------------


def _and(call: Call) -> Function:
    parts = [compile_scalar(a) for a in call.arguments]

    def function(row: Row) -> Value:
        result: Value = "t"
        for part in parts:
            value = part(row)
            if value == "f":
                return "f"
            if value is None:
                result = None
        return result

    return function


def _or(call: Call) -> Function:
    parts = [compile_scalar(a) for a in call.arguments]

    def function(row: Row) -> Value:
        result: Value = "f"
        for part in parts:
            value = part(row)
            if value == "t":
                return "t"
            if value is None:
                result = None
        return result

    return function


def _and_holds(call: Call) -> Predicate:
    parts = [compile_predicate(a) for a in call.arguments]
    if len(parts) == 2:
        first, second = parts
        return lambda row: first(row) and second(row)
    return lambda row: all(part(row) for part in parts)


def _or_holds(call: Call) -> Predicate:
    parts = [compile_predicate(a) for a in call.arguments]
    return lambda row: any(part(row) for part in parts)


def _not(call: Call) -> Function:
    part = compile_scalar(call.arguments[0])

    def function(row: Row) -> Value:
        value = part(row)
        return None if value is None else "f" if value == "t" else "t"

    return function


def _is_null(call: Call) -> Predicate:
    part = compile_scalar(call.arguments[0])
    return lambda row: part(row) is None


def _is_not_null(call: Call) -> Predicate:
    part = compile_scalar(call.arguments[0])
    return lambda row: part(row) is not None


def _is(value: str, wanted: bool) -> Callable[[Call], Predicate]:
    def compiler(call: Call) -> Predicate:
        part = compile_scalar(call.arguments[0])
        return lambda row: (part(row) == value) is wanted

    return compiler


# --- choices --------------------------------------------------------------------------------------------------------


def _coalesce(call: Call) -> Function:
    parts = [compile_scalar(a) for a in call.arguments]
    if len(parts) == 2:
        first, second = parts
        return lambda row: value if (value := first(row)) is not None else second(row)

    def function(row: Row) -> Value:
        for part in parts:
            value = part(row)
            if value is not None:
                return value
        return None

    return function


def _nullif(call: Call) -> Function:
    left = compile_scalar(call.arguments[0])
    equal = _comparison_holds(Call("=", call.arguments, call.type))
    return lambda row: None if equal(row) else left(row)


def _case(call: Call) -> Function:
    """Conditions and values in turn, then the value of ELSE."""
    pairs = call.arguments[:-1]
    branches = [
        (compile_predicate(condition), compile_scalar(value))
        for condition, value in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    otherwise = compile_scalar(call.arguments[-1])

    def function(row: Row) -> Value:
        for holds, value in branches:
            if holds(row):
                return value(row)
        return otherwise(row)

    return function


# --- numbers and text -----------------------------------------------------------------------------------------------


def _strict(call: Call, function: Callable[..., str]) -> Function:
    """`function` of the arguments' values; NULL if one is NULL."""
    parts = [compile_scalar(a) for a in call.arguments]
    if len(parts) == 1:
        (only,) = parts
        return lambda row: None if (a := only(row)) is None else function(a)
    first, second = parts

    def both(row: Row) -> Value:
        a, b = first(row), second(row)
        return None if a is None or b is None else function(a, b)

    return both


def _arithmetic(call: Call) -> Function:
    if call.type.name in INTEGERS:
        return _strict(call, arithmetic.integer_operation(call.function, call.type.name))
    return _strict(call, _NUMERIC_OPERATIONS[call.function])


_NUMERIC_OPERATIONS = {"+": arithmetic.add, "-": arithmetic.subtract, "*": arithmetic.multiply}


def _negation(call: Call) -> Function:
    if call.type.name in INTEGERS:
        name = call.type.name
        return _strict(call, lambda a: str(arithmetic.check_range(-int(a), name)))
    return _strict(call, arithmetic.negate)


def _average(call: Call) -> Function:
    """SUM and count of the values to their AVG; NULL if there are none."""
    total, count = (compile_scalar(a) for a in call.arguments)

    def function(row: Row) -> Value:
        a, b = total(row), count(row)
        return None if a is None or b is None or b == "0" else arithmetic.average(a, int(b))

    return function


def _concatenation(call: Call) -> Function:
    return _strict(call, lambda a, b: a + b)


def _length(call: Call) -> Function:
    return _strict(call, lambda a: str(len(a)))


def _like(call: Call) -> Function:
    pattern = call.arguments[1]
    if not isinstance(pattern, Literal):
        raise ValueError("LIKE takes a constant pattern")
    if pattern.value is None:
        return lambda _row: None
    subject = compile_scalar(call.arguments[0])
    matches = like_pattern(pattern.value).fullmatch

    def function(row: Row) -> Value:
        value = subject(row)
        return None if value is None else "t" if matches(value) else "f"

    return function


def like_pattern(pattern: str) -> re.Pattern[str]:
    """A LIKE pattern without escapes as a regular expression."""
    if "\\" in pattern:
        raise ValueError("LIKE patterns with backslashes are not known")
    wild = {"%": ".*", "_": "."}
    return re.compile("".join(wild.get(c) or re.escape(c) for c in pattern), re.DOTALL)


def _cast(call: Call) -> Function:
    source, target = call.arguments[0].type, call.type
    if not castable(source, target):
        raise ValueError(f"a cast from {source.sql} to {target.sql} is not known")
    if target.name in INTEGERS and source.name not in ("bool",):
        name = target.name
        if source.name == "numeric":
            return _strict(call, lambda a: arithmetic.to_integer(a, name))
        if _INTEGER_WIDTHS[source.name] > _INTEGER_WIDTHS[name]:
            return _strict(call, lambda a: str(arithmetic.check_range(int(a), name)))
    elif source.name == "bool" and target.name != "bool":
        words = {"t": "true", "f": "false"} if target.name == "text" else {"t": "1", "f": "0"}
        return _strict(call, words.__getitem__)
    return compile_scalar(call.arguments[0])


_INTEGER_WIDTHS = {"int2": 2, "int4": 4, "int8": 8}
#: Without bool and int4, the text stays the same or is rounded to an integer.
_CASTS: dict[str, frozenset[str]] = {
    **dict.fromkeys(INTEGERS, INTEGERS | {"numeric", "text"}),
    "numeric": INTEGERS | {"numeric", "text"},
    "text": frozenset({"text", "varchar"}),
    "varchar": frozenset({"text", "varchar"}),
    "name": frozenset({"text", "name"}),
    "uuid": frozenset({"text", "uuid"}),
    "bool": frozenset({"bool", "int4", "text"}),
}


def castable(source: SqlType, target: SqlType) -> bool:
    """Whether the cast is known and exact. A type with a length or scale of its own is never the target."""
    if source == target:
        return True
    if not "base" == source.kind == target.kind or target.sql.endswith(")"):
        return False
    return target.name in _CASTS.get(source.name, ()) and target.collation == _cast_collation(source, target)


def _cast_collation(source: SqlType, target: SqlType) -> str:
    return source.collation if source.name in ("text", "varchar") else target.collation


# --- the list -------------------------------------------------------------------------------------------------------

_COMPILERS: dict[str, Callable[[Call], Function]] = {
    **dict.fromkeys(_OPERATORS, _comparison),
    "and": _and,
    "or": _or,
    "not": _not,
    "in": _in,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "case": _case,
    "+": _arithmetic,
    "-": _arithmetic,
    "*": _arithmetic,
    "neg": _negation,
    "average": _average,
    "||": _concatenation,
    "length": _length,
    "like": _like,
    "cast": _cast,
}

#: Direct tests for TRUE. Those not in `_THREE_VALUED` are never NULL.
_PREDICATES: dict[str, Callable[[Call], Predicate]] = {
    **dict.fromkeys(_OPERATORS, _comparison_holds),
    "and": _and_holds,
    "or": _or_holds,
    "is null": _is_null,
    "is not null": _is_not_null,
    "is distinct from": _distinct_holds,
    "is not distinct from": _not_distinct_holds,
    "is true": _is("t", True),
    "is not true": _is("t", False),
    "is false": _is("f", True),
    "is not false": _is("f", False),
}
_THREE_VALUED = frozenset((*_OPERATORS, "and", "or"))

#: Every function that plans may use.
FUNCTIONS = frozenset(_COMPILERS) | frozenset(_PREDICATES)


def evaluate(expression: Scalar, row: Sequence[Value] = ()) -> Value:
    """The value of an expression for one row."""
    return compile_scalar(expression)(tuple(row))
