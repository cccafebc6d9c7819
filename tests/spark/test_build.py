"""Builds: what Spark writes is what lookups give, of one snapshot, and an interrupted build goes on."""

import json
import random
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import psycopg
import pytest

from dataflow.plan.nodes import Aggregate, AggregateCall, AggregateFunction, Chain
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import Column, SqlType, Table
from tests.dataflow.ops.test_aggregates_against_server import CASES, CHAIN, TABLE, Rows, create, insert
from tests.fixtures.postgres import Database
from tests.fixtures.streams import LIMIT_S
from tests.spark.building import build, built, document, looked_up

pytest.importorskip("pyspark")

from dataflow.spark.problems import SparkProblem
from dataflow.spark.snapshot_holder import SnapshotHolder, holding

pytestmark = [pytest.mark.postgres, pytest.mark.spark, pytest.mark.usefixtures("spark")]

INT, BIGINT, TEXT, BOOL = (
    SqlType("int4", "int4"),
    SqlType("int8", "int8"),
    SqlType("text", "text"),
    SqlType("bool", "bool"),
)
NOTES = Table("public.notes", (Column("id", INT), Column("note", TEXT), Column("done", BOOL)))
NOTE = Chain(NOTES.name, None, (ColumnRef(1, TEXT), ColumnRef(2, BOOL)))
ROWS = AggregateCall(AggregateFunction.COUNT_ROWS, None, BIGINT)
#: How long Java may take to start on a busy machine.
START_S = 300.0
#: Where CSV, COPY or Arrow could trip.
AWKWARD = [
    "",
    " ",
    "\\.",
    "\\N",
    "NULL",
    "null",
    '"',
    '""',
    "'",
    ",",
    ";",
    "\n",
    "\r\n",
    "\r",
    "a\r",
    "\n\n",
    "\\",
    "\\\\n",
    'a"b,c\nd',
    "\t",
    "\x01\x7f",
    "ä€😀",
    "\ufeff",
    "\u2028",
    "e\u0301",
    "x" * 100_000,
    "  a  ",
    "1",
    "1.0",
    "#",
]


def notes(database: Database) -> None:
    """A table of awkward texts in several pages."""
    database.execute(
        "CREATE TABLE notes (id int4, note text, done bool) WITH (fillfactor = 10)",
        "ALTER TABLE notes REPLICA IDENTITY FULL",
    )
    with psycopg.connect(database.url) as connection, connection.cursor() as cursor:
        for n, text in enumerate([*AWKWARD, None] * 8):
            cursor.execute("INSERT INTO notes VALUES (%s, %s, %s)", (n, text, None if n % 3 == 0 else n % 3 == 1))


def test_awkward_values_are_those_of_a_lookup(database: Database, connect, tmp_path: Path) -> None:
    connection = connect()
    create(connection)
    insert(connection, Rows(random.Random(1)).make(200))
    notes(database)
    tables = {TABLE.name: TABLE, NOTES.name: NOTES}
    calls = [case.call for case in CASES]
    kept = Call("is not null", (ColumnRef(1, TEXT),), BOOL)
    relations = [
        CHAIN,
        NOTE,
        # One column: its NULLs are empty lines.
        Chain(NOTES.name, None, (ColumnRef(1, TEXT),)),
        Chain(NOTES.name, kept, (ColumnRef(0, INT), Literal("é\\'\"", TEXT))),
        # Counts, sums of whole numbers and of decimals by scale, truths; then values; a list.
        Aggregate(CHAIN, (1,), (*calls[:6], calls[11], calls[12])),
        Aggregate(CHAIN, (1, 10), (calls[19], calls[20])),
        Aggregate(NOTE, (0,), (ROWS,)),
        Aggregate(NOTE, (), (ROWS,)),
    ]
    expected = looked_up(database, relations, tables)
    with holding(database.url, None, list(tables)) as held:
        manifest = build(document(database.url, held, tmp_path, relations, tables, partitions=3))
    for n, rows in enumerate(expected):
        found = built(tmp_path, manifest, f"r{n}")
        assert found == rows, n
    assert len(manifest.relations["r0"].files) == 3


def test_leaves_empty_tables_and_odd_names(database: Database, tmp_path: Path) -> None:
    database.execute(
        'CREATE SCHEMA "My Schema"',
        'CREATE TABLE "My Schema"."Odd ""Table" ("A b" int4, "select" text) PARTITION BY LIST ("A b")',
        'CREATE TABLE "My Schema"."Leaf 1" ("select" text, "A b" int4)',
        'ALTER TABLE "My Schema"."Odd ""Table" ATTACH PARTITION "My Schema"."Leaf 1" FOR VALUES IN (1)',
        'CREATE TABLE public.leaf2 PARTITION OF "My Schema"."Odd ""Table" DEFAULT',
        'INSERT INTO "My Schema"."Odd ""Table" SELECT n % 3, n FROM generate_series(1, 5000) n',
        "CREATE TABLE public.bare (id int4) PARTITION BY RANGE (id)",
        "CREATE TABLE public.none (id int4)",
        "CREATE TABLE public.parent (id int4)",
        "CREATE TABLE public.child (more text) INHERITS (public.parent)",
        "INSERT INTO public.parent VALUES (1)",
        "INSERT INTO public.child VALUES (2, 'x')",
    )
    odd = Table('"My Schema"."Odd ""Table"', (Column("A b", INT), Column("select", TEXT)))
    whole = Chain(odd.name, None, (ColumnRef(1, TEXT), ColumnRef(0, INT)))
    ids = [Table(f"public.{name}", (Column("id", INT),)) for name in ("bare", "none", "parent")]
    chains = [Chain(table.name, None, (ColumnRef(0, INT),)) for table in ids]
    relations = [whole, Aggregate(whole, (1,), (ROWS,)), *chains, *(Aggregate(c, (), (ROWS,)) for c in chains)]
    tables = {table.name: table for table in (odd, *ids)}
    expected = looked_up(database, relations, tables)
    with holding(database.url, None, list(tables)) as held:
        manifest = build(document(database.url, held, tmp_path, relations, tables, partitions=4))
    for n, rows in enumerate(expected):
        assert built(tmp_path, manifest, f"r{n}") == rows, n


