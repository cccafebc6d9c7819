"""Small parts of the runtime, without a database."""

import asyncio

import pytest

from dataflow.errors import Span
from dataflow.plan.nodes import Chain, OutputColumn, Parameter, View
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import ViewId
from service.engine.loop.ages import Ages
from service.engine.loop.positions import Positions
from service.engine.loop.pushes import Pushes
from service.engine.reads.forwards import forward_query, forward_sql
from service.engine.views.planner import place
from service.engine.views.registry import ViewPlan
from service.engine.views.repair import columns_used
from service.ground.backoff import Backoff
from service.leaf_store.catalog import describe
from service.protocol.counters import Counters

INT = SqlType("int4", "int4")


def test_the_age_counts_from_the_newest_heartbeat_that_is_applied() -> None:
    ages = Ages(100)
    ages.sent(1000, bound=50)
    ages.sent(2000, bound=60)
    assert ages.applied(49) == 100
    assert ages.applied(55) == 1000
    assert ages.applied(60) == 2000
    # Of answers that are exact at an older version.
    assert [ages.sent_ms_at(position) for position in (49, 50, 59, 60, 99)] == [100, 1000, 1000, 2000, 2000]
    ages.sent(3000, bound=70)
    ages.restarted()
    assert ages.applied(80) == 2000
    assert ages.sent_ms_at(80) == 100


def test_backoff_doubles_to_a_limit() -> None:
    backoff = Backoff(0.1, 0.5)
    assert [backoff.failed() for _ in range(4)] == [0.1, 0.2, 0.4, 0.5]
    backoff.succeeded()
    assert backoff.failed() == 0.1


def test_positions_wake_who_waits_in_any_order() -> None:
    async def scenario() -> list[int]:
        positions = Positions()
        woken: list[int] = []

        async def wait(position: int) -> None:
            await positions.wait(position)
            woken.append(position)

        tasks = [asyncio.ensure_future(wait(p)) for p in (30, 10, 20)]
        await asyncio.sleep(0)
        positions.advanced(20)
        await asyncio.gather(tasks[1], tasks[2])
        assert sorted(woken) == [10, 20]
        await positions.wait(5)
        tasks[0].cancel()
        await asyncio.gather(tasks[0], return_exceptions=True)
        positions.advanced(40)
        return woken

    assert sorted(asyncio.run(scenario())) == [10, 20]


def test_who_waits_no_more_leaves_positions() -> None:
    async def scenario() -> Positions:
        positions = Positions()
        for _ in range(1000):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0):
                    await positions.wait(1 << 60)
        return positions

    assert len(asyncio.run(scenario())._waiting) <= 1


class Upstream:
    """A server that answers questions with how far it is, and moves by pushes."""

    def __init__(self) -> None:
        self.position = 0
        self.asked = 0
        self.pushed = 0
        self.counters = Counters()
        self.pushes = Pushes(self.request_position, self.push, self.counters)

    def request_position(self) -> None:
        self.asked += 1
        asyncio.get_running_loop().call_soon(self.pushes.advanced, self.position)

    async def push(self) -> bool:
        self.pushed += 1
        self.position = 1000
        return True


def test_a_keepalive_suffices_where_the_log_is_flushed() -> None:
    async def scenario() -> Upstream:
        upstream = Upstream()
        upstream.position = 50
        upstream.pushes.reach(40)
        while not upstream.asked:
            await asyncio.sleep(0)
        await upstream.pushes.close()
        return upstream

    upstream = asyncio.run(scenario())
    assert upstream.pushed == 0


def test_all_who_wait_share_one_push() -> None:
    async def scenario() -> Upstream:
        upstream = Upstream()
        for position in range(100, 900, 100):
            upstream.pushes.reach(position)
        while upstream.counters.pushes == 0:
            await asyncio.sleep(0.001)
        await asyncio.sleep(0)
        await upstream.pushes.close()
        return upstream

    assert asyncio.run(scenario()).pushed == 1


@pytest.mark.parametrize(
    ("sql", "parameters", "expected"),
    [
        ("SELECT a FROM t WHERE a = :x AND b = :y;", ("x", "y"), "SELECT a FROM t WHERE a = $1 AND b = $2"),
        ("SELECT a::text, ':no' FROM t WHERE a = :x", ("x",), "SELECT a::text, ':no' FROM t WHERE a = $1"),
        ("SELECT a FROM t WHERE b = ? AND a = ?", ("p1", "p2"), "SELECT a FROM t WHERE b = $1 AND a = $2"),
        ("SELECT a FROM t WHERE b = $2 AND a = $1", ("p1", "p2"), "SELECT a FROM t WHERE b = $2 AND a = $1"),
        ('SELECT ":q" -- :c\n FROM t WHERE a = :x', ("x",), 'SELECT ":q" -- :c\n FROM t WHERE a = $1'),
        ("SELECT E'\\':no' FROM t WHERE a = :x", ("x",), "SELECT E'\\':no' FROM t WHERE a = $1"),
        ("SELECT $$ :no $$, a[1:2] FROM t WHERE a = :x", ("x",), "SELECT $$ :no $$, a[1:2] FROM t WHERE a = $1"),
        ("SELECT a FROM t WHERE a = :claims.a.b", ("claims.a.b",), "SELECT a FROM t WHERE a = $1"),
        ("SELECT a /* /* */ :no */ FROM t WHERE a = :über", ("über",), "SELECT a /* /* */ :no */ FROM t WHERE a = $1"),
    ],
)
def test_parameters_of_a_forwarded_statement(sql: str, parameters: tuple[str, ...], expected: str) -> None:
    assert forward_sql(sql, parameters) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("a IN (:x)", "a IN (SELECT unnest($1::bigint[]))"),
        ("a = ANY (:x)", "a = ANY (SELECT unnest($1::bigint[]))"),
        ("a = ANY(:x::int[]) AND b[1] = 2", "a = ANY($1::int[]) AND b[1] = 2"),
        ("a IN (:x::int) AND b = '{}'::int[]", "a IN (SELECT unnest($1::bigint[])::int) AND b = '{}'::int[]"),
    ],
)
def test_a_list_of_a_forwarded_statement(condition: str, expected: str) -> None:
    assert forward_sql(f"SELECT a FROM t WHERE {condition}", ("x",), (("x", "bigint"),)).endswith(f"WHERE {expected}")


def test_a_forwarded_query_has_the_key() -> None:
    view = View(
        "v",
        "SELECT a FROM t WHERE a = :x",
        Chain("public.t", None, (ColumnRef(1, INT),)),
        (Parameter("x", 0),),
        (OutputColumn("a", 0),),
    )
    info = describe(ViewId(1), view, "[]", "ready", True)
    assert forward_query(ViewPlan(view, view.sql), info, ("5",)) == ("SELECT a FROM t WHERE a = $1", ["5"])
    assert columns_used(ViewPlan(view, view.sql), "public.t") == {1}
    assert columns_used(ViewPlan(view, view.sql), "public.other") == set()


def test_a_place_in_sql_is_a_line_and_a_column() -> None:
    sql = "SELECT a\nFROM nowhere"
    assert place(sql, Span(14, 21)) == {
        "line": 2,
        "column": 6,
        "excerpt": "nowhere",
        "span": {"start": 14, "end": 21},
    }
    assert place(sql, None)["line"] == 1
