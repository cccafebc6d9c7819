"""Values and caches are bounded in bytes."""

import tracemalloc

import pytest

from dataflow.errors import EvaluationError
from dataflow.evaluate import compile_scalar
from dataflow.memo import remembered
from dataflow.ops.aggregate_lists import ListKind, ValueList
from dataflow.plan.nodes import AggregateCall, AggregateFunction
from dataflow.scalar import Call, ColumnRef
from dataflow.types import Row
from tests.dataflow.functions.awkward import type_of

LONG = "a" * 1_000_000
MAX_BYTES = 100_000_000


@pytest.mark.parametrize(
    ("name", "types", "row"),
    [
        ("repeat", "text int4", (LONG, "1000")),
        ("repeat", "text int4", ("a", "1000000000")),
        ("lpad", "text int4", ("a", "250000000")),
        ("rpad", "text int4 text", ("a", "250000000", "xy")),
        ("replace", "text text text", (LONG, "a", LONG)),
        ("regexp_replace", "text text text text", (LONG, "a", LONG, "g")),
        ("array_to_string", "text[] text", ("{" + "a," * 1000 + "a}", LONG)),
        ("concat_ws", "text text text text", (LONG * 10, "a", "b", "c")),
        ("||", "text text", (LONG * 10, LONG * 10)),
    ],
)
def test_a_text_that_would_be_too_long_is_the_upstreams(name: str, types: str, row: Row) -> None:
    arguments = tuple(ColumnRef(i, type_of(t)) for i, t in enumerate(types.split()))
    compute = compile_scalar(Call(name, arguments, type_of("text")))
    tracemalloc.start()
    try:
        with pytest.raises(EvaluationError, match="not computed"):
            compute(row)
        assert tracemalloc.get_traced_memory()[1] < MAX_BYTES
    finally:
        tracemalloc.stop()


def test_a_list_that_would_be_too_long_is_the_upstreams() -> None:
    text = type_of("text")
    call = AggregateCall(AggregateFunction.STRING_AGG, ColumnRef(0, text), text, others=(ColumnRef(1, text),))
    listed = ValueList(ListKind(call))
    listed.add((LONG, ","), 3)
    assert listed.result() == ",".join([LONG] * 3)
    listed.add((LONG, ","), 1_000_000)
    with pytest.raises(EvaluationError, match="not computed"):
        listed.result()
    listed.add((LONG, ","), -1_000_002)
    assert listed.result() == LONG


def test_long_texts_are_not_remembered() -> None:
    calls = []

    @remembered(entries=2, characters=3)
    def length(text: str) -> int:
        calls.append(text)
        return len(text)

    assert [length(t) for t in ("abc", "abc", "abcd", "abcd")] == [3, 3, 4, 4]
    assert calls == ["abc", "abcd", "abcd"]


@pytest.mark.parametrize(
    ("name", "text"), [("jsonb", '["{}"]'), ("float8", "1.{}"), ("float4", "0.{}"), ("interval", "1 day {}")]
)
def test_normal_forms_of_parameters_do_not_fill_the_memory(name: str, text: str) -> None:
    sql_type = type_of(name)
    form = sql_type.normal_form
    assert form is not None
    tracemalloc.start()
    try:
        for number in range(200):
            filling = " " * 100_000 if name == "interval" else f"{number}" * 50_000
            try:
                form(sql_type.parse(text.format(filling)))
            except ValueError:
                continue
        assert tracemalloc.get_traced_memory()[0] < 2_000_000
    finally:
        tracemalloc.stop()
