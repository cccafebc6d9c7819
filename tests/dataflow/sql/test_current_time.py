"""Comparisons with the current time: which are bounds, of which value, and why others are none."""

from datetime import UTC, datetime

import pytest

from dataflow.errors import UnsupportedQuery
from dataflow.evaluate import compile_scalar
from dataflow.plan.clock_bounds import bound_at
from dataflow.plan.nodes import Chain, View, column_types
from dataflow.plan.nullability import never_null_output
from dataflow.plan.outline import column_names
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql import plan_view

#: A moment within a second, in microseconds since 1970: 2028-02-29 08:30:00.25.
NOW_US = int(datetime(2028, 2, 29, 8, 30, tzinfo=UTC).timestamp()) * 1_000_000 + 250_000


def catalog(dialect: str, schema: str, columns: dict[str, SqlType]) -> Catalog:
    listed = tuple(Column(name, kind, name == "id") for name, kind in columns.items())
    table = Table(f"{schema}.t", listed, ((0,),), ((0,), (1, 2)))
    return Catalog({table.name: table}, dialect=dialect, search_path=(schema,))


def kind(name: str, sql: str | None = None) -> SqlType:
    return SqlType(name, sql or name)


POSTGRES = catalog(
    "postgres",
    "public",
    {"id": kind("int8"), "k": kind("int8"), "at": kind("timestamptz"), "ts": kind("timestamp"), "d": kind("date")},
)
MARIADB = catalog(
    "mariadb",
    "shop",
    {
        "id": kind("int8", "bigint"),
        "k": kind("int8", "bigint"),
        "at": kind("mysql_datetime", "datetime"),
        "at6": kind("mysql_datetime", "datetime(6)"),
        "ts": kind("mysql_timestamp", "timestamp"),
        "d": kind("mysql_date", "date"),
    },
)


