"""Windows and top-k of one partition are the server's."""

import random
from dataclasses import replace

import pytest

from dataflow.errors import EvaluationError
from dataflow.ops.top_k import top_rows
from dataflow.ops.window import window_rows
from dataflow.plan.nodes import Chain, Frame, FrameMode, OrderTerm, TopK, Window, WindowCall
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types import Row, Value

INT = SqlType("int4", "int4")
BIGINT = SqlType("int8", "int8")
NUMERIC = SqlType("numeric", "numeric")
DOUBLE = SqlType("float8", "float8")
TEXT = SqlType("text", "text")
BOOL = SqlType("bool", "bool")
TEXTS = SqlType("text", "text[]", "array", TEXT)
JSON = SqlType("json", "json", "other")

#: id (never twice), g and h (peers, NULLs), n, t.
TYPES = (INT, INT, TEXT, NUMERIC, TEXT)
CHAIN = Chain("public.t", None, tuple(ColumnRef(i, t) for i, t in enumerate(TYPES)))
ID, G, H, N, T = CHAIN.columns
WHOLE = Frame(FrameMode.RANGE, None, None)
DEFAULT = Frame()
BY_ID = (OrderTerm(0),)
BY_G = (OrderTerm(1),)
BY_H_ID = (OrderTerm(2, descending=True, nulls_first=True), OrderTerm(0))
BY_G_DESC = (OrderTerm(1, descending=True), OrderTerm(2))
ORDERS = {
    (): "",
    BY_ID: "ORDER BY id",
    BY_G: "ORDER BY g",
    BY_H_ID: 'ORDER BY h COLLATE "C" DESC, id',
    BY_G_DESC: 'ORDER BY g DESC NULLS LAST, h COLLATE "C"',
}
FRAMES = {
    DEFAULT: "",
    WHOLE: "RANGE BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING",
    Frame(FrameMode.ROWS, -1, 1): "ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING",
    Frame(FrameMode.ROWS, None, -1): "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING",
    Frame(FrameMode.ROWS, 2, 1): "ROWS BETWEEN 2 FOLLOWING AND 1 FOLLOWING",
    Frame(FrameMode.ROWS, 1, 3): "ROWS BETWEEN 1 FOLLOWING AND 3 FOLLOWING",
    Frame(FrameMode.ROWS, 0, None): "ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    Frame(FrameMode.GROUPS, -1, 0): "GROUPS BETWEEN 1 PRECEDING AND CURRENT ROW",
    Frame(FrameMode.GROUPS, 1, 2): "GROUPS BETWEEN 1 FOLLOWING AND 2 FOLLOWING",
    Frame(FrameMode.RANGE, 0, None): "RANGE BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING",
    Frame(FrameMode.RANGE, 0, 0): "RANGE BETWEEN CURRENT ROW AND CURRENT ROW",
}


def integer(value: int) -> Literal:
    return Literal(str(value), INT)


EVEN = Call("=", (G, integer(2)), BOOL)
COMMA = Literal(",", TEXT)

#: What depends on the frame, and what needs no total order.
FRAMED: list[tuple[str, tuple[Scalar, ...], SqlType, Scalar | None, str]] = [
    ("count(*)", (), BIGINT, None, "count(*)"),
    ("count", (N,), BIGINT, None, "count(n)"),
    ("count", (N,), BIGINT, EVEN, "count(n) FILTER (WHERE g = 2)"),
    ("sum", (N,), NUMERIC, None, "sum(n)"),
    ("sum", (ID,), BIGINT, None, "sum(id)"),
    ("avg", (ID,), NUMERIC, None, "avg(id)"),
    ("min", (N,), NUMERIC, None, "trim_scale(min(n))"),
    ("max", (H,), TEXT, None, 'max(h COLLATE "C")'),
    ("bool_and", (EVEN,), BOOL, None, "bool_and(g = 2)"),
    ("bool_or", (EVEN,), BOOL, None, "bool_or(g = 2)"),
]
#: What needs a total order.
PLACED: list[tuple[str, tuple[Scalar, ...], SqlType, Scalar | None, str]] = [
    ("first_value", (N,), NUMERIC, None, "first_value(n)"),
    ("last_value", (T,), TEXT, None, "last_value(t)"),
    ("nth_value", (N, integer(2)), NUMERIC, None, "nth_value(n, 2)"),
    ("string_agg", (T, COMMA), TEXT, None, "string_agg(t, ',')"),
    ("string_agg", (T, H), TEXT, EVEN, "string_agg(t, h) FILTER (WHERE g = 2)"),
    ("array_agg", (T,), TEXTS, None, "array_agg(t)"),
    ("json_agg", (N,), JSON, None, "json_agg(n)"),
]
#: What has no frame.
FRAMELESS: list[tuple[str, tuple[Scalar, ...], SqlType, str, bool]] = [
    ("row_number", (), BIGINT, "row_number()", True),
    ("rank", (), BIGINT, "rank()", False),
    ("dense_rank", (), BIGINT, "dense_rank()", False),
    ("percent_rank", (), DOUBLE, "percent_rank()", False),
    ("cume_dist", (), DOUBLE, "cume_dist()", False),
    ("ntile", (integer(3),), INT, "ntile(3)", True),
    ("ntile", (integer(50),), INT, "ntile(50)", True),
    ("ntile", (Literal(None, INT),), INT, "ntile(NULL::int)", True),
    ("lag", (T,), TEXT, "lag(t)", True),
    ("lag", (T, integer(2), COMMA), TEXT, "lag(t, 2, ',')", True),
    ("lead", (N, G), NUMERIC, "lead(n, g)", True),
    ("lead", (T, Call("neg", (integer(1),), INT), H), TEXT, "lead(t, -1, h)", True),
]


