"""Scalar expressions, compiled to closures over a row. The functions of `dataflow.functions` are all that plans may
use, and exactly the upstream's: three-valued logic, equality and order of each type, errors where the upstream has
errors.

A `Call` is by canonical name; its arguments are of the types that the upstream would compute with, so casts are calls
of their own. Constants are prepared once, not per row.

*Invariants*: booleans are ``t``, ``f`` or NULL. Nothing here depends on anything but the row.

Not here: which SQL may use which function on which types (`sql.expressions`), SQL of an expression (`plan.render`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

from dataflow import arithmetic
from dataflow.errors import EvaluationError
from dataflow.functions import (
    array_operations,
    arrays,
    comparison,
    json_constructors,
    logic,
    mysql_json,
    mysql_numbers,
    series,
)
from dataflow.functions.casts import cast_function
from dataflow.functions.compiler import Compile, Compiler, Function, Predicate, PredicateCompiler
from dataflow.functions.dates import DATES
from dataflow.functions.json import JSON
from dataflow.functions.like import collated_matcher, like_matcher
from dataflow.functions.mysql_moments import MYSQL_MOMENTS
from dataflow.functions.mysql_texts import MYSQL_TEXTS
from dataflow.functions.numbers import NUMBERS
from dataflow.functions.patterns import PATTERNS
from dataflow.functions.signature import Signature
from dataflow.functions.texts import TEXTS
from dataflow.memo import remembered
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types import Row, Value
from dataflow.types.documents import MARIADB_JSON

_TABLES = (NUMBERS, TEXTS, PATTERNS, DATES, JSON)
#: Every plain function of PostgreSQL: all its overloads upstream, on types that we know.
SIGNATURES: dict[str, tuple[Signature, ...]] = {
    name: tuple(s for table in _TABLES for s in table.get(name, ())) for name in {n for t in _TABLES for n in t}
}
#: Those of MariaDB and MySQL, by their names in capitals.
MYSQL_SIGNATURES: dict[str, tuple[Signature, ...]] = {
    **MYSQL_TEXTS,
    **MYSQL_MOMENTS,
    **mysql_numbers.MYSQL_NUMBERS,
    **mysql_json.MYSQL_JSON,
}


def compile_scalar(expression: Scalar) -> Function:
    """A function from a row to the expression's value; it raises EvaluationError where the upstream has an error."""
    if isinstance(expression, ColumnRef):
        return itemgetter(expression.index)
    if isinstance(expression, Literal):
        value = expression.value
        return lambda _row: value
    name = expression.function
    if name in _COMPILERS:
        return _COMPILERS[name](expression, _COMPILE)
    if name in _PREDICATES:
        holds = _PREDICATES[name](expression, _COMPILE)
        return lambda row: "t" if holds(row) else "f"
    return _strict(_plain_function(expression), [compile_scalar(a) for a in expression.arguments])


def compile_predicate(expression: Scalar) -> Predicate:
    """A function that says whether the expression is TRUE (not FALSE, not NULL) for a row."""
    if isinstance(expression, Call) and expression.function in _PREDICATES:
        return _PREDICATES[expression.function](expression, _COMPILE)
    function = compile_scalar(expression)
    return lambda row: function(row) == "t"


_COMPILE = Compile(compile_scalar, compile_predicate)


# --- plain functions ------------------------------------------------------------------------------------------------


def type_key(sql_type: SqlType) -> str:
    """The type as signatures name it."""
    return sql_type.name if sql_type.kind == "base" else sql_type.sql


def _plain_function(call: Call) -> Callable[..., Value]:
    wanted = tuple(type_key(a.type) for a in call.arguments)
    for found in SIGNATURES.get(call.function) or MYSQL_SIGNATURES.get(call.function, ()):
        if found.function is not None and tuple(map(_as_text, wanted)) == tuple(map(_as_text, found.arguments)):
            if not found.folding:
                return found.function
            folding = call.arguments[0].type.folding
            if not folding:
                raise ValueError(f"upper and lower case are not known for {call.function}")
            return partial(found.function, folding)
    raise ValueError(f"no function {call.function!r} of {', '.join(wanted)}")


def _as_text(name: str) -> str:
    """``varchar``, ``name`` and ``json`` of MariaDB are what ``text`` is, to a function."""
    return "text" if name in ("varchar", "name", MARIADB_JSON) else name


def _strict(function: Callable[..., Value], parts: Sequence[Function]) -> Function:
    """`function` of the arguments' values; NULL if one is NULL."""
    match len(parts):
        case 1:
            return _of_one(function, parts[0])
        case 2:
            return _of_two(function, parts[0], parts[1])
        case _:
            pass

    def compute(row: Row) -> Value:
        values = [part(row) for part in parts]
        if None in values:
            return None
        return _guarded(function, *values)

    return compute


def _of_one(function: Callable[..., Value], part: Function) -> Function:
    def compute(row: Row) -> Value:
        a = part(row)
        try:
            return None if a is None else function(a)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise _failure(error) from error

    return compute


