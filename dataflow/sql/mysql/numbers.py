"""Functions of integers and DECIMALs in MariaDB and MySQL that round, and casts to numbers.

A quotient or average is rounded with all the digits that it has, also those that it does not print.

Not here: operators (`arithmetic`); what the functions compute (`dataflow.functions.mysql_numbers`).
"""

from collections.abc import Sequence

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import INT8
from dataflow.scalar import Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.mysql import arithmetic, values
from dataflow.sql.mysql.texts import Compute, called
from dataflow.sql.mysql.values import MAX_PRECISION, decimal, digits

#: Digits before the point that are an integer in any case.
_MAX_WHOLE = 15


def _exact(name: str, part: Scalar) -> Scalar:
    """An integer or DECIMAL with all its digits."""
    part = values.unprinted(arithmetic.operand(part, name))
    if part.type.is_float:
        raise UnsupportedQuery(f"{name} of {part.type.sql} is not on the list of exact functions.")
    return part


def _fitting(name: str, part: Scalar) -> Scalar:
    """One whose value is an integer of 64 bits once it is rounded."""
    exact = _exact(name, part)
    precision, scale = digits(values.number(part).type if exact.type.is_decimal else exact.type)
    if exact.type.name == "uint8" or (exact.type.is_decimal and precision - scale > _MAX_WHOLE):
        raise UnsupportedQuery(f"{name} of numbers of so many digits is not on the list of exact functions.")
    return exact


def _whole(name: str) -> Compute:
    """FLOOR and the like: an integer."""

    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        part = _fitting(name, parts[0])
        if part.type.is_whole and name != "SIGN":
            return part
        return called(name, (part if part.type.is_decimal else values.as_type(part, INT8),), INT8)

    return compute


def _cut(name: str) -> Compute:
    """ROUND and TRUNCATE: to so many decimals."""

    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        scale = parts[1] if len(parts) > 1 else Literal("0", INT8)
        if not isinstance(scale, Literal) or not scale.type.is_whole or scale.value is None or scale.value[0] == "-":
            raise UnsupportedQuery(f"{name} to anything but a constant is not on the list of exact functions.")
        part = _exact(name, parts[0])
        if part.type.is_whole:
            return part
        precision, before = digits(values.number(parts[0]).type)
        target = decimal(min(max(precision - before, 0) + 1 + int(scale.value), MAX_PRECISION), int(scale.value))
        return called(name, (part, values.as_type(scale, INT8)), target)

    return compute


def as_signed(part: Scalar) -> Scalar:
    """``CAST(number AS SIGNED)``."""
    return _whole("SIGNED")([part], part.type)


def as_decimal(part: Scalar, precision: int, scale: int) -> Scalar:
    """``CAST(number AS DECIMAL(precision, scale))``, where no value is too long."""
    before, after = digits(arithmetic.operand(part, "CAST").type)
    part = _exact("CAST", part)
    target = decimal(precision, scale)
    if before - after + (after > scale) > precision - scale:
        raise UnsupportedQuery(f"A cast of {part.type.sql} to {target.sql} may cut and is not on the list.")
    if part.type.is_whole:
        return values.as_type(part, target)
    return called("ROUND", (part, Literal(str(scale), INT8)), target)


def _extreme(name: str) -> Compute:
    """GREATEST and LEAST: NULL if an argument is."""

    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        for part in parts:
            values.refuse_printed(part, name)
        arguments = values.same_type(name, parts)
        result = arguments[0].type
        known = result.is_text or result.is_whole or result.is_decimal or result.name.startswith("mysql_")
        if not known or not result.orderable or all(isinstance(part, Literal) for part in parts):
            raise UnsupportedQuery(f"{name} of {result.sql} is not on the list of exact functions.")
        return called(name, arguments, result)

    return compute


#: Least and most arguments, and the meaning.
NUMBERS: dict[str, tuple[int, int, Compute]] = {
    "round": (1, 2, _cut("ROUND")),
    "truncate": (2, 2, _cut("TRUNCATE")),
    "floor": (1, 1, _whole("FLOOR")),
    **dict.fromkeys(("ceil", "ceiling"), (1, 1, _whole("CEIL"))),
    "sign": (1, 1, _whole("SIGN")),
    "greatest": (2, 100, _extreme("GREATEST")),
    "least": (2, 100, _extreme("LEAST")),
}

__all__ = ["NUMBERS", "as_decimal", "as_signed"]
