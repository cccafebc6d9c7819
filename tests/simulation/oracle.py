"""What a relation contains, computed from nothing but whole tables: the judge of every test of the engine.

Every node is recomputed from scratch by the definition of its operator, with PostgreSQL's rules for NULL, padding,
``numeric`` scales, NaN and infinities. It deliberately shares no code with `dataflow.ops`, `dataflow.values` or
`dataflow.evaluate`; only types that it does not know itself are asked of the latter two.

Where SQL leaves the answer open (which of 1.0 and 1.00 stands for the group of both, which of the two is the MIN),
the oracle gives one of the legal answers, and `loose_columns` says where to compare by equality instead of by text.

Not here: which rows a lookup sees (`world`), which keys are compared (`simulation`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from math import fsum

from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Block,
    BlockInput,
    Chain,
    Relation,
    TopK,
    Union,
    Window,
    column_types,
)
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.types import Columns, Key, Row, Value

Tables = Mapping[str, Sequence[Row]]
Evaluator = Callable[[Row], Value]
Normal = Callable[[Value], Value]

INTEGERS = frozenset({"int2", "int4", "int8"})
FLOATS = frozenset({"float4", "float8"})
TEXTS = frozenset({"text", "varchar", "bool", "uuid", "date", "timestamp", "timestamptz", "oid"})
#: Stands for a value that the upstream could not compute: a statement that would bring it fails.
ERROR = "#error"
RANGES = {"int2": 2**15, "int4": 2**31, "int8": 2**63}
SPECIAL = frozenset({"NaN", "Infinity", "-Infinity"})


def evaluate_relation(relation: Relation, tables: Tables, catalog: Catalog | None = None) -> list[Row]:  # noqa: ARG001
    """All rows of `relation` over `tables`, as a bag. A scalar aggregate has no row for groups without input rows
    (see `rows_of_key`), except the one group of all rows."""
    return compiled(relation).evaluate(lambda table: tables[table])


def rows_of_key(relation: Relation, columns: Columns, key: Key, tables: Tables) -> list[Row]:
    """The rows of `relation` whose `columns` equal `key`, with the one row that a scalar aggregate always has."""
    normals = normals_of(relation, columns)
    wanted = tuple(n(v) for n, v in zip(normals, key, strict=True))
    rows = evaluate_relation(relation, tables)
    found = [row for row in rows if tuple(n(row[c]) for n, c in zip(normals, columns, strict=True)) == wanted]
    if not found and (row := default_row(relation, columns, key)) is not None:
        return [row]
    return found


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
    """What two texts of the type have in common exactly if they are equal; NULL stays NULL."""
    if sql_type.name == "numeric":
        return lambda v: None if v is None else normal_numeric(v)
    if sql_type.name in FLOATS:
        return lambda v: None if v is None else normal_float(v)
    if sql_type.name in INTEGERS or (sql_type.name in TEXTS and sql_type.collation != "nondeterministic"):
        return identity
    from dataflow.values import normal_form

    form = normal_form(sql_type)
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
    if sql_type.collation == "bytes":
        return lambda v: v.encode()
    from dataflow.values import order_form

    return order_form(sql_type)


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
        if expression.type.name in RANGES:
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
    "=": lambda c: c == 0, "<>": lambda c: c != 0, "<": lambda c: c < 0,
    "<=": lambda c: c <= 0, ">": lambda c: c > 0, ">=": lambda c: c >= 0,
}  # fmt: skip


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


# --- relations -------------------------------------------------------------------------------------------------------


class CompiledRelation:
    """A relation with its expressions compiled. `evaluate` takes the rows of a base table by name."""

    tables: frozenset[str]

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        """All rows, as a bag."""
        raise NotImplementedError


class CompiledChain(CompiledRelation):
    """Filter and projection."""

    def __init__(self, chain: Chain) -> None:
        self.table = chain.table
        self.tables = frozenset((chain.table,))
        self.keep = None if chain.predicate is None else compile_scalar(chain.predicate)
        self.columns = [compile_scalar(c) for c in chain.columns]

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        rows = rows_of(self.table)
        return [tuple([c(row) for c in self.columns]) for row in rows if self.keep is None or self.keep(row) == "t"]


class CompiledInput:
    """One input of a block: its rows, and where its join columns are in both rows."""

    def __init__(self, block_input: BlockInput, offsets: Sequence[int]) -> None:
        self.relation = compiled(block_input.relation)
        self.width = len(column_types(block_input.relation))
        self.left = block_input.left
        self.on = None if block_input.on is None else compile_scalar(block_input.on)
        own = [c.own for c in block_input.conditions]
        self.own = list(zip(own, normals_of(block_input.relation, own), strict=True))
        types = column_types(block_input.relation)
        self.other = [
            # Columns that can be equal are of one family of types, so one normal form serves both.
            (offsets[c.input] + c.column, normal_of(types[c.own]))
            for c in block_input.conditions
        ]

    def join(self, combinations: list[Row], rows: list[Row]) -> list[Row]:
        """Each combination with its matches, or with NULLs if this input is a left one without any."""
        by_key: dict[Key, list[Row]] = {}
        for row in rows:
            by_key.setdefault(tuple([n(row[c]) for c, n in self.own]), []).append(row)
        joined: list[Row] = []
        padding = ((None,) * self.width,) if self.left else ()
        for combination in combinations:
            key = tuple([n(combination[c]) for c, n in self.other])
            matches = [] if None in key else [combination + row for row in by_key.get(key, ())]
            if self.on is not None:
                matches = [row for row in matches if self.on(row) == "t"]
            joined.extend(matches or [combination + pad for pad in padding])
        return joined


class CompiledBlock(CompiledRelation):
    """An n-way join, filter and projection."""

    def __init__(self, block: Block) -> None:
        offsets: list[int] = []
        self.inputs: list[CompiledInput] = []
        width = 0
        for block_input in block.inputs:
            offsets.append(width)
            self.inputs.append(CompiledInput(block_input, offsets))
            width += self.inputs[-1].width
        self.tables = frozenset().union(*(i.relation.tables for i in self.inputs))
        self.keep = None if block.predicate is None else compile_scalar(block.predicate)
        self.columns = [compile_scalar(c) for c in block.columns]

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        combinations = self.inputs[0].relation.evaluate(rows_of)
        for block_input in self.inputs[1:]:
            combinations = block_input.join(combinations, block_input.relation.evaluate(rows_of))
        return self.project(combinations)

    def project(self, combinations: Iterable[Row]) -> list[Row]:
        """Filter and projection of joined rows."""
        return [tuple([c(r) for c in self.columns]) for r in combinations if self.keep is None or self.keep(r) == "t"]


class CompiledUnion(CompiledRelation):
    """UNION ALL."""

    def __init__(self, union: Union) -> None:
        self.inputs = [compiled(item) for item in union.inputs]
        self.tables = frozenset().union(*(item.tables for item in self.inputs))

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        return [row for item in self.inputs for row in item.evaluate(rows_of)]


class CompiledAggregate(CompiledRelation):
    """GROUP BY, every group computed anew from all its rows."""

    def __init__(self, aggregate: Aggregate) -> None:
        self.input = compiled(aggregate.input)
        self.tables = self.input.tables
        self.group = aggregate.group
        self.normals = normals_of(aggregate.input, aggregate.group)
        self.calls = [CompiledCall(call) for call in aggregate.calls]
        self.single = aggregate.scalar and not aggregate.group

    def evaluate(self, rows_of: Callable[[str], Sequence[Row]]) -> list[Row]:
        groups: dict[Key, list[Row]] = {(): []} if self.single else {}
        for row in self.input.evaluate(rows_of):
            key = tuple([n(row[c]) for c, n in zip(self.group, self.normals, strict=True)])
            groups.setdefault(key, []).append(row)
        return [
            tuple([rows[0][c] for c in self.group]) + tuple([call.evaluate(rows) for call in self.calls])
            for rows in groups.values()
        ]


class CompiledCall:
    """One aggregate function over the rows of a group."""

    def __init__(self, call: AggregateCall) -> None:
        self.function = call.function
        self.argument = None if call.argument is None else compile_scalar(call.argument)
        self.argument_type = None if call.argument is None else call.argument.type
        self.weight = None if call.weight is None else compile_scalar(call.weight)
        self.count = None if call.count is None else compile_scalar(call.count)

    def evaluate(self, rows: list[Row]) -> Value:
        """The function's result; `rows` may be empty only without GROUP BY."""
        weights = [1 if self.weight is None else int(self.weight(row) or 0) for row in rows]
        if self.function is AggregateFunction.COUNT_ROWS:
            return str(sum(weights))
        assert self.argument is not None
        values = [
            (value, weight, 1 if self.count is None else int(self.count(row) or 0))
            for row, weight in zip(rows, weights, strict=True)
            if weight and (value := self.argument(row)) is not None
        ]
        return self.of_values(values)

    def of_values(self, values: list[tuple[str, int, int]]) -> Value:
        """The function of the group's non-NULL (value, weight, count of values summed up in it)."""
        if self.function is AggregateFunction.COUNT:
            return str(sum(weight * count for _, weight, count in values))
        if not values:
            return None
        if any(value == ERROR for value, _, _ in values):
            return ERROR
        if self.function is AggregateFunction.SUM:
            return self.sum([(value, weight) for value, weight, _ in values])
        if self.function is AggregateFunction.AVG:
            return self.average(values)
        assert self.argument_type is not None
        order = order_of(self.argument_type)
        pick = min if self.function is AggregateFunction.MIN else max
        return pick((v for v, _, _ in values), key=order)  # type: ignore[arg-type, type-var]

    def sum(self, weighted: list[tuple[str, int]]) -> str:
        """SUM of at least one value."""
        if self.argument_type is not None and self.argument_type.name in FLOATS:
            return repr(fsum(float(value) for value, weight in weighted for _ in range(weight)))
        return sum_numeric(weighted)

    def average(self, values: list[tuple[str, int, int]]) -> str:
        """AVG of at least one value."""
        total = self.sum([(value, weight) for value, weight, _ in values])
        number = sum(weight * count for _, weight, count in values)
        if self.argument_type is not None and self.argument_type.name in FLOATS:
            return repr(float(total) / number)
        return divide_numeric(total, number)