def test_one_snapshot_however_much_is_written(database: Database, tmp_path: Path) -> None:
    notes(database)
    tables = {NOTES.name: NOTES}
    relations = [NOTE, Aggregate(NOTE, (1,), (ROWS,))]
    with psycopg.connect(database.url) as writing:
        # Open while the snapshot is taken, committed afterwards.
        writing.execute("DELETE FROM notes WHERE id < 50")
        expected = looked_up(database, relations, tables)
        with holding(database.url, None, list(tables)) as held:
            writing.execute("INSERT INTO notes SELECT n, 'later', true FROM generate_series(1, 3000) n")
            writing.commit()
            database.execute("UPDATE notes SET note = 'changed'", "VACUUM notes")
            manifest = build(document(database.url, held, tmp_path, relations, tables, partitions=3))
    assert [built(tmp_path, manifest, name) for name in ("r0", "r1")] == expected
    assert (manifest.version, manifest.bound) == (held.version, held.bound)


def test_a_snapshot_that_is_gone(database: Database, tmp_path: Path) -> None:
    notes(database)
    tables = {NOTES.name: NOTES}
    holder = SnapshotHolder(database.url, None, list(tables))
    holder.check()
    told = document(database.url, holder.snapshot, tmp_path, [NOTE], tables)
    other = {**told, "snapshot": {**told["snapshot"], "version": "1:1:"}}
    with pytest.raises(SparkProblem) as found:
        build(other)
    assert found.value.code == "snapshot_lost"
    database.query(
        "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE backend_xmin IS NOT NULL"
        " AND application_name = 'upquery-spark'"
    )
    with pytest.raises(SparkProblem) as found:
        build(told)
    assert (found.value.code, found.value.retryable) == ("snapshot_lost", True)
    with pytest.raises(SparkProblem, match="gone"):
        holder.check()
    holder.close()


def test_what_tasks_run_into(database: Database, tmp_path: Path) -> None:
    """Users see the upstream's words of a task's error, and no SQL."""
    notes(database)
    tables = {NOTES.name: NOTES}
    fails = Chain(NOTES.name, None, (Call("cast", (ColumnRef(1, TEXT),), INT),))
    count = Aggregate(fails, (0,), (ROWS,))
    for relation in (fails, count):
        with holding(database.url, None, list(tables)) as held, pytest.raises(SparkProblem) as found:
            build(document(database.url, held, tmp_path, [relation], tables, partitions=3))
        assert found.value.code == "upstream_failed"
        assert "invalid input syntax" in found.value.detail
        assert "SELECT" not in str(found.value)


def test_a_stopped_build_goes_on_where_it_was(database: Database, connect, tmp_path: Path) -> None:
    """In a process of its own, as the service runs it. Finished parts stay, and are cut as they were."""
    notes(database)
    tables = {NOTES.name: NOTES}
    waits = Call("is not null", (Call("pg_advisory_xact_lock_shared", (Literal("7", BIGINT),), TEXT),), BOOL)
    relations = [NOTE, Chain(NOTES.name, waits, (ColumnRef(0, INT),))]
    expected = looked_up(database, relations, tables)
    lock = connect()
    lock.execute("SELECT pg_advisory_lock(7)")
    with holding(database.url, None, list(tables)) as held:
        told = document(database.url, held, tmp_path, relations, tables, partitions=1)
        said = _stopped(told, lambda line: line["tasks_done"] == 1)
        assert said[0]["phase"] == "starting"
        assert said[-2]["tasks"] == 2
        assert said[-2]["rows"] == expected[0].total()
        assert said[-2]["jvm_mib"] > 50
        assert said[-1]["error"] == "stopped"
        (part,) = tmp_path.glob("r0/*.parquet")
        assert not list(tmp_path.glob("r1/*.parquet"))
        assert not (tmp_path / "manifest.json").exists()
        before = part.stat().st_mtime_ns
        lock.execute("SELECT pg_advisory_unlock(7)")
        manifest = build({**told, "partitions": 5, "finished": ["r0/part-00000.parquet"]})
    assert [built(tmp_path, manifest, name) for name in ("r0", "r1")] == expected
    assert part.stat().st_mtime_ns == before


def _never(_line: dict[str, Any]) -> bool:
    return False


def _stopped(told: dict[str, Any], when: Any) -> list[dict[str, Any]]:
    """Return the messages of a job that is stopped after a certain one."""
    process = subprocess.Popen(
        [sys.executable, "-m", "dataflow.spark.build"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    assert process.stdin is not None
    assert process.stdout is not None
    said = []
    # A job that never gets there must not keep the test.
    limit = threading.Timer(START_S, process.kill)
    limit.start()
    try:
        process.stdin.write(json.dumps(told) + "\n")
        process.stdin.flush()
        for line in process.stdout:
            said.append(json.loads(line))
            if "phase" in said[-1] and when(said[-1]):
                process.terminate()
                when = _never
        assert process.wait(LIMIT_S) == 1
    finally:
        limit.cancel()
        process.kill()
        process.wait()
    return said
