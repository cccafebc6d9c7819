"""Functions of MariaDB and MySQL that are computed here, by name; all others are refused."""

from collections.abc import Callable, Sequence
from typing import Any

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import INT4, INT8, TRUE
from dataflow.scalar import Call, Literal, Scalar
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import FLOAT8, UNKNOWN
from dataflow.sql.expressions.coercion import folded
from dataflow.sql.mysql import arithmetic, documents, moments, numbers, texts, values
from dataflow.types.documents import MARIADB_JSON

_TIME = frozenset(
    {
        "now",
        "curdate",
        "curtime",
        "current_date",
        "current_time",
        "current_timestamp",
        "sysdate",
        "unix_timestamp",
        "utc_date",
        "utc_time",
        "utc_timestamp",
        "localtime",
        "localtimestamp",
    }
)
#: Types whose values NULLIF may compare or show as those of another.
_UNLIKE = ("float4", "mysql_enum", MARIADB_JSON)
_RANDOM = frozenset({"rand", "uuid", "uuid_short", "random_bytes"})


def call(binder: Binder, node: Any) -> Scalar:
    """A function by its name."""
    name = str(node.this).lower()
    if name in documents.DOCUMENTS:
        documents.check_server(name.upper(), binder)
    function = _FUNCTIONS.get(name)
    if function is not None:
        least, most, compute = function
        if not least <= len(node.expressions) <= most:
            raise UnsupportedQuery(f"{name.upper()} of {len(node.expressions)} arguments is not known.")
        return compute(binder.all(node.expressions), binder.text)
    if name in moments.WRITTEN:
        return moments.WRITTEN[name](binder, node)
    if name in _TIME and not (name == "unix_timestamp" and node.expressions):
        raise UnsupportedQuery("The current time is not a function of the database's contents.")
    if name in _RANDOM:
        raise UnsupportedQuery("A random number is not a function of the database's contents.")
    raise UnsupportedQuery(f"{name.upper()} is not on the list of exact functions.")


# --- choices --------------------------------------------------------------------------------------------------------


def case(branches: Sequence[tuple[Scalar, Scalar]], otherwise: Scalar) -> Scalar:
    """CASE WHEN … THEN … ELSE … END, IF."""
    results = _together("CASE", [*(result for _, result in branches), otherwise])
    arguments: list[Scalar] = []
    for (when, _), result in zip(branches, results, strict=False):
        arguments += [when, result]
    return _chosen("case", (*arguments, results[-1]), [*(result for _, result in branches), otherwise])


def coalesce(parts: Sequence[Scalar]) -> Scalar:
    """COALESCE, IFNULL."""
    arguments = _together("COALESCE", parts)
    return arguments[0] if len(arguments) == 1 else _chosen("coalesce", tuple(arguments), parts)


def _together(what: str, parts: Sequence[Scalar]) -> list[Scalar]:
    return values.same_type(what, [values.unprinted(p) for p in parts])


def _chosen(function: str, arguments: tuple[Scalar, ...], parts: Sequence[Scalar]) -> Scalar:
    """The choice; it prints as many decimals as the parts do."""
    result: Scalar = Call(function, arguments, arguments[-1].type)
    if not result.type.is_decimal:
        return result
    known = [values.digits(t) for p in parts if (t := values.number(p).type) != UNKNOWN]
    return values.printed(result, values.MAX_PRECISION, max(scale for _, scale in known))


def _nullif(parts: Sequence[Scalar]) -> Scalar:
    left, right = values.sides(*parts)
    compared = functions.comparison("=", left, right)
    assert isinstance(compared, Call)
    first = compared.arguments[0]
    if isinstance(left, Literal) or first.type != left.type or left.type.name in _UNLIKE:
        raise UnsupportedQuery("NULLIF of these arguments is not on the list of exact functions.")
    values.refuse_printed(parts[0], "NULLIF")
    return Call("nullif", compared.arguments, first.type)


def _field(parts: Sequence[Scalar]) -> Scalar:
    """FIELD: the place of the first value among the others, 0 if it is none of them."""
    subject, *others = parts
    if subject.type.is_integer:
        subject = arithmetic.operand(subject, "FIELD")
    whole = subject.type.is_integer and all(isinstance(p, Literal) and p.type.is_integer for p in others)
    texts_only = subject.type.is_string and all(isinstance(p, Literal) and p.type == UNKNOWN for p in others)
    if isinstance(subject, Literal) or not (whole or texts_only):
        raise UnsupportedQuery("FIELD of anything but a column and constants is not on the list of exact functions.")
    places = [
        (values.comparison("=", subject, other), Literal(str(place), INT4)) for place, other in enumerate(others, 1)
    ]
    return functions.case(places, Literal("0", INT4))


def _is_null(parts: Sequence[Scalar]) -> Scalar:
    return Call("is null", (values.null_tested(parts[0]),), TRUE.type)


# --- numbers --------------------------------------------------------------------------------------------------------


def _abs(parts: Sequence[Scalar]) -> Scalar:
    part = arithmetic.operand(values.refuse_printed(parts[0], "ABS"), "ABS")
    if values.is_unsigned(part.type):
        return part
    if part.type.is_whole:
        part = values.as_type(part, INT8)
    elif part.type.name == "float4":
        part = values.as_type(part, FLOAT8)
    return folded(Call("abs", (part,), part.type))


def _of(least: int, most: int, compute: Callable[[Sequence[Scalar]], Scalar]) -> tuple[int, int, texts.Compute]:
    return least, most, lambda parts, _: compute(parts)


#: Least and most arguments, and what it means.
_FUNCTIONS: dict[str, tuple[int, int, texts.Compute]] = {
    "coalesce": _of(1, 100, coalesce),
    "ifnull": _of(2, 2, coalesce),
    "nvl": _of(2, 2, coalesce),
    "nullif": _of(2, 2, _nullif),
    "field": _of(2, 100, _field),
    "isnull": _of(1, 1, _is_null),
    "abs": _of(1, 1, _abs),
    "mod": _of(2, 2, lambda parts: arithmetic.binary("%", *parts)),
    **texts.TEXTS,
    **moments.MOMENTS,
    **numbers.NUMBERS,
    **documents.DOCUMENTS,
}