def bounds(view: View) -> list[tuple[str, str]]:
    """The bounds of a view at the moment."""
    types = column_types(view.relation)
    return [bound_at(compile_scalar(b.value), b.operator, types[b.column])(NOW_US) for b in view.clock]


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("at > now()", [(">", "2028-02-29 08:30:00.25+00")]),
        ("at > now() - interval '1 hour'", [(">", "2028-02-29 07:30:00.25+00")]),
        ("now() - '90 min'::interval <= at", [(">=", "2028-02-29 07:00:00.25+00")]),
        ("(at) < (current_timestamp + interval '1' hour)", [("<", "2028-02-29 09:30:00.25+00")]),
        # The length of a month and of a year are the calendar's.
        ("at > transaction_timestamp() - interval '1 year 1 mon'", [(">", "2027-01-29 08:30:00.25+00")]),
        ("at > statement_timestamp() - make_interval(hours => 3)", [(">", "2028-02-29 05:30:00.25+00")]),
        ("at >= date_trunc('month', now())", [(">=", "2028-02-01 00:00:00+00")]),
        ("at >= current_date - 7", [(">=", "2028-02-22 00:00:00+00")]),
        ("at >= now()::date", [(">=", "2028-02-29 00:00:00+00")]),
        ("at >= localtimestamp", [(">=", "2028-02-29 08:30:00.25+00")]),
        ("ts >= now()", [(">=", "2028-02-29 08:30:00.25")]),
        ("ts >= current_date - interval '1 day'", [(">=", "2028-02-28 00:00:00")]),
        (
            "at BETWEEN now() - interval '1 minute' AND now()",
            [(">=", "2028-02-29 08:29:00.25+00"), ("<=", "2028-02-29 08:30:00.25+00")],
        ),
        ("at BETWEEN '2028-01-01' AND now()", [("<=", "2028-02-29 08:30:00.25+00")]),
        # A date is its midnight, which is not the moment: it is before or behind it.
        ("d > now()", [(">", "2028-02-29")]),
        ("d >= now()", [(">", "2028-02-29")]),
        ("d < now()", [("<=", "2028-02-29")]),
        ("d <= now()", [("<=", "2028-02-29")]),
        ("d >= date_trunc('day', now())", [(">", "2028-02-28")]),
        ("d < date_trunc('day', now())", [("<=", "2028-02-28")]),
        ("d >= current_date", [(">", "2028-02-28")]),
        ("d = current_date", [(">", "2028-02-28"), ("<=", "2028-02-29")]),
        ("at + interval '1 hour' > now()", [(">", "2028-02-29 08:30:00.25+00")]),
    ],
)
def test_bounds_of_postgres(condition: str, expected: list[tuple[str, str]]) -> None:
    view = plan_view("v", f"SELECT id FROM t WHERE {condition} AND k = :k", POSTGRES)
    assert sorted(bounds(view)) == sorted(expected)
    assert [p.name for p in view.parameters] == ["k"]
    assert view.ranges == ()


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("at > NOW() - INTERVAL 1 HOUR", [(">", "2028-02-29 07:30:00")]),
        ("at > DATE_SUB(UTC_TIMESTAMP(), INTERVAL 1 MONTH)", [(">", "2028-01-29 08:30:00")]),
        ("CURRENT_TIMESTAMP >= at", [("<=", "2028-02-29 08:30:00")]),
        ("at6 < NOW(6)", [("<", "2028-02-29 08:30:00.25")]),
        ("ts < LOCALTIME", [("<", "2028-02-29 08:30:00")]),
        ("at >= CURDATE() - INTERVAL 7 DAY", [(">=", "2028-02-22 00:00:00")]),
        ("at >= UTC_DATE()", [(">=", "2028-02-29 00:00:00")]),
        ("d = CURRENT_DATE", [(">", "2028-02-28"), ("<=", "2028-02-29")]),
        ("d >= NOW()", [(">", "2028-02-29")]),
        ("d BETWEEN CURDATE() AND CURDATE() + INTERVAL 1 WEEK", [(">", "2028-02-28"), ("<=", "2028-03-07")]),
    ],
)
def test_bounds_of_mariadb(condition: str, expected: list[tuple[str, str]]) -> None:
    view = plan_view("v", f"SELECT id FROM t WHERE {condition} AND k = :k", MARIADB)
    assert sorted(bounds(view)) == sorted(expected)


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT id, now() FROM t", "The current time is not a function of the database's contents."),
        ("SELECT id FROM t WHERE at > current_timestamp(0)", "The current time is not a function"),
        ("SELECT id FROM t WHERE at > clock_timestamp()", "CLOCK_TIMESTAMP is not on the list of exact functions."),
        ("SELECT id FROM t WHERE at > now() OR ts > now()", "The current time is not a function"),
        ("SELECT id FROM t WHERE at > now() OR id = :p", "The current time is not a function"),
        ("SELECT id FROM t WHERE at > now() OR EXISTS (SELECT FROM t)", "The current time is not a function"),
        ("SELECT id FROM t WHERE NOT at > now()", "The current time is not a function"),
        ("SELECT id FROM t WHERE now() - at < interval '1 day'", "The current time is not a function"),
        ("SELECT id FROM t WHERE at > now() - :p::interval", "The current time is not a function"),
        (
            "SELECT id FROM (SELECT id FROM t WHERE at <= now() AND ts > now() ORDER BY id LIMIT 3) x",
            "The condition on the current time is a list or a range over a column that is not in the LIMIT",
        ),
        (
            "SELECT t.id, n FROM t JOIN (SELECT k, count(*) AS n FROM t WHERE at > now() GROUP BY k) x ON x.k = t.id",
            "The condition on the current time is a list or a range over a column that is not in GROUP BY",
        ),
        (
            "SELECT k, (SELECT count(*) FROM t b WHERE b.id = a.k) FROM t a WHERE a.at > now() GROUP BY k",
            "The condition on the current time is a list or a range over a column that is not in GROUP BY",
        ),
        (
            "SELECT k, count(*) FROM t WHERE at > now() GROUP BY k HAVING count(*) = :n",
            "The parameter :n is a key of groups that reads compute of a time window.",
        ),
        ("SELECT id FROM t WHERE at > now() - interval 'infinity'", "The bound of a time window has no finite value"),
        ("SELECT id FROM t WHERE at > now() - NULL::interval", "The bound of a time window has no finite value"),
        ("SELECT id FROM t WHERE id > extract(epoch from now())", "Comparing int8 with the current time as numeric"),
        ("SELECT id FROM t WHERE timestamptz '2028-01-01' < now()", "The current time must be compared with a column."),
        (
            "SELECT a.id FROM t a LEFT JOIN t b ON b.k = a.id AND b.at > now()",
            "The condition on the current time does not",
        ),
        (
            "SELECT id FROM t WHERE id IN (SELECT k FROM t b WHERE b.at > now())",
            "The condition on the current time is a",
        ),
    ],
)
def test_other_uses_of_the_time_are_no_bounds(sql: str, reason: str) -> None:
    with pytest.raises(UnsupportedQuery) as error:
        plan_view("v", sql, POSTGRES)
    assert error.value.reason.startswith(reason)


@pytest.mark.parametrize("call", ["SYSDATE()", "UNIX_TIMESTAMP()", "NOW(3)", "NOW() + 1", "CURTIME()"])
def test_other_calls_of_mariadb_are_none(call: str) -> None:
    with pytest.raises(UnsupportedQuery):
        plan_view("v", f"SELECT id FROM t WHERE at > {call}", MARIADB)


