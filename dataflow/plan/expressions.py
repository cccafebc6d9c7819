"""Analysis of scalar expressions for plan rules: columns, conjuncts, effects of NULL, canonical form.

*Invariants*: functions here never change what an expression evaluates to, errors aside.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping

from dataflow.evaluate import STRICT_FUNCTIONS
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType

BOOL = SqlType("bool", "bool")
INT4 = SqlType("int4", "int4")
INT8 = SqlType("int8", "int8")
NUMERIC = SqlType("numeric", "numeric")
TRUE = Literal("t", BOOL)
FALSE = Literal("f", BOOL)

_COMMUTATIVE = frozenset({"=", "<>", "is distinct from", "is not distinct from", "+", "*"})
_NEGATED = {"is null": "is not null", "is not null": "is null"}
_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
#: What reads its arguments by their value alone, however they are written.
_BY_VALUE = frozenset(
    {
        "=",
        "<>",
        "<",
        "<=",
        ">",
        ">=",
        "is distinct from",
        "is not distinct from",
        "in",
        "is null",
        "is not null",
    }
)
#: Functions that have a value, or NULL, for all arguments.
_NEVER_FAIL = _BY_VALUE | {"and", "or", "not", "is true", "is not true", "is false", "is not false"}


def column_refs(expression: Scalar | None) -> Iterator[ColumnRef]:
    """All references to columns in an expression."""
    if isinstance(expression, ColumnRef):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from column_refs(argument)


def used_columns(*expressions: Scalar | None) -> set[int]:
    """The columns that expressions read."""
    return {ref.index for expression in expressions for ref in column_refs(expression)}


def substitute(expression: Scalar, replacement: Callable[[ColumnRef], Scalar]) -> Scalar:
    """The expression with every column replaced."""
    if isinstance(expression, ColumnRef):
        return replacement(expression)
    if isinstance(expression, Literal):
        return expression
    arguments = tuple(substitute(a, replacement) for a in expression.arguments)
    return Call(expression.function, arguments, expression.type)


def renumber(expression: Scalar, columns: Mapping[int, int]) -> Scalar:
    """The expression over a row whose columns moved: old index -> new index."""
    return substitute(expression, lambda ref: ColumnRef(columns[ref.index], ref.type))


def shift(expression: Scalar, offset: int) -> Scalar:
    """The expression over a row that has `offset` more columns in front."""
    return substitute(expression, lambda ref: ColumnRef(ref.index + offset, ref.type))


def inline(expression: Scalar, columns: tuple[Scalar, ...]) -> Scalar:
    """The expression over a projection's input instead of its output."""
    return substitute(expression, lambda ref: columns[ref.index])


def conjuncts(predicate: Scalar | None) -> list[Scalar]:
    """Returns the conjuncts, all of which must be TRUE for `predicate` to be."""
    if predicate is None or predicate == TRUE:
        return []
    if isinstance(predicate, Call) and predicate.function == "and":
        return [part for argument in predicate.arguments for part in conjuncts(argument)]
    return [predicate]


def conjunction(parts: Iterable[Scalar]) -> Scalar | None:
    """The predicate that is TRUE exactly if all parts are: sorted, none twice; None if there are none."""
    unique = {canonical(part): None for part in parts if part != TRUE}
    ordered = sorted(unique, key=sort_key)
    if len(ordered) < 2:
        return ordered[0] if ordered else None
    return Call("and", tuple(ordered), BOOL)


def canonical(expression: Scalar) -> Scalar:
    """One spelling of expressions that differ in the order of operands only."""
    if not isinstance(expression, Call):
        return expression
    arguments = tuple(canonical(a) for a in expression.arguments)
    function = expression.function
    if function in ("and", "or"):
        arguments = tuple(sorted(_flat(function, arguments), key=sort_key))
    elif function in _COMMUTATIVE or function in _MIRRORED:
        swapped = _comes_before(arguments[1], arguments[0])
        arguments = arguments[::-1] if swapped else arguments
        function = _MIRRORED.get(function, function) if swapped else function
    elif function == "not" and isinstance(arguments[0], Call) and arguments[0].function in _NEGATED:
        return Call(_NEGATED[arguments[0].function], arguments[0].arguments, expression.type)
    elif function == "in":
        arguments = (arguments[0], *sorted(dict.fromkeys(arguments[1:]), key=sort_key))
    return Call(function, arguments, expression.type)


