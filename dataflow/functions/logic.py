"""Three-valued logic, and choices: COALESCE, NULLIF, CASE."""

from collections.abc import Callable

from dataflow.bounds import joined
from dataflow.functions.comparison import comparison_holds
from dataflow.functions.compiler import Compile, Compiler, Function, Predicate, PredicateCompiler
from dataflow.scalar import Call
from dataflow.types import Row, Value


def _connective(decisive: Value, otherwise: Value) -> Compiler:
    """AND or OR: `decisive` if any part is, else NULL if any part is, else `otherwise`."""

    def compiler(call: Call, compile_: Compile) -> Function:
        parts = [compile_.scalar(a) for a in call.arguments]

        def function(row: Row) -> Value:
            result = otherwise
            for part in parts:
                value = part(row)
                if value == decisive:
                    return decisive
                if value is None:
                    result = None
            return result

        return function

    return compiler


def _and_holds(call: Call, compile_: Compile) -> Predicate:
    parts = [compile_.predicate(a) for a in call.arguments]
    if len(parts) == 2:
        first, second = parts
        return lambda row: first(row) and second(row)
    return lambda row: all(part(row) for part in parts)


def _or_holds(call: Call, compile_: Compile) -> Predicate:
    parts = [compile_.predicate(a) for a in call.arguments]
    return lambda row: any(part(row) for part in parts)


def _not(call: Call, compile_: Compile) -> Function:
    part = compile_.scalar(call.arguments[0])

    def function(row: Row) -> Value:
        value = part(row)
        return None if value is None else "f" if value == "t" else "t"

    return function


def _is_null(call: Call, compile_: Compile) -> Predicate:
    part = compile_.scalar(call.arguments[0])
    return lambda row: part(row) is None


def _is_not_null(call: Call, compile_: Compile) -> Predicate:
    part = compile_.scalar(call.arguments[0])
    return lambda row: part(row) is not None


def _is(value: str, wanted: bool) -> Callable[[Call, Compile], Predicate]:
    def compiler(call: Call, compile_: Compile) -> Predicate:
        part = compile_.scalar(call.arguments[0])
        return lambda row: (part(row) == value) is wanted

    return compiler


# --- choices --------------------------------------------------------------------------------------------------------


def _coalesce(call: Call, compile_: Compile) -> Function:
    parts = [compile_.scalar(a) for a in call.arguments]
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


def _nullif(call: Call, compile_: Compile) -> Function:
    left = compile_.scalar(call.arguments[0])
    equal = comparison_holds(Call("=", call.arguments, call.type), compile_)
    return lambda row: None if equal(row) else left(row)


def _case(call: Call, compile_: Compile) -> Function:
    """Conditions and values in turn, then the value of ELSE."""
    pairs = call.arguments[:-1]
    branches = [
        (compile_.predicate(condition), compile_.scalar(value))
        for condition, value in zip(pairs[::2], pairs[1::2], strict=True)
    ]
    otherwise = compile_.scalar(call.arguments[-1])

    def function(row: Row) -> Value:
        for holds, value in branches:
            if holds(row):
                return value(row)
        return otherwise(row)

    return function


def _concat(call: Call, compile_: Compile) -> Function:
    """CONCAT: the texts of all that is not NULL."""
    parts = [compile_.scalar(a) for a in call.arguments]
    return lambda row: joined("", [value for part in parts if (value := part(row)) is not None])


def _concat_ws(call: Call, compile_: Compile) -> Function:
    """CONCAT_WS: the same, with a separator; NULL if that is."""
    separator, *parts = (compile_.scalar(a) for a in call.arguments)

    def function(row: Row) -> Value:
        between = separator(row)
        if between is None:
            return None
        return joined(between, [value for part in parts if (value := part(row)) is not None])

    return function


def _count_nulls(nulls: bool) -> Callable[[Call, Compile], Function]:
    def compiler(call: Call, compile_: Compile) -> Function:
        parts = [compile_.scalar(a) for a in call.arguments]
        return lambda row: str(sum((part(row) is None) is nulls for part in parts))

    return compiler


COMPILERS: dict[str, Compiler] = {
    "and": _connective("f", "t"),
    "or": _connective("t", "f"),
    "not": _not,
    "coalesce": _coalesce,
    "nullif": _nullif,
    "case": _case,
    "concat": _concat,
    "concat_ws": _concat_ws,
    "num_nulls": _count_nulls(True),
    "num_nonnulls": _count_nulls(False),
}
PREDICATES: dict[str, PredicateCompiler] = {
    "and": _and_holds,
    "or": _or_holds,
    "is null": _is_null,
    "is not null": _is_not_null,
    "is true": _is("t", True),
    "is not true": _is("t", False),
    "is false": _is("f", True),
    "is not false": _is("f", False),
}
THREE_VALUED = frozenset({"and", "or"})
