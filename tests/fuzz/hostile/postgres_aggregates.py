"""Aggregates, keys of groups and orders, and sums of windows, as subjects: each over a few values of one type."""

from collections.abc import Callable, Iterator

from dataflow.ops.aggregate_call import CompiledCall
from dataflow.plan.nodes import AggregateCall, AggregateFunction, CallOrder, OrderTerm
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.state.index import key_function
from dataflow.state.ordering import Ordering
from dataflow.types import Row, Value
from tests.fuzz.hostile.postgres_subjects import SCALARS
from tests.fuzz.hostile.subject import Subject

TypeOf = Callable[[str], SqlType]
_VALUES = 3
_SUMS = {"int2": "int8", "int4": "int8", "int8": "numeric", "numeric": "numeric", "interval": "interval"}
#: An average of floats rounds once here; the server's depends on its order.
_FLOATS = ("float4", "float8")
_COLUMNS = ", ".join(f"({i}, c{i})" for i in range(_VALUES))
_SOURCE = f"(VALUES {_COLUMNS}) AS v(n, x)"


def aggregates(type_of: TypeOf) -> Iterator[Subject]:
    """Every aggregate of every type that it takes."""
    for name in SCALARS:
        yield from _sums(name, type_of)
        yield from _lists(name, type_of)
        yield from _keys(name, type_of(name))


def _subject(title: str, name: str, sql: str, compute: Callable[[Row], Value]) -> Subject:
    return Subject(
        f"{title}({name})", (name,) * _VALUES, f"(SELECT {sql}{'' if ' FROM ' in sql else f' FROM {_SOURCE}'})", compute
    )


def _aggregated(call: AggregateCall) -> Callable[[Row], Value]:
    """The call over a row's values as rows: with another that is taken away again."""
    compiled = CompiledCall(call)

    def compute(row: Row) -> Value:
        accumulator = compiled.make()
        for value in (*row, row[0]):
            compiled.add(accumulator, (value,), 1)
        compiled.add(accumulator, (row[0],), -1)
        return accumulator.result()

    return compute


def _sums(name: str, type_of: TypeOf) -> Iterator[Subject]:
    argument = ColumnRef(0, type_of(name))
    for function in ("sum", "avg"):
        if name in _SUMS:
            result = "numeric" if function == "avg" and name != "interval" else _SUMS[name]
            call = AggregateCall(AggregateFunction(function), argument, type_of(result))
            yield _subject(function, name, f"{function}(x)", _aggregated(call))
            if function == "sum" and name != "interval":
                yield _subject("sum over", name, _running("sum"), _windowed(call))
    if name in ("int2", "int4", "int8", "numeric"):
        for function in ("stddev_samp", "stddev_pop", "var_samp", "var_pop"):
            call = AggregateCall(AggregateFunction(function), argument, type_of("numeric"))
            yield _subject(function, name, f"{function}(x)", _aggregated(call))
    if name in _FLOATS:
        call = AggregateCall(AggregateFunction.SUM, argument, type_of(name))
        compute = _aggregated(call)
        yield Subject(f"sum({name})", (name,), "(SELECT sum(x) FROM (VALUES (c0)) v(x))", compute)
    if type_of(name).orderable and name not in ("bool", "uuid", "bytea"):
        for function in ("min", "max"):
            call = AggregateCall(AggregateFunction(function), argument, type_of(name))
            if type_of(name).one_text:
                yield _subject(function, name, f"{function}(x)", _aggregated(call))
    if name == "bool":
        for function in ("bool_and", "bool_or"):
            call = AggregateCall(AggregateFunction(function), argument, type_of(name))
            yield _subject(function, name, f"{function}(x)", _aggregated(call))


def _running(function: str) -> str:
    inner = f"SELECT n, {function}(x) OVER (ORDER BY n) AS s FROM {_SOURCE}"
    return f"string_agg(coalesce(s::text, '-'), ';' ORDER BY n) FROM ({inner}) w"


def _windowed(call: AggregateCall) -> Callable[[Row], Value]:
    compiled = CompiledCall(call)

    def compute(row: Row) -> Value:
        accumulator = compiled.make()
        sums: list[str] = []
        for value in row:
            compiled.add(accumulator, (value,), 1)
            sums.append(accumulator.result() or "-")
        return ";".join(sums)

    return compute


def _lists(name: str, type_of: TypeOf) -> Iterator[Subject]:
    """Lists in the values' order, where they have one."""
    sql_type = type_of(name)
    argument = ColumnRef(0, sql_type)
    if not sql_type.orderable or not sql_type.one_text:
        return
    order = (CallOrder(argument),)
    functions = ["array_agg", "json_agg", "jsonb_agg"]
    for function in functions:
        call = AggregateCall(AggregateFunction(function), argument, type_of("jsonb"), order=order)
        yield _subject(function, name, f"{function}(x ORDER BY x)", _aggregated(call))
    if name == "text":
        call = AggregateCall(AggregateFunction.STRING_AGG, argument, sql_type, others=(argument,), order=order)
        yield _subject("string_agg", name, "string_agg(x, x ORDER BY x)", _aggregated(call))
        call = AggregateCall(
            AggregateFunction.JSONB_OBJECT_AGG, argument, type_of("jsonb"), others=(argument,), order=order
        )
        yield _subject("jsonb_object_agg", name, "jsonb_object_agg(x, x ORDER BY x)", _aggregated(call))


def _keys(name: str, sql_type: SqlType) -> Iterator[Subject]:
    """Which of the values are one group, and in which order they come."""
    if sql_type.comparable:
        key = key_function((0,), [sql_type])
        yield _subject(
            "group by",
            name,
            "string_agg(g, ';' ORDER BY g) FROM (SELECT string_agg(n::text, ',' ORDER BY n) AS g"
            f" FROM {_SOURCE} GROUP BY x) w",
            lambda row: _groups(row, key),
        )
        call = AggregateCall(AggregateFunction.COUNT, ColumnRef(0, sql_type), SqlType("int8", "int8"), distinct=True)
        yield _subject("count distinct", name, "count(DISTINCT x)", _aggregated(call))
    if sql_type.orderable:
        for direction, descending in (("", False), (" DESC", True)):
            ordering = Ordering([OrderTerm(0, descending=descending, nulls_first=descending)], [sql_type])
            yield _subject(
                f"order by{direction.lower()}",
                name,
                f"string_agg(n::text, ',' ORDER BY x{direction}, n)",
                lambda row, ordering=ordering: _ordered(row, ordering),
            )


def _groups(row: Row, key: Callable[[Row], object]) -> str:
    groups: dict[object, list[str]] = {}
    for number, value in enumerate(row):
        groups.setdefault(key((value,)), []).append(str(number))
    return ";".join(sorted(",".join(g) for g in groups.values()))


def _ordered(row: Row, ordering: Ordering) -> str:
    places = [ordering.place_of_row((value,)) for value in row]
    return ",".join(str(n) for n in sorted(range(len(row)), key=lambda n: (places[n], n)))
