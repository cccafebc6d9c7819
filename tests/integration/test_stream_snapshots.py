"""Snapshots against the stream: nothing twice, nothing missing, whatever the writers do."""

import asyncio
import random
from collections import Counter
from collections.abc import Callable

import psycopg
import pytest

from cdc.change import CommittedTransaction
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import LookupRows
from tests.fixtures.postgres import Database, discard_server, start_server
from tests.fixtures.streams import LIMIT_S, Stream, run, streaming

pytestmark = pytest.mark.postgres

ACCOUNTS = (
    "CREATE TABLE accounts (id int4 PRIMARY KEY, owner int4, balance int8)",
    "ALTER TABLE accounts REPLICA IDENTITY FULL",
    "INSERT INTO accounts SELECT i, i % 5, 100 FROM generate_series(1, 40) i",
)
TABLE = "public.accounts"
ROWS = "SELECT id, owner, balance FROM public.accounts"


async def _write(url: str, seed: int, transactions: int) -> None:
    """Transactions of several statements: inserts, moves, deletes, savepoints, rollbacks, commits of both kinds."""
    choose = random.Random(seed)
    async with await psycopg.AsyncConnection.connect(url) as connection:
        for n in range(transactions):
            await connection.execute(f"SET LOCAL synchronous_commit = {choose.choice(['on', 'off'])}".encode())
            for step in range(choose.randint(1, 4)):
                saved = choose.random() < 0.3
                if saved:
                    await connection.execute(f"SAVEPOINT s{step}".encode())
                row = choose.randint(1, 60)
                statement = choose.choice(
                    [
                        "UPDATE accounts SET balance = balance + 1 WHERE id = %s",
                        "UPDATE accounts SET owner = (owner + 1) %% 5 WHERE id = %s",
                        "DELETE FROM accounts WHERE id = %s",
                        "INSERT INTO accounts VALUES (%s, 0, 0) ON CONFLICT DO NOTHING",
                    ]
                )
                try:
                    await connection.execute(statement.encode(), [row])
                except psycopg.errors.DeadlockDetected:
                    await connection.rollback()
                    break
                if saved and choose.random() < 0.5:
                    await connection.execute(f"ROLLBACK TO s{step}".encode())
            if choose.random() < 0.15:
                await connection.rollback()
            else:
                await connection.commit()
            if n % 10 == 0:
                await asyncio.sleep(0)


def _redo(found: LookupRows, transactions: list[CommittedTransaction]) -> Counter[tuple[str | None, ...]]:
    """The lookup's rows and what it did not see."""
    rows = Counter(found.rows)
    for transaction in transactions:
        if not found.snapshot.sees(transaction.id, transaction.end):
            change = transaction.tables[TABLE]
            rows.update(change.added)
            rows.subtract(change.removed)
    return rows


def test_splice(database: Database) -> None:
    """Any lookup's rows, and the transactions that its snapshot does not see, are the table's rows in the end."""
    database.execute(*ACCOUNTS)

    async def check() -> None:
        async with streaming(database, TABLE) as stream:
            writers = [asyncio.ensure_future(_write(database.url, seed, 150)) for seed in range(6)]
            found: list[LookupRows] = []

            async def read_stream() -> None:
                while True:
                    await stream.next()

            reader = asyncio.ensure_future(read_stream())
            while not all(writer.done() for writer in writers):
                found.append(await stream.lookups.run_statement(ROWS, []))
            await asyncio.gather(*writers)
            reader.cancel()
            await asyncio.gather(reader, return_exceptions=True)
            await stream.catch_up()
            last = await stream.lookups.run_statement(ROWS, [])

            assert len(found) > 20
            for lookup in found:
                rows = _redo(lookup, stream.transactions)
                assert min(rows.values()) >= 0
                assert +rows == Counter(last.rows)
                seen = [t for t in stream.transactions if lookup.snapshot.sees(t.id, t.end)]
                assert all(t.end <= lookup.bound for t in seen)
            assert stream.started is not None
            assert not any(stream.started.snapshot.sees(t.id, t.end) for t in stream.transactions)
            assert found[-1].snapshot.covers(stream.started.snapshot)
            assert found[-1].snapshot.covers(found[0].snapshot)

    run(check())


