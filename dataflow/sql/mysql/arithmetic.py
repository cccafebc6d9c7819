"""Operators of numbers, by the types of MariaDB and MySQL: integers are computed as BIGINT, DECIMALs exactly.

*Theory*: a quotient of DECIMALs has four decimals more than its dividend, but is computed to whole groups of nine
digits (``strings/decimal.c: do_div_mod``), which count when it is computed with further.
"""

from dataflow.errors import UnsupportedQuery
from dataflow.functions.mysql_numbers import quotient_scale
from dataflow.plan.expressions import INT8
from dataflow.scalar import Call, Literal, Scalar
from dataflow.sql.expressions.cast_types import FLOAT8, UNKNOWN
from dataflow.sql.expressions.coercion import folded
from dataflow.sql.mysql.values import (
    MAX_PRECISION,
    MAX_SCALE,
    as_type,
    decimal,
    digits,
    is_unsigned,
    number,
    printed,
    unprinted,
)

#: ``div_precision_increment``, of which the servers' default is assumed.
INCREMENT = 4


def operand(expression: Scalar, operator: str) -> Scalar:
    """A number to compute with."""
    expression = number(expression)
    if isinstance(expression, Literal) and expression.type == UNKNOWN and expression.value is None:
        return Literal(None, INT8)
    if not expression.type.is_number or expression.type.sql.startswith(("year", "bit")):
        raise UnsupportedQuery(f"{operator} of {expression.type.sql} is not on the list of exact functions.")
    return expression


def binary(operator: str, left: Scalar, right: Scalar) -> Scalar:
    """``+ - *`` and ``%``."""
    left, right = operand(left, operator), operand(right, operator)
    if left.type.is_float or right.type.is_float:
        if operator == "%":
            raise UnsupportedQuery("% of anything but integers is not on the list of exact functions.")
        return folded(Call(operator, (as_type(unprinted(left), FLOAT8), as_type(unprinted(right), FLOAT8)), FLOAT8))
    if left.type.is_whole and right.type.is_whole:
        return _integers(operator, left, right)
    return _decimals(operator, left, right)


def _integers(operator: str, left: Scalar, right: Scalar) -> Scalar:
    signs = [is_unsigned(e.type) and not isinstance(e, Literal) for e in (left, right)]
    if any(signs) or "uint8" in (left.type.name, right.type.name):
        raise UnsupportedQuery(f"{operator} of unsigned integers is not on the list of exact functions.")
    left, right = as_type(left, INT8), as_type(right, INT8)
    if operator == "%":
        right = folded(Call("nullif", (right, Literal("0", INT8)), INT8))
    return folded(Call(operator, (left, right), INT8))


def _decimals(operator: str, left: Scalar, right: Scalar) -> Scalar:
    if operator == "%":
        # -4.0 % 2 is -0.0, which no other DECIMAL is.
        raise UnsupportedQuery("% of anything but integers is not on the list of exact functions.")
    (p1, s1), (p2, s2) = digits(left.type), digits(right.type)
    if operator == "*":
        precision, scale = p1 + p2, s1 + s2
    else:
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + scale + 1
    shown = decimal(min(precision, MAX_PRECISION), min(scale, MAX_SCALE)) if precision <= MAX_PRECISION else None
    if shown is None or scale > MAX_SCALE:
        raise UnsupportedQuery(f"{operator} of numbers of so many digits is not on the list of exact functions.")
    left, right = unprinted(left), unprinted(right)
    i1, i2 = digits(left.type)[1], digits(right.type)[1]
    inner = i1 + i2 if operator == "*" else max(i1, i2)
    if inner > MAX_SCALE:
        raise UnsupportedQuery(f"{operator} of a quotient or average is not on the list of exact functions.")
    left, right = (e if e.type.is_decimal else as_type(e, decimal(digits(e.type)[0], 0)) for e in (left, right))
    result = folded(Call(operator, (left, right), decimal(MAX_PRECISION if inner > scale else precision, inner)))
    return printed(result, precision, scale)


def quotient(left: Scalar, right: Scalar) -> Scalar:
    """``/``: NULL if the divisor is 0."""
    left, right = operand(left, "/"), operand(right, "/")
    if left.type.is_float or right.type.is_float:
        divisor = as_type(unprinted(right), FLOAT8)
        divisor = folded(Call("nullif", (divisor, Literal("0", FLOAT8)), FLOAT8))
        return folded(Call("/", (as_type(unprinted(left), FLOAT8), divisor), FLOAT8))
    p1, s1 = digits(left.type)
    s2 = digits(right.type)[1]
    precision, scale = p1 - s1 + s2 + s1 + INCREMENT, s1 + INCREMENT
    left, right = unprinted(left), unprinted(right)
    inner = quotient_scale(digits(left.type)[1], digits(right.type)[1], INCREMENT)
    if scale > MAX_SCALE or inner > MAX_SCALE:
        raise UnsupportedQuery("/ of numbers of so many digits is not on the list of exact functions.")
    return printed(folded(Call("divide", (left, right), decimal(MAX_PRECISION, inner))), precision, scale)


def whole_quotient(left: Scalar, right: Scalar) -> Scalar:
    """DIV of integers."""
    left, right = operand(left, "DIV"), operand(right, "DIV")
    if not (left.type.is_whole and right.type.is_whole):
        raise UnsupportedQuery("DIV of anything but integers is not on the list of exact functions.")
    if is_unsigned(left.type) or is_unsigned(right.type):
        raise UnsupportedQuery("DIV of unsigned integers is not on the list of exact functions.")
    divisor = folded(Call("nullif", (as_type(right, INT8), Literal("0", INT8)), INT8))
    return folded(Call("/", (as_type(left, INT8), divisor), INT8))


def negation(expression: Scalar) -> Scalar:
    """``-x``."""
    if isinstance(expression, Literal) and expression.value is not None and expression.type.is_number:
        return _negative(expression)
    expression = operand(expression, "-")
    inner = unprinted(expression)
    if inner.type.is_whole:
        if is_unsigned(inner.type):
            raise UnsupportedQuery("- of unsigned integers is not on the list of exact functions.")
        inner = as_type(inner, INT8)
    elif inner.type.is_float:
        inner = as_type(inner, FLOAT8)
    negated = folded(Call("neg", (inner,), inner.type))
    return printed(negated, *digits(expression.type)) if inner is not expression and inner.type.is_decimal else negated


def _negative(constant: Literal) -> Scalar:
    assert constant.value is not None
    text = constant.value
    if not text.strip("0."):
        return constant
    negated = text[1:] if text[0] == "-" else f"-{text}"
    if constant.type.is_whole and not -(2**63) <= int(negated) < 2**63:
        return Literal(negated, decimal(len(text), 0))
    if constant.type.is_whole:
        return Literal(negated, INT8)
    return Literal(negated, constant.type)


__all__ = ["binary", "negation", "quotient", "whole_quotient"]
