"""Lookups, forwarded reads, pushes, and the pool below them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import psycopg
import pytest

from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import PostgresLookups, array_text
from service.engine.upstream.results import AnswerSize, UpstreamError
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.streams import LIMIT_S, run

pytestmark = pytest.mark.postgres

ITEMS = (
    "CREATE TABLE items (id int8 PRIMARY KEY, name text)",
    "INSERT INTO items VALUES (1, 'a'), (2, 'b'), (3, NULL)",
)
SLEEPERS = "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()"
BY_ID = "SELECT id, name FROM public.items WHERE id = ANY($1::int8[]) ORDER BY id"


@asynccontextmanager
async def looking(url: str, **options: float) -> AsyncIterator[PostgresLookups]:
    pool = PostgresPool(url, **options)  # type: ignore[arg-type]
    try:
        yield PostgresLookups(pool)
    finally:
        await pool.close()


def test_keys_are_arrays(database: Database) -> None:
    """One array for each key column, whatever its texts have in them."""
    nasty = ['a"b', "c\\d", "e,f", "{g}", " h ", "NULL", "", "žluť\n", "'; DROP TABLE items; --"]
    database.execute(*ITEMS)

    async def check() -> None:
        async with looking(database.url) as lookups:
            found = await lookups.run_statement(BY_ID, [["3", "1", "9"]])
            assert found.rows == [("1", "a"), ("3", None)]
            sql = "SELECT k FROM unnest($1::text[]) WITH ORDINALITY AS t (k, n) ORDER BY n"
            echoed = await lookups.run_statement(sql, [nasty])
            assert echoed.rows == [(text,) for text in nasty]
            assert lookups.statements == 2

    run(check())


def test_many_rows(database: Database) -> None:
    """More than are taken out of a result at once, in order."""

    async def check() -> None:
        async with looking(database.url) as lookups:
            found = await lookups.run_statement("SELECT i, 'n' || i AS n FROM generate_series(1, 12345) i", [])
            assert found.rows == [(str(i), f"n{i}") for i in range(1, 12346)]

    run(check())


def test_a_snapshot_knows_who_is_open(database: Database) -> None:
    """Its horizon is behind a transaction that has an id and has not ended."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with looking(database.url) as lookups:
            with psycopg.connect(database.url) as writer:
                xid = writer.execute("SELECT pg_current_xact_id()::text::int8").fetchone()
                taken = (await lookups.snapshot()).snapshot
                assert xid is not None
                assert taken.horizon == xid[0] + 1
                assert not taken.sees(xid[0], 0)

    run(check())


def test_an_altered_table_gets_a_new_plan(database: Database) -> None:
    """A statement prepared before the ALTER runs after it."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with looking(database.url, size=1) as lookups:
            sql = "SELECT * FROM public.items WHERE id = ANY($1::int8[])"
            assert (await lookups.run_statement(sql, [["1"]])).rows == [("1", "a")]
            database.execute("ALTER TABLE items ADD COLUMN more int4 DEFAULT 7")
            for _ in range(2):
                assert (await lookups.run_statement(sql, [["1"]])).rows == [("1", "a", "7")]

    run(check())


def test_forward_is_one_snapshot(database: Database) -> None:
    """Several queries see the same; parameters take their types from where they stand."""
    database.execute(*ITEMS)

    async def check() -> None:
        async with looking(database.url) as lookups:
            holder = psycopg.connect(database.url, autocommit=True)
            holder.execute("SELECT pg_advisory_lock(7)")
            waits = "SELECT count(*) AS n, pg_advisory_xact_lock(7) FROM items"
            first = asyncio.ensure_future(
                lookups.forward(
                    [(waits, []), ("SELECT id, name AS x FROM items WHERE id > $1 AND name = $2", ["1", "b"])]
                )
            )
            async with asyncio.timeout(LIMIT_S):
                while database.query("SELECT count(*) FROM pg_locks WHERE NOT granted") == [(0,)]:
                    await asyncio.sleep(0)
            database.execute("DELETE FROM items")
            holder.close()
            found = await first
            assert found.rows == [[("3", "")], [("2", "b")]]
            int8, text, void = 20, 25, 2278
            assert found.columns == [(("n", int8), ("pg_advisory_xact_lock", void)), (("id", int8), ("x", text))]
            assert found.bound <= (await lookups.snapshot()).bound
            empty = await lookups.forward([("SELECT id FROM items WHERE name = $1", [None])])
            assert empty.rows == [[]]

    run(check())


@pytest.mark.parametrize(
    ("sql", "parameters", "code"),
    [
        ("SELECT 1; DROP TABLE items", [], "invalid"),
        ("COMMIT; DROP TABLE items", [], "invalid"),
        ("DELETE FROM items", [], "invalid"),
        ("SELECT nextval('numbers')", [], "denied"),
        ("SELECT * FROM nothing", [], "missing"),
        ("SELECT id FROM items WHERE id = $1", ["x"], "parameter"),
        ("SELECT 1/0", [], "invalid"),
    ],
)
def test_forwarded_statements_that_fail(database: Database, sql: str, parameters: list[str], code: str) -> None:
    """They change nothing, are told in the server's words, and leave the connection of use."""
    database.execute(*ITEMS, "CREATE SEQUENCE numbers")

    async def check() -> None:
        async with looking(database.url, size=1) as lookups:
            with pytest.raises(UpstreamError) as refused:
                await lookups.forward([(sql, parameters)])
            assert refused.value.code == code
            assert not refused.value.retryable
            assert (await lookups.run_statement("SELECT count(*) FROM items", [])).rows == [("3",)]

    run(check())