def test_a_window_and_a_parameter_share_a_column() -> None:
    view = plan_view("v", "SELECT id FROM t WHERE at > :since AND at <= now() ORDER BY at", POSTGRES)
    assert [r.name for r in view.ranges] == ["since"]
    assert [(b.column, b.operator) for b in view.clock] == [(view.ranges[0].column, "<=")]


def test_a_range_of_another_column_is_a_free_parameter() -> None:
    for conditions in ("k > :least AND at > now()", "at > now() AND k > :least"):
        view = plan_view("v", f"SELECT id FROM t WHERE {conditions}", POSTGRES)
        assert [p.name for p in view.parameters] == ["least"]
        assert view.ranges == ()
        assert [b.operator for b in view.clock] == [">"]


@pytest.mark.parametrize(
    ("sql", "window", "filters"),
    [
        ("at <= now() AND ts > now()", [("ts", ">")], [("at", "<=")]),
        ("ts > now() AND at <= now() ORDER BY at DESC, id LIMIT 3", [("at", "<=")], [("ts", ">")]),
        ("ts > now() AND at <= now() AND at > :since", [("at", "<=")], [("ts", ">")]),
        ("at <= now() AND ts <= now() AND at > now() - interval '1 day'", [("at", "<="), ("at", ">")], [("ts", "<=")]),
        ("at BETWEEN now() - interval '1 day' AND now() AND ts < now()", [("at", "<="), ("at", ">=")], [("ts", "<")]),
    ],
)
def test_a_second_column_filters(sql: str, window: list[tuple[str, str]], filters: list[tuple[str, str]]) -> None:
    view = plan_view("v", f"SELECT id, at, ts FROM t WHERE {sql}", POSTGRES)
    names = {c.column: c.name for c in view.output}
    assert sorted((names[b.column], b.operator) for b in view.clock) == window
    assert [(names[b.column], b.operator) for b in view.clock_filters] == filters
    assert [t.column for t in view.leaf_order[-len(filters) :]] == [b.column for b in view.clock_filters]
    assert all(b.column not in view.range_columns for b in view.clock_filters)


@pytest.mark.parametrize(
    ("condition", "passing", "expected"),
    [
        ("at IS NULL OR at > now()", (">", "2028-02-29 08:30:00.25+00"), "infinity"),
        ("(k = 1) OR (id = 2) OR now() >= at", ("<=", "2028-02-29 08:30:00.25+00"), "-infinity"),
        ("d < now() OR d IS NULL", ("<=", "2028-02-29"), "-infinity"),
    ],
)
def test_a_condition_beside_the_time_puts_rows_at_its_end(
    condition: str, passing: tuple[str, str], expected: str
) -> None:
    view = plan_view("v", f"SELECT id FROM t WHERE {condition}", POSTGRES)
    assert bounds(view) == [passing]
    (bound,) = view.clock
    assert isinstance(view.relation, Chain)
    compute = compile_scalar(view.relation.columns[bound.column])
    assert compute(("2", "1", None, None, None)) == expected
    assert compute(("3", "3", "2028-01-01 00:00:00+00", None, "2028-01-01")) in ("2028-01-01 00:00:00+00", "2028-01-01")


def test_a_condition_beside_the_time_on_mariadb() -> None:
    for column, end in (
        ("at6", "9999-12-31 23:59:59.000000"),
        ("ts", "9999-12-31 23:59:59"),
        ("at", "9999-12-31 23:59:59"),
    ):
        view = plan_view("v", f"SELECT id FROM t WHERE {column} IS NULL OR {column} > NOW()", MARIADB)
        assert isinstance(view.relation, Chain)
        assert compile_scalar(view.relation.columns[view.clock[0].column])(("1",) + (None,) * 5) == end


def test_days_beside_a_condition_are_parts_of_the_key() -> None:
    for catalog_, day in ((POSTGRES, "CURRENT_DATE"), (MARIADB, "CURDATE()")):
        view = plan_view("v", f"SELECT count(*) FROM t WHERE d >= {day} OR d IS NULL", catalog_)
        assert [b.operator for b in view.clock_keys] == [">="]


