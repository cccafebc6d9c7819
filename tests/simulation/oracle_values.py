"""Values of the oracle: equality and order of texts, numeric arithmetic, scalar expressions.

It shares no code with `dataflow.types` and `dataflow.evaluate`; only types and functions that it does not know itself
are asked of them.
"""

from collections.abc import Callable, Iterable
from decimal import Decimal
from functools import lru_cache

from dataflow.plan.nodes import Relation, column_types
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types import Row, Value

Evaluator = Callable[[Row], Value]
Normal = Callable[[Value], Value]

INTEGERS = frozenset({"int2", "int4", "int8"})
FLOATS = frozenset({"float4", "float8"})
TEXTS = frozenset({"text", "varchar", "bool", "uuid", "date", "timestamp", "timestamptz", "oid"})
#: Stands for a value that the upstream could not compute: a statement that would bring it fails.
ERROR = "#error"
RANGES = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
SPECIAL = frozenset({"NaN", "Infinity", "-Infinity"})

# --- values ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=100_000)
def normal_numeric(text: str) -> str:
    """1.0 and 1.00 are one value: its shortest text."""
    if text in SPECIAL:
        return text
    value = Decimal(text)
    if value == 0:
        return "0"
    digits = format(value, "f")
    return digits.rstrip("0").rstrip(".") if "." in digits else digits


def normal_float(text: str) -> str:
    """-0 and 0 are one value."""
    return "0" if text == "-0" else text


def normal_of(sql_type: SqlType) -> Normal:
    """Return a value that two texts of the type share exactly if they are equal; NULL stays NULL."""
    if sql_type.name == "numeric":
        return lambda v: None if v is None else normal_numeric(v)
    if sql_type.name in FLOATS:
        return lambda v: None if v is None else normal_float(v)
    if sql_type.name in INTEGERS or (sql_type.name in TEXTS and sql_type.collation != "nondeterministic"):
        return identity
    form = sql_type.normal_form
    return identity if form is None else lambda v: None if v is None else form(v)


def identity(value: Value) -> Value:
    """A type whose text is its normal form."""
    return value


def normals_of(relation: Relation, columns: Iterable[int]) -> tuple[Normal, ...]:
    """The normal forms of some columns of a relation."""
    types = column_types(relation)
    return tuple(normal_of(types[c]) for c in columns)


def order_of(sql_type: SqlType) -> Callable[[str], object]:
    """A sort key for non-NULL texts of the type, for MIN and MAX."""
    if sql_type.name in INTEGERS:
        return int
    if sql_type.name == "numeric" or sql_type.name in FLOATS:
        return number_order
    if sql_type.kind == "enum":
        return sql_type.labels.index
    if sql_type.collation == "bytes":
        return lambda v: v.encode()
    return sql_type.order_form


def number_order(text: str) -> tuple[int, Decimal]:
    """NaN is greater than everything, infinity included."""
    if text in SPECIAL:
        return {"NaN": (3, Decimal(0)), "Infinity": (2, Decimal(0)), "-Infinity": (0, Decimal(0))}[text]
    return (1, Decimal(text))


# --- exact numeric ---------------------------------------------------------------------------------------------------


def parse_numeric(text: str) -> tuple[int, int]:
    """A finite numeric as (n, scale): n / 10**scale."""
    whole, _, fraction = text.partition(".")
    return int(whole + fraction), len(fraction)


def print_numeric(n: int, scale: int) -> str:
    """n / 10**scale with all `scale` digits."""
    sign, digits = ("-" if n < 0 else ""), str(abs(n)).rjust(scale + 1, "0")
    return sign + (f"{digits[:-scale]}.{digits[-scale:]}" if scale else digits)


def sum_numeric(weighted: list[tuple[str, int]]) -> str:
    """numeric.c: the scale is the largest of the inputs; a NaN, or both infinities, make NaN."""
    special = {text for text, _ in weighted if text in SPECIAL}
    if special:
        return special.pop() if len(special) == 1 else "NaN"
    parsed = [(*parse_numeric(text), weight) for text, weight in weighted]
    scale = max(s for _, s, _ in parsed)
    return print_numeric(sum(n * 10 ** (scale - s) * weight for n, s, weight in parsed), scale)


