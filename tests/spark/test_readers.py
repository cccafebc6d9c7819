"""Processes that hold one snapshot of MariaDB, and what they answer Spark's tasks."""

import asyncio
import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, closing
from pathlib import Path
from threading import Event
from typing import Any

import pytest

pytest.importorskip("pyspark")

from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Chain
from dataflow.plan.parts import Lookup
from dataflow.scalar import ColumnRef
from dataflow.schema import Column, SqlType, Table
from dataflow.spark.build_job import read_job
from dataflow.spark.key_ranges import KeyRange, parts_of, ranged
from dataflow.spark.problems import SparkProblem
from dataflow.spark.readers import SnapshotServer
from dataflow.spark.snapshot_source import register
from dataflow.spark.upstreams import ReadersUpstream
from dataflow.types import LookupId, NodeId, Row
from service.engine.databases.mysql import named_snapshot
from service.engine.databases.mysql.exact_snapshot import TRIES
from service.engine.databases.mysql.named_snapshot import MySqlHolder
from service.engine.databases.mysql.upstream import MySqlUpstream
from service.engine.upstream.named_snapshot import NamedSnapshot
from tests.fixtures.binlogs import following
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.service import processes_of
from tests.fixtures.streams import run
from tests.integration.test_binlog_values import TYPES
from tests.service.engine.databases.mysql.test_bulk_reads import ROWS, assert_there, end_others, everything, fill, write
from tests.service.engine.databases.mysql.upstreams import opened
from tests.spark.building import build, built, document, rows_of

pytestmark = [pytest.mark.mariadb, pytest.mark.spark]

INT, BIGINT, TEXT = SqlType("int4", "int4"), SqlType("int8", "int8"), SqlType("text", "text")
ALTER = "ALTER TABLE a MODIFY n bigint NOT NULL, ALGORITHM = COPY"
#: Processes start, and so does Spark, on a machine that may be busy.
LIMIT_S = 300.0
COUNT = AggregateCall(AggregateFunction.COUNT_ROWS, None, BIGINT)


@asynccontextmanager
async def holding(
    upstream: MySqlUpstream, url: str, folder: Path, readers: int = 3, tables: Sequence[str] = ()
) -> AsyncIterator[NamedSnapshot]:
    """A snapshot that so many processes hold."""
    async with MySqlHolder(upstream.pool, url, None, readers, 0).held(tables, folder) as held:
        yield held


def read(readers: SnapshotServer, relation: Chain | Aggregate, table: Table, part: Sequence[KeyRange]) -> list[Row]:
    """The rows of a part."""
    names = ["a", "b", "c"]
    return [
        row
        for asked in ranged(relation, table, part)
        for batch in readers.batches(asked, names)
        for row in rows_of(batch)
    ]


@pytest.mark.parametrize("tries", [TRIES, 0], ids=["between writers", "locked"])
def test_all_readers_see_one_place_of_the_log(
    mariadb: MariaDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tries: int
) -> None:
    """Under writers that never pause: parts that several have read, with the log from the place on, are what there is
    in the end. The path is longer than the address of a socket."""
    monkeypatch.setattr(named_snapshot, "TRIES", tries)
    folder = tmp_path / ("long" * 25)
    folder.mkdir()
    fill(mariadb)

    async def scenario() -> None:
        stop = Event()
        async with opened(mariadb.url) as upstream, following(mariadb, "a") as stream:
            lookup, catalog = await everything(upstream, f"{mariadb.name}.a")
            table = catalog.tables[f"{mariadb.name}.a"]
            with ThreadPoolExecutor(8) as pool:
                writers = [pool.submit(write, mariadb, stop) for _ in range(2)]
                try:
                    async with holding(upstream, mariadb.url, folder) as held:
                        readers = SnapshotServer(held.name)
                        parts = await asyncio.to_thread(parts_of, readers, table, 1 << 20, 5)
                        assert len(parts) == 5
                        reading = [pool.submit(read, readers, lookup.relation, table, part) for part in parts]
                        rows = [row for each in reading for row in await asyncio.wrap_future(each)]
                finally:
                    stop.set()
                for writer in writers:
                    await asyncio.to_thread(writer.result)
            assert held.snapshot.exact
            assert held.expired.is_set()
            await assert_there(mariadb, stream, held.snapshot, rows)

    run(scenario(), LIMIT_S)