SIZES = (30, 9, 2, 1, 0)


def data(seed: int) -> list[Row]:
    draw = random.Random(seed)

    def one(*values: Value) -> Value:
        return draw.choice(values)

    def row(number: int) -> Row:
        g, h = one("1", "2", "3", None), one("a", "B", "", "ä", None)
        return str(number), g, h, one("1.5", "-2", "10.25", "NaN", None), one("x", "y z", '"', None)

    return [row(number) for number in draw.sample(range(100), SIZES[seed])]


def window_calls() -> list[tuple[WindowCall, str]]:
    calls = []
    for order, order_sql in ORDERS.items():
        total = OrderTerm(0) in order
        for function, arguments, sql_type, text, needs_total in FRAMELESS:
            if total or not needs_total:
                calls.append((WindowCall(function, arguments, order, DEFAULT, sql_type), f"{text} OVER ({order_sql})"))
        for frame, frame_sql in FRAMES.items():
            counted = frame.mode is FrameMode.ROWS
            if frame.mode is FrameMode.GROUPS and not order:
                continue
            for function, arguments, sql_type, kept, text in (FRAMED if total or not counted else []) + (
                PLACED if total else []
            ):
                name, _, rest = text.partition(" FILTER")
                over = f"{name}{' FILTER' + rest if rest else ''} OVER ({order_sql} {frame_sql})"
                if text.startswith("trim_scale"):
                    over = f"trim_scale(min(n) OVER ({order_sql} {frame_sql}))"
                calls.append((WindowCall(function, arguments, order, frame, sql_type, kept), over))
    return calls


@pytest.mark.postgres
@pytest.mark.parametrize("seed", range(len(SIZES)))
def test_windows_are_the_servers(connect, seed: int) -> None:
    connection = connect()
    connection.execute("CREATE TABLE t (id int, g int, h text, n numeric, t text)")
    rows = data(seed)
    for row in rows:
        connection.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", row)
    calls = window_calls()
    for start in range(0, len(calls), 40):
        part = calls[start : start + 40]
        computed = window_rows(Window(CHAIN, (), tuple(call for call, _ in part)))(rows)
        shown = ", ".join(f"({sql})::text" for _, sql in part)
        expected = connection.execute(f"SELECT id::text, {shown} FROM t").fetchall()
        found = {row[0]: row[5:] for row in computed}
        for row in expected:
            for (call, sql), theirs, ours in zip(part, row[1:], found[row[0]], strict=True):
                assert _printed(call, ours) == theirs, sql


def _printed(call: WindowCall, value: Value) -> Value:
    if call.type is BOOL and value is not None:
        return "true" if value == "t" else "false"
    return value.rstrip("0").rstrip(".") if call.function == "min" and value and "." in value else value


@pytest.mark.postgres
@pytest.mark.parametrize("seed", range(len(SIZES)))
@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (3, 0), (3, 2), (None, 4), (100, 0), (1, 50)])
def test_top_rows_are_the_servers(connect, seed: int, limit: int | None, offset: int) -> None:
    connection = connect()
    connection.execute("CREATE TABLE t (id int, g int, h text, n numeric, t text)")
    rows = data(seed)
    for row in rows:
        connection.execute("INSERT INTO t VALUES (%s, %s, %s, %s, %s)", row)
    top = TopK(CHAIN, (), BY_H_ID, limit, offset)
    sql = f"SELECT id::text AS shown FROM t {ORDERS[BY_H_ID]} LIMIT %s OFFSET %s"
    assert [row[0] for row in top_rows(top)(rows)] == [row[0] for row in connection.execute(sql, (limit, offset))]
    if limit is not None:
        tied = replace(top, order=BY_G, with_ties=True)
        sql = f"SELECT g::text AS shown FROM t ORDER BY g OFFSET {offset} FETCH FIRST {limit} ROWS WITH TIES"
        assert [row[1] for row in top_rows(tied)(rows)] == [row[0] for row in connection.execute(sql)]


def test_a_choice_is_the_rows_alone() -> None:
    rows = data(0)
    compute = window_rows(Window(CHAIN, (), (WindowCall("row_number", (), BY_G, DEFAULT, BIGINT),)))
    shuffled = random.Random(1).sample(rows, len(rows))
    assert sorted(map(repr, compute(rows))) == sorted(map(repr, compute(shuffled)))
    assert top_rows(TopK(CHAIN, (), BY_G, 3))(rows) == top_rows(TopK(CHAIN, (), BY_G, 3))(shuffled)


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (WindowCall("ntile", (ID,), BY_ID, DEFAULT, INT), "NTILE"),
        (WindowCall("median", (N,), BY_ID, DEFAULT, NUMERIC), "MEDIAN"),
        (WindowCall("array_agg", (ColumnRef(0, TEXTS),), BY_ID, DEFAULT, TEXTS), "arrays"),
    ],
)
def test_what_is_not_exact_is_refused(call: WindowCall, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        window_rows(Window(CHAIN, (), (call,)))


@pytest.mark.parametrize("function", ["ntile", "nth_value"])
def test_a_number_below_one_is_the_upstreams_error(function: str) -> None:
    arguments = (integer(0),) if function == "ntile" else (N, integer(0))
    compute = window_rows(Window(CHAIN, (), (WindowCall(function, arguments, BY_ID, DEFAULT, INT),)))
    with pytest.raises(EvaluationError):
        compute(data(0))