@lru_cache(maxsize=10_000)
def compiled(relation: Relation) -> CompiledRelation:
    """The relation, ready to be evaluated."""
    if isinstance(relation, Chain):
        return CompiledChain(relation)
    if isinstance(relation, Aggregate):
        return CompiledAggregate(relation)
    if isinstance(relation, Union):
        return CompiledUnion(relation)
    return CompiledBlock(relation)


# --- what a key has beyond its rows ----------------------------------------------------------------------------------


def default_row(relation: Relation, columns: Columns, key: Key) -> Row | None:
    """The row of an empty group of SQL without GROUP BY, seen through the block above it; None if there is none."""
    if isinstance(relation, Aggregate):
        return default_aggregate_row(relation, columns, key)
    if not isinstance(relation, Block):
        return None
    if len(relation.inputs) != 1:
        return None
    own: dict[int, Value] = {}
    for column, value in zip(columns, key, strict=True):
        scalar = relation.columns[column]
        if not isinstance(scalar, ColumnRef) or own.setdefault(scalar.index, value) != value:
            return None
    below = default_row(relation.inputs[0].relation, tuple(own), tuple(own.values()))
    block = compiled(relation)
    assert isinstance(block, CompiledBlock)
    rows = [] if below is None else block.project([below])
    return rows[0] if rows else None