def test_finished_waits_for_open_transactions(database: Database, connect: Callable[..., psycopg.Connection]) -> None:
    """`finished` is about every transaction that was open then, also those that had not written yet."""
    database.execute(*ACCOUNTS)

    async def check() -> None:
        async with streaming(database) as stream:
            writer = connect(autocommit=False)
            writer.execute("UPDATE accounts SET balance = 0 WHERE id = 1")
            before = (await stream.lookups.snapshot()).snapshot
            database.execute("UPDATE accounts SET balance = 0 WHERE id = 2")
            during = (await stream.lookups.snapshot()).snapshot
            assert not during.finished(before)
            assert during.covers(before)
            assert not before.covers(during)
            writer.commit()
            after = (await stream.lookups.snapshot()).snapshot
            assert after.finished(before)
            assert after.finished(during)
            assert after.covers(during)

    run(check())


def test_a_table_joins_while_transactions_are_open(
    database: Database, connect: Callable[..., psycopg.Connection]
) -> None:
    """A transaction that was open when its table joined may come in part; `finished` keeps lookups from relying on it.

    The first half of the open transaction is lost to the stream. Lookups of the table install only once
    `finished` says that such a transaction has ended: then their snapshot sees all of it, and none of it is redone.
    """
    database.execute(*ACCOUNTS)

    async def check() -> None:
        async with streaming(database) as stream:
            writer = connect(autocommit=False)
            writer.execute("UPDATE accounts SET balance = 1 WHERE id = 1")
            await stream.follow([TABLE])
            joined = (await stream.lookups.snapshot()).snapshot
            writer.execute("UPDATE accounts SET balance = 2 WHERE id = 2")
            early = await stream.lookups.run_statement(ROWS, [])
            assert not early.snapshot.finished(joined)
            writer.commit()
            (partial,) = await stream.catch_up()
            assert partial.tables[TABLE].added == [("2", "2", "2")]

            late = await stream.lookups.run_statement(ROWS, [])
            assert late.snapshot.finished(joined)
            assert late.snapshot.sees(partial.id, partial.end)
            assert _redo(late, stream.transactions) == Counter(late.rows)
            # What `finished` protects from: the early rows and the transaction in part are not the table.
            assert +_redo(early, stream.transactions) != Counter(late.rows)

    run(check())


async def _until(database: Database, query: str) -> None:
    """Until the query counts one."""
    async with asyncio.timeout(LIMIT_S):
        while database.query(query) != [(1,)]:
            await asyncio.sleep(0)


async def _slot_waits_for(database: Database, writer: psycopg.Connection) -> None:
    """Until the slot's creation waits for that writer's transaction to end."""
    pid = writer.info.backend_pid
    await _until(
        database,
        "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'CREATE_REPLICATION_SLOT%'"
        f" AND {pid} = ANY(pg_blocking_pids(pid))",
    )


def test_start_while_a_commit_waits_for_a_standby() -> None:
    """A commit that waits for a synchronous standby may be in the slot's snapshot and in no lookup's yet.

    It is then in neither the stream nor an early lookup: `covers` is what says so. To get a commit between the slot's
    two looks at the running transactions, the slot is made to wait for others first.
    """
    server = start_server({"synchronous_standby_names": "nobody"})
    database = Database("postgres", server.url, server)

    async def check() -> None:
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("SET synchronous_commit = local")
            for statement in ACCOUNTS:
                connection.execute(statement.encode())
            connection.execute("CREATE PUBLICATION upquery FOR TABLE accounts")
        pool = PostgresPool(server.url)
        stream = Stream(database, pool)
        await stream.follow([TABLE])
        with psycopg.connect(server.url) as first, psycopg.connect(server.url) as second:
            first.execute("SELECT pg_current_xact_id()")
            start = asyncio.ensure_future(stream.source.start())
            await _slot_waits_for(database, first)
            second.execute("SELECT pg_current_xact_id()")
            first.rollback()
            await _slot_waits_for(database, second)
            waiting = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
            commit = asyncio.ensure_future(waiting.execute("UPDATE accounts SET balance = 7 WHERE id = 7"))
            await _until(database, "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep'")
            second.rollback()
            started = await start

        early = await stream.lookups.run_statement(f"{ROWS} WHERE id = 7", [])
        assert early.rows == [("7", "2", "100")]
        assert not early.snapshot.covers(started.snapshot)
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
            connection.execute("SELECT pg_reload_conf()")
        await commit
        await waiting.close()
        late = await stream.lookups.run_statement(f"{ROWS} WHERE id = 7", [])
        assert late.rows == [("7", "2", "7")]
        assert late.snapshot.covers(started.snapshot)
        stream.position = started.position
        assert await stream.catch_up() == []
        await stream.source.close()
        await pool.close()

    try:
        run(check())
    finally:
        discard_server(server)