@pytest.mark.parametrize(
    "sql", ["SELECT pg_advisory_lock(7)", "SELECT pg_advisory_lock(7), 1 / (pg_backend_pid() - pg_backend_pid())"]
)
def test_what_foreign_sql_leaves_in_a_session_is_gone(database: Database, sql: str) -> None:
    async def check() -> None:
        async with looking(database.url) as lookups:
            with suppress(UpstreamError):
                await lookups.forward([(sql, [])])
            # The session is another's by now, or the next one's.
            held = await lookups.run_statement("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'", [])
            assert held.rows == [("0",)]

    run(check())


def test_an_answer_that_is_too_large_is_broken_off(database: Database) -> None:
    """The answer ends as soon as it is too large, upstream too; the connection remains usable."""
    endless = "SELECT generate_series(1, 1000000000)::text AS i"
    wide = "SELECT repeat('x', 100000), generate_series(1, 1000000000) AS x"
    few = "SELECT i::text AS i FROM generate_series(1, 3) i"

    async def check() -> None:
        async with looking(database.url, size=1) as lookups:
            for sql, most in [(endless, AnswerSize(1000, 1 << 30)), (wide, AnswerSize(1 << 30, 1 << 20))]:
                for asked in (
                    lookups.run_statement(sql, [], most),
                    lookups.forward([(sql, [])], most),
                    lookups.forward([(few, []), (sql, [])], most),
                ):
                    with pytest.raises(UpstreamError) as refused:
                        await asked
                    assert (refused.value.code, refused.value.retryable) == ("too_large", False)
            assert (await lookups.run_statement(few, [], AnswerSize(3, 1000))).rows == [("1",), ("2",), ("3",)]
            # Several answers of a read are together what it takes.
            with pytest.raises(UpstreamError):
                await lookups.forward([(few, []), (few, [])], AnswerSize(5, 1000))
            together = await lookups.forward([(few, []), (few, [])], AnswerSize(6, 1000))
            assert [len(rows) for rows in together.rows] == [3, 3]

    run(check())


def test_rows_do_not_come_twice(database: Database) -> None:
    """A statement that fails half-way with the code of one that the server has forgotten is not run again."""
    database.execute(
        "CREATE SEQUENCE runs",
        """CREATE FUNCTION odd(i int) RETURNS int LANGUAGE plpgsql AS $$ BEGIN
           IF i = 250 AND nextval('runs') = 1 THEN RAISE feature_not_supported; END IF;
           RETURN i; END $$""",
    )

    async def check() -> None:
        async with looking(database.url, size=1) as lookups:
            with pytest.raises(UpstreamError):
                await lookups.run_statement("SELECT odd(generate_series(1, 300))::text AS i", [])
            found = await lookups.run_statement("SELECT odd(generate_series(1, 300))::text AS i", [])
            assert found.rows == [(str(i),) for i in range(1, 301)]

    run(check())


def test_a_slow_statement_times_out(database: Database) -> None:
    """The upstream's limit, not ours, so that it stops working on it."""

    async def check() -> None:
        async with looking(database.url, size=1, statement_timeout_s=0.05) as lookups:
            with pytest.raises(UpstreamError) as refused:
                await lookups.run_statement("SELECT pg_sleep(60)::text AS s", [])
            assert (refused.value.code, refused.value.retryable) == ("timeout", True)
            assert (await lookups.run_statement("SELECT 1 AS one", [])).rows == [("1",)]

    run(check())


