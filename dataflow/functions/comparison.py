"""Comparisons, also with lists and arrays, and the larger and smaller of values.

Each compares *forms* of values (`dataflow.types`): what Python compares as the upstream compares the values.
"""

from collections.abc import Callable, Iterator
from operator import eq, ge, gt, le, lt, ne
from typing import Any

from dataflow.functions import arrays, floats, moments
from dataflow.functions.compiler import Compile, Compiler, Function, Predicate, PredicateCompiler
from dataflow.scalar import Call, Literal
from dataflow.schema import SqlType
from dataflow.types import Row, Value
from dataflow.types.floats import float4

#: A value as something that Python compares as the upstream compares the values.
Form = Callable[[str], Any]

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {"=": eq, "<>": ne, "<": lt, "<=": le, ">": gt, ">=": ge}
#: Types of moments that are compared with each other.
MOMENTS = frozenset({"date", "timestamp", "timestamptz"})
_EQUALITIES = ("=", "<>")


def comparison_forms(operator: str, left: SqlType, right: SqlType) -> tuple[Form | None, Form | None]:
    """The forms by which values of these types are compared; None: their texts. ValueError if they are not known."""
    if left.name != right.name and left.is_number and right.is_number:
        return _number_forms(left, right)
    if left.name != right.name and left.is_moment and right.is_moment:
        return _moment(left), _moment(right)
    if left.family != right.family:
        raise ValueError(f"{left.sql} and {right.sql} are not compared")
    if operator in _EQUALITIES:
        if not (left.comparable and right.comparable):
            raise ValueError(f"equality of {left.sql} is not known")
        return left.normal_form, right.normal_form
    if not (left.orderable and right.orderable):
        raise ValueError(f"the order of {left.sql} is not known")
    if left.is_whole:
        return int, int
    if left.is_boolean or (left.kind == "base" and left.name == "uuid"):
        return None, None
    if left.is_moment:
        return _moment_text, _moment_text
    return left.compared_form, right.compared_form


_order_of_moment = SqlType("timestamp", "timestamp").order_form
_order_of_date = SqlType("date", "date").order_form


def _moment_text(text: str) -> str:
    """A date or timestamp of the years 1 to 9999 is its text, which is how almost all are; others before and behind."""
    if text[4:5] == "-" and text[-1] != "C":
        return text
    order = _order_of_moment if ":" in text else _order_of_date
    return (" " if text[-1] == "C" or text == "-infinity" else "~") + order(text).hex()


def _number_forms(left: SqlType, right: SqlType) -> tuple[Form, Form]:
    """Numbers of different types, as the upstream converts them to compare them."""
    if left.is_whole and right.is_whole:
        return int, int
    if not (left.is_float or right.is_float):
        return SqlType("numeric", "numeric").order_form, SqlType("numeric", "numeric").order_form
    as_double = SqlType("float8", "float8").order_form

    def form(sql_type: SqlType) -> Form:
        # A float4 is compared as the double that it is, not as the double nearest to its text.
        return (lambda text: as_double(repr(float4(text)))) if sql_type.name == "float4" else as_double

    return form(left), form(right)


def _moment(sql_type: SqlType) -> Form:
    """A date as its midnight, also where timestamps do not reach; zones are UTC."""
    read = moments.days if sql_type.name == "date" else moments.microseconds
    unit = moments.DAY_US if sql_type.name == "date" else 1

    def form(text: str) -> int | float:
        # Infinities compare with integers of any size.
        return float(text) if text in moments.INFINITIES else read(text) * unit

    return form


def _same(text: str) -> str:
    return text


def _sides(call: Call, operator: str, compile_: Compile) -> tuple[Function, Function, Form, Form]:
    left, right = call.arguments
    left_form, right_form = comparison_forms(operator, left.type, right.type)
    parts = [compile_.scalar(left), compile_.scalar(right)]
    if left.type.is_float or right.type.is_float:
        parts = [
            _double(part) if side.type.is_decimal else part for part, side in zip(parts, call.arguments, strict=True)
        ]
    return parts[0], parts[1], left_form or _same, right_form or _same


def _double(part: Function) -> Function:
    """A numeric that is compared with a float: an error if it is no double, whatever it is compared with."""

    def function(row: Row) -> Value:
        value = part(row)
        if value is not None:
            floats.double(value)
        return value

    return function


def _comparison(call: Call, compile_: Compile) -> Function:
    compare = OPERATORS[call.function]
    left, right, left_form, right_form = _sides(call, call.function, compile_)

    def function(row: Row) -> Value:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        return "t" if compare(left_form(a), right_form(b)) else "f"

    return function