def test_equal_bounds_are_one() -> None:
    sql = "SELECT id FROM t WHERE k = :k AND at > {}"
    hour, minutes = (plan_view("v", sql.format(f"now() - interval '{i}'"), POSTGRES) for i in ("1 hour", "60 min"))
    assert hour.clock == minutes.clock


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT count(*) FROM t WHERE d >= CURRENT_DATE", ["2028-02-28"]),
        ("SELECT count(*) FROM t WHERE at < date_trunc('hour', now())", ["2028-02-29 08:00:00+00"]),
        ("SELECT k, count(*) FROM t WHERE d > now() - interval '1 month' GROUP BY k", ["2028-01-29"]),
        ("SELECT DISTINCT k FROM t WHERE d = CURRENT_DATE", ["2028-02-28", "2028-02-29"]),
        ("SELECT d, count(*) FROM t WHERE d > CURRENT_DATE GROUP BY d", ["2028-02-29"]),
        ("SELECT id FROM t WHERE at < now() AND d > CURRENT_DATE", ["2028-02-29"]),
        ("SELECT id FROM t WHERE ts < CURRENT_DATE AND d > CURRENT_DATE AND k > :k", ["2028-02-29"]),
    ],
)
def test_a_value_of_many_reads_is_a_part_of_the_key(sql: str, expected: list[str]) -> None:
    view = plan_view("v", sql, POSTGRES)
    types = column_types(view.relation)
    found = [bound_at(compile_scalar(b.value), b.operator, types[b.column])(NOW_US)[1] for b in view.clock_keys]
    assert sorted(found) == expected
    assert view.key_columns[: len(found)] == tuple(b.column for b in view.clock_keys)


@pytest.mark.parametrize("bound", ["now()", "date_trunc('minute', now())", "now() - interval '1 day'"])
def test_a_value_of_few_reads_is_none(bound: str) -> None:
    view = plan_view("v", f"SELECT count(*) FROM t WHERE at >= {bound}", POSTGRES)
    assert view.clock_keys == ()
    assert view.at_read is not None


@pytest.mark.parametrize(
    ("sql", "rows", "key"),
    [
        ("SELECT count(*) FROM t WHERE at > now()", [], []),
        ("SELECT k, count(*), sum(id) FROM t WHERE at > now() GROUP BY k", ["id", "k"], []),
        ("SELECT at, count(*) FROM t WHERE at > now() GROUP BY at", ["at"], []),
        ("SELECT count(ts) AS n FROM t WHERE at > now() AND k = :k", ["k", "ts"], ["k"]),
        ("SELECT max(ts) FROM t WHERE at > now() AND k IN (:ks) GROUP BY k HAVING count(*) > 2", ["k", "ts"], ["k"]),
        ("SELECT DISTINCT k FROM t WHERE at <= now() AND ts > now()", ["k"], []),
        ("SELECT id, rank() OVER (ORDER BY k) FROM t WHERE at < now()", ["id", "k"], []),
        ("SELECT id FROM t WHERE at < now() ORDER BY k FETCH FIRST 2 ROWS WITH TIES", ["id", "k"], []),
        ("SELECT k, count(*) FROM t WHERE at > now() AND d >= CURRENT_DATE GROUP BY k", ["k"], [":"]),
        ("SELECT k, ts, count(*) FROM t WHERE at > now() GROUP BY GROUPING SETS ((k), (ts))", ["k", "ts"], []),
    ],
)
def test_rows_are_picked_before_answers_are_computed(sql: str, rows: list[str], key: list[str]) -> None:
    view = plan_view("v", sql, POSTGRES)
    assert view.at_read is not None
    assert view.clock
    assert (view.order, view.limit_rows, view.ranges) == ((), None, ())
    names = column_names(view.relation, POSTGRES)
    assert sorted(names[c.column] for c in view.output if not names[c.column].startswith(":")) == rows
    assert [names[c][: len(k)] for c, k in zip(view.key_columns, key, strict=True)] == key


def test_an_answer_of_no_rows_is_the_row_of_an_aggregate() -> None:
    sql = "SELECT count(*), sum(id) FROM t WHERE at > now()"
    for condition in ("", " AND k = :k"):
        view = plan_view("v", sql + condition, POSTGRES)
        assert view.answer.rows_for_null == (("0", None),)
    assert plan_view("v", f"{sql} HAVING count(*) > 1", POSTGRES).answer.rows_for_null == ()


@pytest.mark.parametrize("condition", ["at > now()", "k = :k"])
def test_an_answer_of_no_rows_may_be_an_error(condition: str) -> None:
    view = plan_view("v", f"SELECT 1 / count(*) FROM t WHERE {condition}", POSTGRES)
    assert view.answer.rows_for_null is None


def test_columns_of_computed_answers_are_known_not_to_be_null() -> None:
    sql = "SELECT id, ts, count(*), max(k) FROM t WHERE at > now() GROUP BY id, ts"
    assert never_null_output(plan_view("v", sql, POSTGRES), POSTGRES) == {0, 2}


@pytest.mark.parametrize("times", [20, 110, 130, 150])
def test_what_reads_evaluate_is_not_nested_too_deeply(times: int) -> None:
    sums = "SELECT count(*)" + " + 1" * times + " FROM t WHERE at > now()"
    bounds = "SELECT id FROM t WHERE at > now()" + " + interval '1 hour'" * times
    for sql in (sums, bounds):
        if times == 20:
            plan_view("v", sql, POSTGRES)
        else:
            with pytest.raises(UnsupportedQuery, match="nested too deeply"):
                plan_view("v", sql, POSTGRES)