def _of_two(function: Callable[..., Value], first: Function, second: Function) -> Function:
    def compute(row: Row) -> Value:
        a, b = first(row), second(row)
        try:
            return None if a is None or b is None else function(a, b)
        except (ValueError, ArithmeticError, RecursionError) as error:
            raise _failure(error) from error

    return compute


def _guarded(function: Callable[..., Value], *values: Any) -> Value:
    try:
        return function(*values)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise _failure(error) from error


def _failure(error: Exception) -> EvaluationError:
    """Python's limits (digits of an integer, depth of a document) are errors of the row, as the upstream's are."""
    return EvaluationError(f"not computed: {error}")


def _like(call: Call, compile_: Compile) -> Function:
    """LIKE; a constant pattern is prepared."""
    pattern, weights = call.arguments[1], call.arguments[0].type.weights
    matcher = like_matcher
    if weights is not None:
        matcher = remembered(entries=500)(partial(collated_matcher, characters=weights.characters))
    if not isinstance(pattern, Literal) or pattern.value is None:
        parts = [compile_.scalar(a) for a in call.arguments]
        return _strict(lambda text, pattern: "t" if matcher(pattern)(text) else "f", parts)
    subject, matches = compile_.scalar(call.arguments[0]), matcher(pattern.value)

    def function(row: Row) -> Value:
        value = subject(row)
        return None if value is None else "t" if matches(value) else "f"

    return function


def _cast(call: Call, compile_: Compile) -> Function:
    part = compile_.scalar(call.arguments[0])
    function = cast_function(call.arguments[0].type, call.type)
    return part if function is None else _strict(function, [part])


def _collate(call: Call, compile_: Compile) -> Function:
    """A collation changes how values compare, not the values."""
    return compile_.scalar(call.arguments[0])


def _average(call: Call, compile_: Compile) -> Function:
    """SUM and count of the values to their AVG; NULL if there are none."""
    total, count = (compile_.scalar(a) for a in call.arguments)
    average = mysql_numbers.average(call.type) or arithmetic.average

    def function(row: Row) -> Value:
        a, b = total(row), count(row)
        return None if a is None or b is None or b == "0" else average(a, int(b))

    return function


def _array(call: Call, compile_: Compile) -> Function:
    parts = [compile_.scalar(a) for a in call.arguments]
    return lambda row: arrays.render([part(row) for part in parts])


def _array_function(function: Callable[..., Value]) -> Compiler:
    return lambda call, compile_: _strict(function, [compile_.scalar(a) for a in call.arguments])


def _array_to_string(call: Call, compile_: Compile) -> Function:
    """NULL if the array or the delimiter is; without a text for them, NULLs among the elements are left out."""
    array, delimiter, *null = (compile_.scalar(a) for a in call.arguments)

    def function(row: Row) -> Value:
        a, b = array(row), delimiter(row)
        return None if a is None or b is None else _guarded(arrays.joined, a, b, null[0](row) if null else None)

    return function


# --- the list -------------------------------------------------------------------------------------------------------

_COMPILERS: dict[str, Compiler] = {
    **comparison.COMPILERS,
    **logic.COMPILERS,
    **json_constructors.COMPILERS,
    **array_operations.COMPILERS,
    **mysql_numbers.COMPILERS,
    **mysql_json.COMPILERS,
    **series.COMPILERS,
    "like": _like,
    "cast": _cast,
    "collate": _collate,
    "average": _average,
    "array": _array,
    "subscript": _array_function(arrays.subscript),
    "array_length": _array_function(arrays.length),
    "cardinality": _array_function(arrays.cardinality),
    "array_to_string": _array_to_string,
    "array_upper": _array_function(arrays.upper),
    "array_lower": _array_function(arrays.lower),
}

#: Direct tests for TRUE. Those that have no other compiler are never NULL.
_PREDICATES: dict[str, PredicateCompiler] = {**comparison.PREDICATES, **logic.PREDICATES}

#: Every function that plans may use.
FUNCTIONS = frozenset(_COMPILERS) | frozenset(_PREDICATES) | frozenset(SIGNATURES) | frozenset(MYSQL_SIGNATURES)
#: Functions that are NULL if one argument is.
STRICT_FUNCTIONS = (
    frozenset(SIGNATURES)
    | frozenset(MYSQL_SIGNATURES)
    | frozenset(comparison.OPERATORS)
    | {
        "not",
        "cast",
        "collate",
        "average",
        *series.COMPILERS,
        "divide",
        "printed",
        "GREATEST",
        "LEAST",
        "subscript",
        "array_length",
        "cardinality",
        "array_upper",
        "array_lower",
        "array @>",
        "array <@",
        "array &&",
    }
)


def evaluate(expression: Scalar, row: Sequence[Value] = ()) -> Value:
    """The value of an expression for one row."""
    return compile_scalar(expression)(tuple(row))