def test_no_connection_free(database: Database) -> None:
    """The bound holds; whoever waits too long is told so."""

    async def check() -> None:
        pool = PostgresPool(database.url, size=1, statement_timeout_s=0.05)
        async with pool.connection():
            with pytest.raises(UpstreamError) as refused:
                async with pool.connection():
                    raise AssertionError
        assert (refused.value.code, refused.value.retryable) == ("overloaded", True)
        await pool.close()

    run(check())


def test_a_cancelled_lookup_gives_its_connection_back(database: Database) -> None:
    """The next one gets it, or a new one."""

    async def check() -> None:
        async with looking(database.url, size=1) as lookups:
            task = asyncio.ensure_future(lookups.run_statement("SELECT pg_sleep(60)::text AS s", []))
            async with asyncio.timeout(LIMIT_S):
                while database.query(SLEEPERS) == [(0,)]:
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                assert (await lookups.run_statement("SELECT 1 AS one", [])).rows == [("1",)]

    run(check())


def test_a_cancelled_query_ends_with_its_connection(database: Database, caplog: pytest.LogCaptureFixture) -> None:
    """Nothing is tried on it that would fail while the query runs."""

    async def check() -> None:
        async with looking(database.url, size=1) as lookups:
            task = asyncio.ensure_future(lookups.forward([("SELECT pg_sleep(60)::text AS s", [])]))
            async with asyncio.timeout(LIMIT_S):
                while database.query(SLEEPERS) == [(0,)]:
                    await asyncio.sleep(0)
                task.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await task
                while database.query(SLEEPERS) != [(0,)]:
                    await asyncio.sleep(0)
                assert (await lookups.forward([("SELECT '1' AS one", [])])).rows == [[("1",)]]

    run(check())
    assert not caplog.records


def test_broken_connections_are_replaced(database: Database) -> None:
    """Idle ones that the server closed are not lent; those in use fail with an error that says to try again."""

    async def check() -> None:
        async with looking(database.url) as lookups:
            await lookups.snapshot()
            database.execute(
                "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name = 'upquery'"
                " AND datname = current_database()"
            )
            await lookups.snapshot()
            with pytest.raises(UpstreamError) as refused:
                await lookups.run_statement("SELECT pg_terminate_backend(pg_backend_pid())::text AS t", [])
            assert (refused.value.code, refused.value.retryable) == ("unavailable", True)
            await lookups.snapshot()

    run(check())


def test_a_server_that_is_away_and_comes_back() -> None:
    """Unavailable, then available; nothing to set up again."""
    server = start_server()

    async def check() -> None:
        async with looking(server.url) as lookups:
            await lookups.snapshot()
            server.stop("immediate")
            with pytest.raises(UpstreamError) as refused:
                await lookups.snapshot()
            assert (refused.value.code, refused.value.retryable) == ("unavailable", True)
            server.start()
            await lookups.snapshot()

    try:
        run(check())
    finally:
        discard_server(server)


def test_a_push_that_is_not_allowed(database: Database) -> None:
    """Known afterwards, and no error."""
    database.execute(
        "DROP ROLE IF EXISTS guest",
        "CREATE ROLE guest LOGIN",
        "DO $$ BEGIN EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC',"
        " 'pg_logical_emit_message(bool,text,text' || CASE WHEN current_setting('server_version_num')::int >= 170000"
        " THEN ',bool)' ELSE ')' END); END $$",
    )

    async def check() -> None:
        async with looking(database.url.replace("postgres@", "guest@")) as lookups:
            assert not await lookups.push()
            assert lookups.can_push is False
        async with looking(database.url) as lookups:
            assert await lookups.push()

    run(check())


def test_a_push_does_not_wait_for_a_standby() -> None:
    """The push is not data: flushing it on this server is enough."""
    server = start_server({"synchronous_standby_names": "nobody"})

    async def check() -> None:
        async with looking(server.url) as lookups:
            assert await lookups.push()

    try:
        run(check())
    finally:
        discard_server(server)


def test_passwords_do_not_leak(database: Database) -> None:
    """Neither from a connection string that cannot be read nor from one that is refused."""

    async def refusal(url: str) -> str:
        async with looking(url) as lookups:
            with pytest.raises(UpstreamError) as refused:
                await lookups.snapshot()
        return str(refused.value)

    for url in ("postgresql://u:s3cret%zz@h/d", database.url.replace("postgres@", "unknown:s3cret@")):
        assert "s3cret" not in run(refusal(url))


def test_array_texts() -> None:
    """Array texts are those of PostgreSQL's array input."""
    assert array_text(["1", None, 'a"\\', "", "null"]) == '{1,NULL,"a\\"\\\\","","null"}'
    with pytest.raises(UpstreamError):
        array_text(["\0"])