def _flat(function: str, arguments: Iterable[Scalar]) -> Iterator[Scalar]:
    for argument in dict.fromkeys(arguments):
        if isinstance(argument, Call) and argument.function == function:
            yield from argument.arguments
        else:
            yield argument


def sort_key(expression: Scalar) -> tuple[int, int, str]:
    """An arbitrary but fixed order: columns by index, then calls, then constants."""
    if isinstance(expression, ColumnRef):
        return 0, expression.index, ""
    return _rank(expression), 0, repr(expression)


def _rank(expression: Scalar) -> int:
    return 0 if isinstance(expression, ColumnRef) else 1 if isinstance(expression, Call) else 2


def _comes_before(one: Scalar, other: Scalar) -> bool:
    """By `sort_key`, whose text is long for what is nested and mostly does not matter."""
    ranks = _rank(one), _rank(other)
    return ranks[0] < ranks[1] if ranks[0] != ranks[1] else sort_key(one) < sort_key(other)


def column_equality(expression: Scalar) -> tuple[ColumnRef, ColumnRef] | None:
    """The two columns of ``a = b``; None if the expression is something else."""
    if isinstance(expression, Call) and expression.function == "=":
        left, right = expression.arguments
        if isinstance(left, ColumnRef) and isinstance(right, ColumnRef):
            return left, right
    return None


def never_fails(expression: Scalar) -> bool:
    """Return whether the expression has a value for every row, so that asking for it early makes no error."""
    if isinstance(expression, Call):
        # An enum may have got a label of which it is not known yet where it stands among the others.
        ordered_enum = expression.function in _MIRRORED and expression.arguments[0].type.kind == "enum"
        return expression.function in _NEVER_FAIL and not ordered_enum and all(map(never_fails, expression.arguments))
    return True


def tells_texts(expression: Scalar) -> bool:
    """Return whether the expression may tell two equal values apart (1.0 and 1.00): it reads them, and not to compare
    them."""
    if isinstance(expression, ColumnRef):
        return expression.type.normal_form is not None
    if isinstance(expression, Literal):
        return False
    compares = expression.function in _BY_VALUE
    return any(tells_texts(a) for a in expression.arguments if not (compares and isinstance(a, ColumnRef)))


def equality(left: Scalar, right: Scalar) -> Call:
    return Call("=", (left, right), BOOL)


# --- NULLs ----------------------------------------------------------------------------------------------------------


def rejects_nulls(predicate: Scalar, columns: set[int]) -> bool:
    """Return whether `predicate` cannot be TRUE when all of `columns` are NULL."""
    if isinstance(predicate, Literal):
        return predicate.value != "t"
    if null_of_nulls(predicate, columns):
        return True
    if not isinstance(predicate, Call):
        return False
    arguments = predicate.arguments
    match predicate.function:
        case "and":
            return any(rejects_nulls(a, columns) for a in arguments)
        case "or":
            return all(rejects_nulls(a, columns) for a in arguments)
        case "is not null" | "is false":
            return null_of_nulls(arguments[0], columns)
        case "is true":
            return rejects_nulls(arguments[0], columns)
        case "not":
            inner = arguments[0]
            return (
                isinstance(inner, Call) and inner.function == "is null" and null_of_nulls(inner.arguments[0], columns)
            )
        case _:
            return False


def null_of_nulls(expression: Scalar, columns: set[int]) -> bool:
    """Return whether `expression` is NULL when all of `columns` are."""
    if isinstance(expression, ColumnRef):
        return expression.index in columns
    if isinstance(expression, Literal):
        return expression.value is None
    nulls = [null_of_nulls(a, columns) for a in expression.arguments]
    if expression.function in STRICT_FUNCTIONS:
        return any(nulls)
    if expression.function in ("in", "nullif"):
        return nulls[0]
    if expression.function == "case":
        branches = zip(expression.arguments[:-1:2], nulls[1:-1:2], strict=True)
        return nulls[-1] and all(null or rejects_nulls(condition, columns) for condition, null in branches)
    return expression.function == "coalesce" and all(nulls)