def test_what_spark_builds_is_what_lookups_give(mariadb: MariaDatabase, tmp_path: Path, spark: Any) -> None:
    """Every type, in ranges of the key; groups of several ranges put together; a table that has no such key."""
    del spark
    kinds = [kind for kind in TYPES if "TEXT" not in kind.upper() or "compressed" not in kind]
    columns = ", ".join(f"`c {n}` {kind}" for n, kind in enumerate(kinds))
    mariadb.execute(
        f"CREATE TABLE `odd ``name` (id bigint PRIMARY KEY, g varchar(5), d decimal(9,2), {columns})",
        "CREATE TABLE keyless (g varchar(5) COLLATE utf8mb4_general_ci, n int)",
        "INSERT INTO keyless SELECT ELT(1 + seq % 3, 'a', 'A', 'a '), seq FROM seq_1_to_100",
        "CREATE TABLE empty (id int PRIMARY KEY, n int)",
    )
    with closing(mariadb.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        for n in range(60):
            values = ", ".join(TYPES[kind][n % len(TYPES[kind])] if n % 7 else "NULL" for kind in kinds)
            group = ("'a'", "'A'", "'a '", "'ä'", "NULL")[n % 5]
            cursor.execute(f"INSERT INTO `odd ``name` VALUES ({n * n - 40}, {group}, {n}.25, {values})")

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            odd, catalog = await everything(upstream, f"{mariadb.name}.`odd ``name`")
            keyless, _ = await everything(upstream, f"{mariadb.name}.keyless")
            empty, _ = await everything(upstream, f"{mariadb.name}.empty")
            chain = odd.relation
            assert isinstance(chain, Chain)
            of_groups = Chain(chain.table, None, chain.columns[:3])
            sums = [
                AggregateCall(AggregateFunction.SUM, ColumnRef(n, chain.columns[n].type), SqlType("numeric", "numeric"))
                for n in (0, 2)
            ]
            least = AggregateCall(AggregateFunction.MIN, ColumnRef(2, chain.columns[2].type), chain.columns[2].type)
            relations = [
                chain,
                keyless.relation,
                empty.relation,
                Aggregate(of_groups, (1,), (COUNT, *sums)),
                Aggregate(of_groups, (), (COUNT, *sums, least)),
                Aggregate(keyless.relation, (0,), (COUNT,)),
                Aggregate(empty.relation, (), (COUNT,)),
            ]
            expected = [
                Counter((await upstream.lookups.run(Lookup(LookupId(1), NodeId(1), one, (), ()), catalog)).rows)
                for one in relations
            ]
            async with holding(upstream, mariadb.url, tmp_path) as held:
                mariadb.execute("DELETE FROM `odd ``name`", "INSERT INTO empty VALUES (1, 1)")
                told = document(mariadb.url, held, tmp_path / "out", relations, catalog.tables, partitions=4)
                told["upstream"] = {"kind": "readers"}
                # In this thread, which has the session; readers do not need the loop.
                manifest = build(told)
        for n, rows in enumerate(expected):
            assert built(tmp_path / "out", manifest, f"r{n}") == rows, n
        assert len(manifest.relations["r0"].files) == 4
        assert (manifest.version, manifest.bound) == (held.version, held.bound)

    run(scenario(), LIMIT_S)


def test_a_table_as_a_frame(mariadb: MariaDatabase, tmp_path: Path, spark: Any) -> None:
    mariadb.execute(
        "CREATE TABLE items (id int PRIMARY KEY, name varchar(9), price decimal(9,2))",
        "INSERT INTO items SELECT seq, ELT(1 + seq % 3, NULL, 'a', 'A'), 1.5 FROM seq_1_to_3000",
    )
    register(spark)

    def count(held: NamedSnapshot) -> tuple[int, list[Any]]:
        options = {**ReadersUpstream(held.name).options(), "columns": json.dumps(["price", "name", "id"])}
        frame = spark.read.format("upquery").options(**options, table=f"{mariadb.name}.items", partitions="2").load()
        assert frame.columns == ["price", "name", "id"]
        return frame.where("name = 'a' or name is null").count(), frame.where("id in ('1', '2')").where(
            "name = 'a'"
        ).collect()

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream, holding(upstream, mariadb.url, tmp_path, 2) as held:
            mariadb.execute("DELETE FROM items WHERE id > 100")
            found, few = await asyncio.to_thread(count, held)
            assert found == 2000
            assert [tuple(row) for row in few] == [("1.50", "a", "1")]
            for name in (f"{mariadb.name}.nothing", "items", "", f"{mariadb.name}.items.id", "`items"):
                with pytest.raises(SparkProblem) as raised:
                    await asyncio.to_thread(SnapshotServer(held.name).table, name)
                assert raised.value.code == "upstream_changed", name

    run(scenario(), LIMIT_S)


def test_reserved_words_are_names(mariadb: MariaDatabase, tmp_path: Path) -> None:
    mariadb.execute(
        "CREATE DATABASE `group`",
        "CREATE TABLE `group`.`select` (id int PRIMARY KEY, `from` int)",
        "INSERT INTO `group`.`select` VALUES (1, 10), (2, 20), (3, 30)",
    )

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            async with upstream.session() as session:
                table = (await session.load_catalog(["group.select"])).tables["group.select"]
            chain = Chain(table.name, None, tuple(ColumnRef(i, column.type) for i, column in enumerate(table.columns)))
            async with holding(upstream, mariadb.url, tmp_path, 1, [table.name]) as held:
                for count in (1, 2):
                    parts = await asyncio.to_thread(parts_of, SnapshotServer(held.name), table, 1 << 20, count)
                    assert len(parts) == count
                    rows = [row for part in parts for row in await asyncio.to_thread(_pairs, held, chain, table, part)]
                    assert rows == [("1", "10"), ("2", "20"), ("3", "30")]

    try:
        run(scenario(), LIMIT_S)
    finally:
        mariadb.execute("DROP DATABASE `group`")


def _pairs(held: NamedSnapshot, chain: Chain, table: Table, part: Sequence[KeyRange]) -> list[Row]:
    readers = SnapshotServer(held.name)
    asked = ranged(chain, table, part)
    return [row for sql in asked for batch in readers.batches(sql, ["id", "from"]) for row in rows_of(batch)]


def test_nobody_alters_a_table_while_it_is_read(
    mariadb: MariaDatabase, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A statement that needs a lock waits for the end, and questions do not wait behind it."""
    monkeypatch.setattr(named_snapshot, "locked", None)
    fill(mariadb)

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            lookup, catalog = await everything(upstream, f"{mariadb.name}.a")
            table = catalog.tables[f"{mariadb.name}.a"]
            async with holding(upstream, mariadb.url, tmp_path, tables=[table.name]) as held:
                altering = asyncio.ensure_future(asyncio.to_thread(mariadb.execute, ALTER))
                while not mariadb.query(
                    "SELECT 1 FROM information_schema.processlist WHERE state LIKE '%metadata lock%'"
                ):
                    await asyncio.sleep(0.01)
                for _ in range(5):
                    part = parts_of(SnapshotServer(held.name), table, 1 << 20, 2)[0]
                    assert await asyncio.to_thread(read, SnapshotServer(held.name), lookup.relation, table, part)
                assert not altering.done()
            await altering

    run(scenario(), LIMIT_S)


def test_who_goes_away_leaves_the_snapshot_as_it_was(mariadb: MariaDatabase, tmp_path: Path) -> None:
    fill(mariadb)
    mariadb.execute("UPDATE a SET body = REPEAT('x', 4000)")

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            lookup, catalog = await everything(upstream, f"{mariadb.name}.a")
            table = catalog.tables[f"{mariadb.name}.a"]
            async with holding(upstream, mariadb.url, tmp_path, 1) as held:
                mariadb.execute("DELETE FROM a")
                (asked,) = ranged(lookup.relation, table, [KeyRange("id")])
                for _ in range(3):
                    answer = SnapshotServer(held.name).batches(asked, ["a", "b", "c"])
                    assert next(answer).num_rows
                    answer.close()
                rows = await asyncio.to_thread(
                    read, SnapshotServer(held.name), lookup.relation, table, [KeyRange("id")]
                )
                assert len(rows) == ROWS

    run(scenario(), LIMIT_S)


def test_what_the_server_is_at_ends_with_the_snapshot(mariadb: MariaDatabase, tmp_path: Path) -> None:
    sleeping = "SELECT 1 FROM information_schema.processlist WHERE info LIKE 'SELECT SLEEP%'"

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            async with holding(upstream, mariadb.url, tmp_path, 2) as held:
                question = json.dumps({"sql": "SELECT SLEEP(1000)", "types": ["int4"]})
                asking = asyncio.ensure_future(
                    asyncio.to_thread(list, SnapshotServer(held.name).batches(question, ["a"]))
                )
                while not mariadb.query(sleeping):
                    await asyncio.sleep(0.01)
            assert not mariadb.query(sleeping)
            with pytest.raises(SparkProblem):
                await asking
            assert not _readers()

    run(scenario(), LIMIT_S)


def test_what_ends_a_snapshot_is_said(mariadb: MariaDatabase, tmp_path: Path) -> None:
    """A connection, a process, or a table."""
    fill(mariadb)

    async def lost(held: NamedSnapshot, asked: str) -> None:
        with pytest.raises(SparkProblem) as raised:
            await asyncio.to_thread(list, SnapshotServer(held.name).batches(asked, ["a", "b", "c"]))
        assert (raised.value.code, raised.value.retryable) == ("snapshot_lost", True)
        assert "SELECT" not in str(raised.value)

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            lookup, catalog = await everything(upstream, f"{mariadb.name}.a")
            (asked,) = ranged(lookup.relation, catalog.tables[f"{mariadb.name}.a"], [KeyRange("id")])
            ends: list[Callable[[], None]] = [lambda: end_others(mariadb), _kill_one]
            for n, end in enumerate(ends):
                folder = tmp_path / str(n)
                folder.mkdir()
                async with holding(upstream, mariadb.url, folder) as held:
                    SnapshotServer(held.name).require(held.version)
                    with pytest.raises(SparkProblem, match="version"):
                        SnapshotServer(held.name).require("another")
                    await asyncio.to_thread(end)
                    await held.expired.wait()
                    await lost(held, asked)
            await lost(held, asked)
            # Not among the tables that were asked for, so that nobody waits to alter it.
            async with holding(upstream, mariadb.url, tmp_path) as held:
                mariadb.execute(ALTER)
                await lost(held, asked)
                assert not held.expired.is_set()

    run(scenario(), LIMIT_S)


def _kill_one() -> None:
    os.kill(_readers()[0], signal.SIGKILL)


def _readers() -> list[int]:
    return [p for p in processes_of(os.getpid()) if b"mysql.snapshot_reader" in Path(f"/proc/{p}/cmdline").read_bytes()]


def test_what_the_server_refuses_is_said_without_its_statement(mariadb: MariaDatabase, tmp_path: Path) -> None:
    fill(mariadb)
    name = f"{mariadb.name}.a"

    async def scenario() -> None:
        async with opened(mariadb.url) as upstream, holding(upstream, mariadb.url, tmp_path, 1) as held:
            for sql, code in (
                (f"SELECT nothing FROM {name}", "upstream_changed"),
                # Columns that were not announced: a fault of ours, and the next question is answered.
                (f"SELECT id, n FROM {name}", "failed"),
                ("SELECT secret FROM FROM", "upstream_failed"),
            ):
                with pytest.raises(SparkProblem) as raised:
                    await asyncio.to_thread(
                        list, SnapshotServer(held.name).batches(json.dumps({"sql": sql, "types": ["int4"]}), ["a"])
                    )
                assert raised.value.code == code
                assert "secret" not in str(raised.value)
            assert await asyncio.to_thread(SnapshotServer(held.name).bounds, name, "id") == (0, ROWS - 1)

    run(scenario(), LIMIT_S)


def test_an_upstream_that_cannot_be_reached(mariadb: MariaDatabase, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with opened(mariadb.url) as upstream:
            with pytest.raises(Exception, match=r"(?i)denied|password") as raised:
                async with holding(upstream, mariadb.url.replace("root@", "nobody:secret-word@"), tmp_path):
                    pass
            assert "secret-word" not in str(raised.value)
            assert not _readers()

    run(scenario(), LIMIT_S)


@pytest.mark.parametrize(
    ("keys", "kind", "parts"),
    [
        ((), INT, 1),
        (((1,),), INT, 1),
        (((0,),), INT, 4),
        (((0, 1),), SqlType("uint8", "bigint unsigned"), 4),
        # 50 is 2050.
        (((0,),), SqlType("int2", "year"), 1),
    ],
)
def test_how_a_table_is_cut(keys: tuple[tuple[int, ...], ...], kind: SqlType, parts: int) -> None:
    class Told(SnapshotServer):
        def bounds(self, table: str, column: str) -> tuple[int, int]:
            assert (table, column) == ("d.t", "`i d`")
            return -5, 2**64 - 1

    table = Table("d.t", (Column("i d", kind), Column("t", TEXT)), keys)
    found = parts_of(Told(""), table, 1, 4)
    assert len(found) == parts
    if parts > 1:
        ranges = [of for (of,) in found]
        assert (ranges[0].first, ranges[-1].end) == (None, None)
        assert [of.end for of in ranges[:-1]] == [of.first for of in ranges[1:]]
        assert ranges[1].source(table).startswith("(SELECT s.`i d`, s.`t` FROM `d`.t s WHERE s.`i d` >= ")


def test_a_job_of_another_database_is_refused() -> None:
    job = {
        "fingerprint": "f",
        "out": "/nowhere",
        "upstream": {"kind": "oracle"},
        "snapshot": {"name": "n", "version": "v", "bound": 1},
        "relations": [],
    }
    with pytest.raises(SparkProblem) as raised:
        read_job(json.dumps(job))
    assert raised.value.code == "unsupported"
