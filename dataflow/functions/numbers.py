"""Arithmetic: operators and functions of integers, ``numeric`` and floats.

Not here: power, exponentials and logarithms of floats (the last digit is the C library's) and of numerics.
"""

from collections.abc import Callable, Iterator
from math import gcd

from dataflow import arithmetic
from dataflow.errors import EvaluationError
from dataflow.functions import floats
from dataflow.functions.signature import Signature, Table, refused, signature

_INTEGERS = ("int2", "int4", "int8")
#: Radians.
_DEGREE = "0.017453292519943295"
_BITS = {"int2": 16, "int4": 32, "int8": 64}
_NUMERIC: dict[str, Callable[[str, str], str]] = {
    "+": arithmetic.add,
    "-": arithmetic.subtract,
    "*": arithmetic.multiply,
    "/": arithmetic.divide,
    "%": arithmetic.modulo,
}


def _binary(operator: str) -> Iterator[Signature]:
    """+, -, *, / of all numbers."""
    for i, left in enumerate(_INTEGERS):
        for j, right in enumerate(_INTEGERS):
            result = _INTEGERS[max(i, j)]
            yield Signature((left, right), result, arithmetic.integer_operation(operator, result))
    yield signature("numeric numeric", "numeric", _NUMERIC[operator])
    for left in ("float4", "float8"):
        for right in ("float4", "float8"):
            result = "float4" if left == right == "float4" else "float8"
            yield Signature((left, right), result, floats.operation(operator, left, right))


def _remainder() -> tuple[Signature, ...]:
    return (
        *(Signature((name, name), name, arithmetic.integer_operation("%", name)) for name in _INTEGERS),
        signature("numeric numeric", "numeric", arithmetic.modulo),
    )


def _negations() -> Iterator[Signature]:
    for name in _INTEGERS:
        yield Signature((name,), name, _integer(name, lambda a: -a))
    yield signature("numeric", "numeric", arithmetic.negate)
    for name in ("float4", "float8"):
        yield Signature((name,), name, floats.negate)


def _absolutes() -> Iterator[Signature]:
    for name in _INTEGERS:
        yield Signature((name,), name, _integer(name, abs))
    yield signature("numeric", "numeric", arithmetic.absolute)
    for name in ("float4", "float8"):
        yield Signature((name,), name, floats.absolute)


def _integer(name: str, function: Callable[[int], int]) -> Callable[[str], str]:
    return lambda a: str(arithmetic.check_range(function(int(a)), name))


def _bitwise(function: Callable[[int, int], int]) -> tuple[Signature, ...]:
    def compute(a: str, b: str) -> str:
        return str(function(int(a), int(b)))

    return tuple(Signature((name, name), name, compute) for name in _INTEGERS)


def _shifts(function: Callable[[int, int], int]) -> Iterator[Signature]:
    """The machine's shifts: the count is taken modulo the register's width (int2 is computed in 32 bits)."""
    for name in _INTEGERS:
        register = max(_BITS[name], 32)

        def compute(a: str, b: str, register: int = register, bits: int = _BITS[name]) -> str:
            return str(_wrapped(function(int(a), int(b) % register), bits))

        yield Signature((name, "int4"), name, compute)


def _wrapped(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _hexadecimal(bits: int) -> Callable[[str], str]:
    return lambda a: f"{int(a) & ((1 << bits) - 1):x}"


def _common_divisor(name: str) -> Callable[[str, str], str]:
    return lambda a, b: str(arithmetic.check_range(gcd(int(a), int(b)), name))


def _common_multiple(name: str) -> Callable[[str, str], str]:
    def compute(a: str, b: str) -> str:
        x, y = int(a), int(b)
        return str(arithmetic.check_range(abs(x // gcd(x, y) * y) if x and y else 0, name))

    return compute


def _factorial(a: str) -> str:
    n = int(a)
    if n < 0:
        raise EvaluationError("factorial of a negative number is undefined")
    if n > 1000:
        raise EvaluationError("a factorial of too many digits")
    product = 1
    for i in range(2, n + 1):
        product *= i
    return str(product)


def _scale(a: str) -> str | None:
    return None if a[-1].isalpha() else str(len(a.partition(".")[2]))


def _min_scale(a: str) -> str | None:
    return None if a[-1].isalpha() else str(len(a.partition(".")[2].rstrip("0")))


def _trim_scale(a: str) -> str:
    return a.rstrip("0").rstrip(".") if "." in a else a


def _rounding(
    numeric: Callable[[str], str], double: Callable[[str], str], digits: Callable[[str, int], str] | None = None
) -> tuple[Signature, ...]:
    found = (signature("numeric", "numeric", numeric), signature("float8", "float8", double))
    if digits is None:
        return found
    return (*found, signature("numeric int4", "numeric", lambda a, n: digits(a, int(n))))


NUMBERS: Table = {
    "+": tuple(_binary("+")),
    "-": tuple(_binary("-")),
    "*": tuple(_binary("*")),
    "/": tuple(_binary("/")),
    "%": _remainder(),
    "mod": _remainder(),
    "div": (signature("numeric numeric", "numeric", arithmetic.whole_quotient),),
    "neg": tuple(_negations()),
    "abs": tuple(_absolutes()),
    "sign": _rounding(arithmetic.sign, floats.sign),
    "ceil": _rounding(arithmetic.ceiling, floats.ceiling),
    "ceiling": _rounding(arithmetic.ceiling, floats.ceiling),
    "floor": _rounding(arithmetic.floor, floats.floored),
    "round": _rounding(lambda a: arithmetic.round_to(a, 0), floats.round_half_even, arithmetic.round_to),
    "trunc": _rounding(lambda a: arithmetic.truncate_to(a, 0), floats.truncated, arithmetic.truncate_to),
    "sqrt": _rounding(arithmetic.square_root, floats.square_root),
    "&": _bitwise(lambda a, b: a & b),
    "|": _bitwise(lambda a, b: a | b),
    "#": _bitwise(lambda a, b: a ^ b),
    "~": tuple(Signature((name,), name, lambda a: str(~int(a))) for name in _INTEGERS),
    "<<": tuple(_shifts(lambda a, n: a << n)),
    ">>": tuple(_shifts(lambda a, n: a >> n)),
    "to_hex": (signature("int4", "text", _hexadecimal(32)), signature("int8", "text", _hexadecimal(64))),
    "gcd": (
        signature("int4 int4", "int4", _common_divisor("int4")),
        signature("int8 int8", "int8", _common_divisor("int8")),
        *refused("numeric numeric -> numeric"),
    ),
    "lcm": (
        signature("int4 int4", "int4", _common_multiple("int4")),
        signature("int8 int8", "int8", _common_multiple("int8")),
        *refused("numeric numeric -> numeric"),
    ),
    "pi": (signature("", "float8", lambda: "3.141592653589793"),),
    "degrees": (signature("float8", "float8", lambda a: floats.operation("/", "float8", "float8")(a, _DEGREE)),),
    "radians": (signature("float8", "float8", lambda a: floats.operation("*", "float8", "float8")(a, _DEGREE)),),
    "factorial": (signature("int8", "numeric", _factorial),),
    "scale": (signature("numeric", "int4", _scale),),
    "min_scale": (signature("numeric", "int4", _min_scale),),
    "trim_scale": (signature("numeric", "numeric", _trim_scale),),
    "^": refused("float8 float8 -> float8", "numeric numeric -> numeric"),
    "power": refused("float8 float8 -> float8", "numeric numeric -> numeric"),
}