def comparison_holds(call: Call, compile_: Compile) -> Predicate:
    """Compile a comparison into a predicate: whether it is TRUE."""
    compare = OPERATORS[call.function]
    left, right, left_form, right_form = _sides(call, call.function, compile_)
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


def _distinct_holds(call: Call, compile_: Compile) -> Predicate:
    left, right, left_form, right_form = _sides(call, "=", compile_)

    def holds(row: Row) -> bool:
        a, b = left(row), right(row)
        if a is None or b is None:
            return a is not b
        return bool(left_form(a) != right_form(b))

    return holds


def _not_distinct_holds(call: Call, compile_: Compile) -> Predicate:
    distinct = _distinct_holds(call, compile_)
    return lambda row: not distinct(row)


def _in(call: Call, compile_: Compile) -> Function:
    """``x IN (constants)``; the constants are of x's family."""
    subject = compile_.scalar(call.arguments[0])
    form = call.arguments[0].type.normal_form or _same
    constants = [a for a in call.arguments[1:] if isinstance(a, Literal)]
    if len(constants) != len(call.arguments) - 1:
        raise ValueError("IN takes constants")
    wanted = frozenset((c.type.normal_form or _same)(c.value) for c in constants if c.value is not None)
    otherwise = None if any(c.value is None for c in constants) else "f"

    def function(row: Row) -> Value:
        value = subject(row)
        if value is None:
            return None
        return "t" if form(value) in wanted else otherwise

    return function


# --- ANY and ALL of an array ----------------------------------------------------------------------------------------


def element_type(array: SqlType) -> SqlType:
    """The type of an array's elements."""
    if array.kind != "array" or array.element is None:
        raise ValueError(f"{array.sql} is no array")
    return array.element


def _quantified(call: Call, compile_: Compile) -> Function:
    """``x <operator> ANY (array)``, ALL alike; the function's name is the quantifier and the operator."""
    quantifier, operator = call.function.split(" ")
    compare = OPERATORS[operator]
    subject, array = call.arguments
    left_form, right_form = comparison_forms(operator, subject.type, element_type(array.type))
    left, right = compile_.scalar(subject), compile_.scalar(array)
    as_left, as_right = left_form or _same, right_form or _same
    decisive, otherwise = ("t", "f") if quantifier == "any" else ("f", "t")

    def outcomes(value: Value, elements: list[Value]) -> Iterator[Value]:
        form = None if value is None else as_left(value)
        for element in elements:
            if form is None or element is None:
                yield None
            else:
                yield "t" if compare(form, as_right(element)) else "f"

    def function(row: Row) -> Value:
        value, text = left(row), right(row)
        if text is None:
            return None
        result: Value = otherwise
        for outcome in outcomes(value, arrays.flat(text)):
            if outcome == decisive:
                return decisive
            if outcome is None:
                result = None
        return result

    return function


# --- GREATEST and LEAST ---------------------------------------------------------------------------------------------


def _extreme(call: Call, compile_: Compile) -> Function:
    """The first of the values that none exceeds; NULLs do not count."""
    better = OPERATORS[">" if call.function == "greatest" else "<"]
    form = comparison_forms("<", call.type, call.type)[0] or _same
    parts = [compile_.scalar(a) for a in call.arguments]

    def function(row: Row) -> Value:
        best: Value = None
        best_form: Any = None
        for part in parts:
            value = part(row)
            if value is not None and (best is None or better(form(value), best_form)):
                best, best_form = value, form(value)
        return best

    return function


def _strict_extreme(call: Call, compile_: Compile) -> Function:
    """GREATEST and LEAST of MariaDB and MySQL: NULL if a value is."""
    parts = [compile_.scalar(a) for a in call.arguments]
    better = OPERATORS[">" if call.function == "GREATEST" else "<"]
    form = comparison_forms("<", call.type, call.type)[0] or _same

    def function(row: Row) -> Value:
        values = [part(row) for part in parts]
        best = values[0]
        for value in values:
            if value is None or best is None:
                return None
            if better(form(value), form(best)):
                best = value
        return best

    return function


COMPILERS: dict[str, Compiler] = {
    **dict.fromkeys(("GREATEST", "LEAST"), _strict_extreme),
    **dict.fromkeys(OPERATORS, _comparison),
    "in": _in,
    **dict.fromkeys((f"{q} {o}" for q in ("any", "all") for o in OPERATORS), _quantified),
    "greatest": _extreme,
    "least": _extreme,
}
PREDICATES: dict[str, PredicateCompiler] = {
    **dict.fromkeys(OPERATORS, comparison_holds),
    "is distinct from": _distinct_holds,
    "is not distinct from": _not_distinct_holds,
}
#: Of the predicates, those that are NULL of a NULL.
THREE_VALUED = frozenset(OPERATORS)