def default_aggregate_row(aggregate: Aggregate, columns: Columns, key: Key) -> Row | None:
    """The group columns as asked for, and each function of no rows."""
    positions = dict(zip(columns, key, strict=True))
    if not aggregate.scalar or not aggregate.group or set(positions) != set(range(len(aggregate.group))):
        return None
    if None in key:
        return None
    group = tuple(positions[i] for i in range(len(aggregate.group)))
    return group + tuple(CompiledCall(call).evaluate([]) for call in aggregate.calls)


def loose_columns(relation: Relation) -> frozenset[int]:
    """Columns whose text is the upstream's free choice among equal ones (of a group's, or as MIN and MAX)."""
    if isinstance(relation, Chain):
        return frozenset()
    if isinstance(relation, Union):
        return frozenset().union(*(loose_columns(item) for item in relation.inputs))
    if isinstance(relation, Window | TopK):
        return loose_columns(relation.input)
    if isinstance(relation, Aggregate):
        types = column_types(relation)
        size = len(relation.group)
        extremes = (AggregateFunction.MIN, AggregateFunction.MAX)
        free = set(range(size)) | {size + i for i, c in enumerate(relation.calls) if c.function in extremes}
        return frozenset(c for c in free if normal_of(types[c]) is not identity)
    below: set[int] = set()
    offset = 0
    for block_input in relation.inputs:
        below |= {offset + c for c in loose_columns(block_input.relation)}
        offset += len(column_types(block_input.relation))
    return frozenset(i for i, c in enumerate(relation.columns) if isinstance(c, ColumnRef) and c.index in below)
