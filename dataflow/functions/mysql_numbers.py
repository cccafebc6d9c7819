"""Numbers as MariaDB and MySQL compute them: quotients of DECIMALs, and what of a number is printed.

*Theory* (``strings/decimal.c: do_div_mod``): digits are stored in groups of nine. A quotient has as many groups behind
the point as both operands have together, or one more if the wanted increment of digits is not among them; what is
beyond is cut. Printing rounds half away from zero.
"""

import re
from collections.abc import Callable
from decimal import Decimal

from dataflow import arithmetic, numeric
from dataflow.errors import EvaluationError
from dataflow.functions.compiler import Compile, Compiler, Function
from dataflow.functions.signature import Table, signature
from dataflow.scalar import Call
from dataflow.schema import SqlType
from dataflow.types import Row, Value

_GROUP = 9
#: Of a DECIMAL. The servers cut one of more where they store it.
_MAX_DIGITS = 65
_SCALE = re.compile(r"\(\d+,(\d+)\)")


def quotient_scale(scale: int, divisor_scale: int, increment: int) -> int:
    """The digits behind the point to which a quotient is computed."""
    groups, divisor_groups = -(-scale // _GROUP), -(-divisor_scale // _GROUP)
    spare = groups * _GROUP - scale + divisor_groups * _GROUP - divisor_scale
    return _GROUP * (groups + divisor_groups + -(-max(increment - spare, 0) // _GROUP))


def scale_of(sql_type: SqlType) -> int:
    """The digits behind the point of a DECIMAL type; 0 of an integer's."""
    found = _SCALE.search(sql_type.sql)
    return int(found[1]) if found else 0


def divided(value: Decimal, divisor: Decimal, scale: int) -> str:
    """A quotient, cut behind `scale` digits."""
    cut = numeric.EXACT.divide_int(numeric.EXACT.scaleb(value, scale), divisor)
    return numeric.render(numeric.EXACT.scaleb(cut, -scale))


def average(sql_type: SqlType) -> Callable[[str, int], str] | None:
    """Makes AVG of that type from a sum and a count; None if the type has no scale, as PostgreSQL's has none."""
    scale = scale_of(sql_type)
    return (lambda total, count: divided(numeric.parse(total), Decimal(count), scale)) if scale else None


def rounded(text: str, scale: int) -> str:
    """A number with `scale` decimals, rounded half away from zero."""
    return numeric.render(numeric.round_to(numeric.parse(text), scale))


def _divide(call: Call, compile_: Compile) -> Function:
    """``a / b``; NULL of 0."""
    left, right = (compile_.scalar(a) for a in call.arguments)
    scale = scale_of(call.type)

    def function(row: Row) -> Value:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        divisor = numeric.parse(b)
        if not divisor:
            return None
        quotient = divided(numeric.parse(a), divisor, scale)
        if len(quotient) > _MAX_DIGITS:
            raise EvaluationError("not computed: a quotient of so many digits")
        return quotient

    return function


def _printed(call: Call, compile_: Compile) -> Function:
    part = compile_.scalar(call.arguments[0])
    scale = scale_of(call.type)

    def function(row: Row) -> Value:
        value = part(row)
        return None if value is None else rounded(value, scale)

    return function


def _truncated(text: str, scale: str) -> str:
    return numeric.render(numeric.truncate_to(numeric.parse(text), int(scale)))


MYSQL_NUMBERS: Table = {
    "ROUND": (signature("numeric int8", "numeric", lambda a, scale: rounded(a, int(scale))),),
    "TRUNCATE": (signature("numeric int8", "numeric", _truncated),),
    "FLOOR": (signature("numeric", "int8", arithmetic.floor),),
    "CEIL": (signature("numeric", "int8", arithmetic.ceiling),),
    "SIGNED": (signature("numeric", "int8", lambda a: rounded(a, 0)),),
    "SIGN": (
        signature("numeric", "int8", arithmetic.sign),
        signature("int8", "int8", arithmetic.sign),
    ),
}
COMPILERS: dict[str, Compiler] = {"divide": _divide, "printed": _printed}

__all__: list[str] = ["COMPILERS", "MYSQL_NUMBERS", "average", "divided", "quotient_scale", "rounded", "scale_of"]