def base_10000(n: int, scale: int) -> tuple[int, int]:
    """Weight and first digit of a numeric as numeric.c stores it, in base 10000 around the point."""
    groups = -(-scale // 4)
    n = abs(n) * 10 ** (groups * 4 - scale)
    if n == 0:
        return 0, 0
    weight = -groups
    while n >= 10000:
        n, weight = n // 10000, weight + 1
    return weight, n


def divide_numeric(dividend: str, divisor: int) -> str:
    """numeric.c: numeric_div() by an integer, to the scale that select_div_scale() takes."""
    if dividend in SPECIAL:
        return dividend
    n, scale = parse_numeric(dividend)
    weight1, first1 = base_10000(n, scale)
    weight2, first2 = base_10000(divisor, 0)
    quotient_weight = weight1 - weight2 - (1 if first1 <= first2 else 0)
    result_scale = min(max(16 - quotient_weight * 4, scale, 0), 1000)
    scaled = abs(n) * 10 ** (result_scale + 1) // (divisor * 10**scale)
    rounded = (scaled + 5) // 10
    return print_numeric(-rounded if n < 0 else rounded, result_scale)


# --- scalar expressions ----------------------------------------------------------------------------------------------


def compile_scalar(expression: Scalar) -> Evaluator:
    """The expression as a function of a row."""
    if isinstance(expression, ColumnRef):
        index = expression.index
        return lambda row: row[index]
    if isinstance(expression, Literal):
        value = expression.value
        return lambda _: value
    arguments = [compile_scalar(a) for a in expression.arguments]
    if expression.function in COMPARISONS:
        return comparison(expression, *arguments)
    if expression.function in CALLS:
        call = CALLS[expression.function]
        if expression.type.kind == "base" and expression.type.name in RANGES:
            return in_range(RANGES[expression.type.name], lambda row: call(*[a(row) for a in arguments]))
        return lambda row: call(*[a(row) for a in arguments])
    return other_call(expression)


def in_range(limit: int, evaluator: Evaluator) -> Evaluator:
    """An integer expression, which may overflow."""

    def evaluate(row: Row) -> Value:
        value = evaluator(row)
        return value if value is None or -limit <= int(value) < limit else ERROR

    return evaluate


def other_call(expression: Call) -> Evaluator:
    """A function that the oracle leaves to the engine's own evaluation."""
    from dataflow import evaluate

    return evaluate.compile_scalar(expression)


COMPARISONS: dict[str, Callable[[int], bool]] = {
    "=": lambda c: c == 0,
    "<>": lambda c: c != 0,
    "<": lambda c: c < 0,
    "<=": lambda c: c <= 0,
    ">": lambda c: c > 0,
    ">=": lambda c: c >= 0,
}


def comparison(expression: Call, left: Evaluator, right: Evaluator) -> Evaluator:
    """A comparison by the type's order; NULL if either side is."""
    holds = COMPARISONS[expression.function]
    left_type, right_type = (a.type for a in expression.arguments)
    numbers = {left_type.name, right_type.name} & (INTEGERS | FLOATS | {"numeric"})
    order: Callable[[str], object] = number_order if numbers else order_of(left_type)

    def compare(row: Row) -> Value:
        a, b = left(row), right(row)
        if a is None or b is None:
            return None
        if ERROR in (a, b):
            return ERROR
        x, y = order(a), order(b)
        return boolean(holds((x > y) - (x < y)))  # type: ignore[operator]

    return compare


def boolean(value: bool) -> str:
    """PostgreSQL's text of a boolean."""
    return "t" if value else "f"


def logical_and(*values: Value) -> Value:
    """Three-valued AND."""
    return "f" if "f" in values else None if None in values else "t"


def logical_or(*values: Value) -> Value:
    """Three-valued OR."""
    return "t" if "t" in values else None if None in values else "f"


def arithmetic(operation: Callable[[int, int], int]) -> Callable[[Value, Value], Value]:
    """Exact arithmetic on texts of integers and finite numerics (the scales of + - and *)."""

    def apply(a: Value, b: Value) -> Value:
        if a is None or b is None:
            return None
        (x, s), (y, t) = parse_numeric(a), parse_numeric(b)
        if operation is multiply:
            return print_numeric(x * y, s + t)
        scale = max(s, t)
        return print_numeric(operation(x * 10 ** (scale - s), y * 10 ** (scale - t)), scale)

    return apply


def multiply(a: int, b: int) -> int:
    """Product."""
    return a * b


CALLS: dict[str, Callable[..., Value]] = {
    "and": logical_and,
    "or": logical_or,
    "not": lambda v: None if v is None else boolean(v == "f"),
    "is null": lambda v: boolean(v is None),
    "is not null": lambda v: boolean(v is not None),
    "coalesce": lambda *values: next((v for v in values if v is not None), None),
    "+": arithmetic(lambda a, b: a + b),
    "-": arithmetic(lambda a, b: a - b),
    "*": arithmetic(multiply),
    "||": lambda a, b: None if a is None or b is None else a + b,
}
