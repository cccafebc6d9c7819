"""A load that is built: the snapshot that is held, the job as a process, the rows of its files, and all that can fail.

The job is one that writes its files in no time; Spark's own is in `tests/spark`, and both together in
`tests/integration/test_builds.py`.
"""

import asyncio
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import uvloop

from dataflow.plan.nodes import Aggregate, Chain
from dataflow.plan.parts import Lookup
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog
from dataflow.spark.problems import RequirementMissing
from dataflow.types import LookupId, NodeId, Row
from service.command.diagnosis import examine
from service.engine.builds import build as builds
from service.engine.builds import requirements, spark_way
from service.engine.builds.job import JobProcess
from service.engine.builds.spark_way import SparkWay
from service.engine.databases.postgres.catalog import load_catalog
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.named_snapshot import PostgresHolder, held_snapshot
from service.engine.initial_load.way import Progress
from service.engine.upstream.named_snapshot import NamedSnapshot
from service.engine.upstream.results import UpstreamError
from service.settings.spark import SparkSettings
from service.settings.stack import Settings
from tests.fixtures.postgres import Database
from tests.fixtures.service import alive

JOB = Path(__file__).with_name("build_job.py")
LIMIT_S = 180.0
ROWS = 4999
TABLES = (
    "CREATE TABLE stories (id int PRIMARY KEY, title text)",
    f"INSERT INTO stories SELECT n, nullif('story ' || n, 'story 7') FROM generate_series(1, {ROWS}) n",
    "CREATE TABLE authors (id int PRIMARY KEY)",
    "INSERT INTO authors SELECT * FROM generate_series(1, 3)",
)

pytestmark = pytest.mark.postgres


def run(check: Any) -> None:
    """On the loop that the engine's process has."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(asyncio.wait_for(check, LIMIT_S))


async def until(condition: Callable[[], Any]) -> Any:
    while not (value := condition()):
        await asyncio.sleep(0.01)
    return value


class Setting:
    """A way over a database, and the job's acts."""

    def __init__(self, database: Database, folder: Path, *acts: str, rows: int = 1000, **settings: Any) -> None:
        self.database = database
        self.folder = folder
        self.acts = folder / "acts"
        self.acts.mkdir()
        self.told: list[Progress] = []
        self.pool = PostgresPool(database.url)
        self.way = SparkWay(
            SparkSettings(threshold_rows=rows, **settings),
            PostgresHolder(self.pool, database.url, None),
            folder,
            (str(JOB), str(self.acts), *acts),
        )
        self.catalog = Catalog()
        self.lookups: list[Lookup] = []

    async def __aenter__(self) -> "Setting":
        async with self.pool.connection() as connection:
            self.catalog = await load_catalog(connection)
        for n, name in enumerate(("public.stories", "public.authors")):
            table = self.catalog.tables[name]
            columns = tuple(ColumnRef(i, column.type) for i, column in enumerate(table.columns))
            self.lookups.append(Lookup(LookupId(n), NodeId(n), Chain(name, None, columns), (), ((),)))
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.pool.close()
        self.way.close()

    async def rows(self) -> dict[int, list[Row]]:
        """Everything of all lookups."""
        async with self.way.open(self.lookups, self.catalog, self.told.append) as opened:
            found: dict[int, list[Row]] = {}
            for lookup in self.lookups:
                batches = [batch async for batch in opened.batches(lookup)]
                assert all(0 < len(batch) <= 2000 for batch in batches)
                found[lookup.id] = [row for batch in batches for row in batch]
            return found

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Return the input of each job."""
        return [json.loads(path.read_text()) for path in sorted(self.acts.glob("run-*"))]

    def is_clean(self) -> bool:
        """Return whether nothing is on disk but the lock."""
        return all(path.name == "lock" for path in (self.folder / "builds").glob("*/*"))


def expected(database: Database) -> dict[int, list[Row]]:
    return {
        0: sorted(database.query("SELECT id::text, title FROM stories"), key=repr),
        1: sorted(database.query("SELECT id::text FROM authors"), key=repr),
    }


def in_order(found: dict[int, list[Row]]) -> dict[int, list[Row]]:
    return {lookup: sorted(rows, key=repr) for lookup, rows in found.items()}


def test_all_rows_are_those_of_the_snapshot(database: Database, tmp_path: Path) -> None:
    database.execute(*TABLES)
    before = expected(database)

    async def check() -> None:
        async with Setting(database, tmp_path, "rows") as setting:
            lookups, catalog = setting.lookups, setting.catalog
            async with setting.way.open(lookups, catalog, setting.told.append) as opened:
                # After the snapshot, whenever the job reads.
                database.execute("DELETE FROM stories WHERE id < 100", "INSERT INTO authors VALUES (4)")
                assert opened.snapshot.exact
                found = {k.id: [row async for batch in opened.batches(k) for row in batch] for k in lookups}
                assert opened.bound > 0
            assert in_order(found) == before
            (told,) = setting.runs
            assert told["nice"] >= 10
            assert told["job"]["spark"]["conf"]["spark.driver.memory"] == "1024m"
            assert any("Spark: done" in progress.text for progress in setting.told)
            assert setting.is_clean()
            assert not open_transactions(setting)

    run(check())


def open_transactions(setting: Setting) -> list[tuple[Any, ...]]:
    """Return the holders' transactions."""
    return setting.database.query(
        "SELECT pid FROM pg_stat_activity WHERE application_name = 'upquery' AND state = 'idle in transaction'"
        " AND datname = current_database()"
    )


def test_the_snapshot_is_let_go_once_the_files_are_there(database: Database, tmp_path: Path) -> None:
    database.execute(*TABLES)

    async def check() -> None:
        async with (
            Setting(database, tmp_path, "rows") as setting,
            setting.way.open(setting.lookups, setting.catalog, setting.told.append) as opened,
        ):
            batches = opened.batches(setting.lookups[0])
            assert await anext(batches)
            await until(lambda: not open_transactions(setting))
            await batches.aclose()  # type: ignore[attr-defined]

    run(check())


def test_a_job_that_was_killed_goes_on_where_it_was(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builds, "_PAUSES_S", (0.0, 0.0, 0.0))
    database.execute(*TABLES)

    async def check() -> None:
        async with Setting(database, tmp_path, "die", "lost", "rows") as setting:
            assert in_order(await setting.rows()) == expected(database)
            first, second, third = setting.runs
            assert first["job"]["finished"] == []
            parts = ["r0/part-00000.parquet", "r0/part-00001.parquet", "r1/part-00000.parquet", "r1/part-00001.parquet"]
            assert second["job"]["finished"] == third["job"]["finished"] == parts
            assert first["job"]["snapshot"] == third["job"]["snapshot"]
            assert "attempt 3" in setting.told[-1].text

    run(check())


@pytest.mark.parametrize("acts", [("die",), ("changed",), ("disk_full",)])
def test_what_cannot_be_built_is_left_to_others(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, acts: Sequence[str]
) -> None:
    """Jobs that die every time, files that are not what was written, a problem that will not go away."""
    monkeypatch.setattr(builds, "_PAUSES_S", (0.0, 0.0, 0.0))
    database.execute(*TABLES)

    async def check() -> None:
        async with Setting(database, tmp_path, *acts) as setting:
            assert setting.way.takes(setting.lookups, setting.catalog, 1000)
            with pytest.raises(UpstreamError) as failed:
                await setting.rows()
            assert failed.value.retryable
            assert len(setting.runs) == (4 if acts == ("die",) else 1)
            assert not setting.way.takes(setting.lookups, setting.catalog, 1e9)
            assert setting.is_clean()
            monkeypatch.setattr(spark_way, "monotonic", lambda: 1e12)
            assert setting.way.takes(setting.lookups, setting.catalog, 1000)

    run(check())


def test_what_spark_does_not_compute_is_remembered(database: Database, tmp_path: Path) -> None:
    """Others are built all the same."""
    database.execute(*TABLES)

    async def check() -> None:
        async with Setting(database, tmp_path, "unsupported") as setting:
            stories, authors = setting.lookups
            setting.lookups = [stories]
            with pytest.raises(UpstreamError, match="about unsupported"):
                await setting.rows()
            assert not setting.way.takes([stories], setting.catalog, 1000)
            assert setting.way.takes([authors], setting.catalog, 1000)

    run(check())


def test_a_snapshot_that_has_expired_ends_the_build(database: Database, tmp_path: Path) -> None:
    """The next one has a snapshot of its own; again and again, it is a failure."""
    database.execute(*TABLES)

    async def check() -> None:
        async with Setting(database, tmp_path, "wait") as setting:
            for expired in range(1, 4):
                assert setting.way.takes(setting.lookups, setting.catalog, 1000)
                making = asyncio.ensure_future(setting.rows())
                await until(lambda n=expired: len(setting.runs) == n and setting.told)
                await until((setting.acts / "child").exists)
                database.query(
                    # Idle or not: the connection is tried now and then.
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE xact_start IS NOT NULL"
                    " AND datname = current_database() AND pid <> pg_backend_pid()"
                )
                with pytest.raises(UpstreamError, match="expired") as failed:
                    await making
                assert failed.value.retryable
                assert not any(alive(told["pid"]) for told in setting.runs)
                (setting.acts / "child").unlink()
            assert not setting.way.takes(setting.lookups, setting.catalog, 1000)

    run(check())


def test_a_build_that_nobody_wants_is_ended_with_all_that_it_started(database: Database, tmp_path: Path) -> None:
    database.execute(*TABLES)

    async def check() -> None:
        async with Setting(database, tmp_path, "wait") as setting:
            making = asyncio.ensure_future(setting.rows())
            await until((setting.acts / "child").exists)
            child = int((setting.acts / "child").read_text())
            assert alive(child)
            making.cancel()
            await asyncio.gather(making, return_exceptions=True)
            assert not alive(child)
            assert not alive(setting.runs[0]["pid"])
            assert setting.is_clean()
            assert not open_transactions(setting)

    run(check())


def test_a_job_ends_with_the_process_that_started_it(tmp_path: Path) -> None:
    """Also when that one is killed."""
    acts = tmp_path / "acts"
    acts.mkdir()
    starter = f"""
import asyncio
from pathlib import Path
from service.engine.builds.job import JobProcess
job = JobProcess(({str(JOB)!r}, {str(acts)!r}, "wait"), 0, Path({str(tmp_path)!r}))
asyncio.run(job.run({{"relations": []}}, lambda said: None))
"""

    async def check() -> None:
        root = str(Path(__file__).parents[4])
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", starter, env={**os.environ, "PYTHONPATH": root}
        )
        await until((acts / "child").exists)
        pid = json.loads((acts / "run-0").read_text())["pid"]
        assert alive(pid)
        process.kill()
        await process.wait()
        await until(lambda: not alive(pid))
        # This one's parent is no Java, which ends by itself.
        os.kill(int(await until((acts / "child").read_text)), 9)

    run(check())


def test_pipes_that_are_kept_open_by_others_hold_up_nobody(tmp_path: Path) -> None:
    """Processes that the job started may outlive it."""
    script = tmp_path / "job.py"
    script.write_text(
        "import subprocess, sys, os\n"
        "subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])\n"
        "print('no JSON')\nprint('[]')\nprint('x' * 200000)\n"
        'print(\'{"error": "mine", "detail": "why"}\', flush=True)\n'
        "print('a log line', file=sys.stderr, flush=True)\nos._exit(3)\n"
    )

    async def check() -> None:
        ended = await JobProcess((str(script),), 0, tmp_path).run({}, lambda _: None)
        assert (ended.problem, ended.detail, ended.retryable) == ("mine", "why", False)
        assert ended.log == ("a log line",)

    run(check())


def test_what_is_taken(database: Database, tmp_path: Path) -> None:
    database.execute(*TABLES)

    async def check() -> None:
        async with Setting(database, tmp_path, "rows", rows=5000) as setting:
            assert not setting.way.takes(setting.lookups, setting.catalog, 4999)
            assert setting.way.takes(setting.lookups, setting.catalog, 5000)
            columnless = Lookup(LookupId(9), NodeId(9), Chain("public.stories", None, ()), (), ((),))
            assert not setting.way.takes([*setting.lookups, columnless], setting.catalog, 5000)
            database.execute("ANALYZE stories")
            async with setting.pool.connection() as connection:
                analyzed = await load_catalog(connection)
            counted = Lookup(LookupId(9), NodeId(9), Aggregate(setting.lookups[0].relation, (), ()), (), ((),))
            assert not setting.way.takes([counted], analyzed, 1)
            setting.way = SparkWay(
                SparkSettings(threshold_rows=ROWS), PostgresHolder(setting.pool, "", None), tmp_path, ("-",)
            )
            assert setting.way.takes([counted], analyzed, 1)

    run(check())


@pytest.mark.parametrize(("code", "again"), [("unavailable", True), ("overloaded", False), ("failed", False)])
def test_without_a_snapshot_it_is_read_in_another_way(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: str, again: bool
) -> None:
    """Unless nothing can be read at all."""
    database.execute(*TABLES)

    @asynccontextmanager
    async def held(*_: object) -> AsyncIterator[NamedSnapshot]:
        raise UpstreamError(code, "Not now.", retryable=True)
        yield

    monkeypatch.setattr(PostgresHolder, "held", held)

    async def check() -> None:
        async with Setting(database, tmp_path, "rows") as setting:
            with pytest.raises(UpstreamError, match="Not now") as raised:
                await setting.rows()
            assert raised.value.retryable
            assert setting.way.takes(setting.lookups, setting.catalog, 5000) == again
            assert setting.is_clean()

    run(check())


def test_what_a_process_before_left_is_removed(database: Database, tmp_path: Path) -> None:
    left = tmp_path / "builds" / "upquery-run-before"
    left.mkdir(parents=True)
    (left / "lock").touch()
    (left / "build-1").mkdir()
    setting = Setting(database, tmp_path, "rows")
    assert not left.exists()
    setting.way.close()
    assert list((tmp_path / "builds").iterdir()) == []


def test_a_directory_that_cannot_be_used_is_said_and_nothing_is_taken(database: Database, tmp_path: Path) -> None:
    (tmp_path / "builds").write_text("a file")
    setting = Setting(database, tmp_path, "rows")
    assert not setting.way.takes([], Catalog(), 1e9)


def test_what_spark_needs_and_is_not_there_is_said(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the service starts, and by the doctor."""

    def check_packages() -> None:
        raise RequirementMissing("pyspark_missing", "pyspark is not installed.", "Install it.")

    monkeypatch.setattr(requirements, "check_packages", check_packages)
    way = SparkWay(SparkSettings(), PostgresHolder(PostgresPool(database.url), database.url, None), tmp_path)
    assert not way.takes([], Catalog(), 1e9)
    way.close()
    found = asyncio.run(examine(Settings.model_validate({"upstream": {"url": database.url}, "spark": {}})))
    (finding,) = [finding for finding in found.findings if finding.code == "spark"]
    assert (finding.reason, finding.fix, finding.fatal) == ("pyspark is not installed.", "Install it.", False)


def test_tables_stay_as_they_are_while_a_snapshot_is_held(database: Database) -> None:
    """A lock that is held already is waited for, and then it is too late for what had come in between."""
    database.execute(*TABLES)

    async def check() -> None:
        pool = PostgresPool(database.url)
        with psycopg.connect(database.url) as altering:
            altering.execute("TRUNCATE stories")
            async with asyncio.timeout(LIMIT_S):
                opening = asyncio.ensure_future(_held(pool, database))
                waiting = "SELECT 1 FROM pg_locks WHERE NOT granted"
                await until(lambda: database.query(waiting))
                altering.commit()
                assert await opening == 0
        await pool.close()

    run(check())


async def _held(pool: PostgresPool, database: Database) -> int:
    async with held_snapshot(pool, ["public.stories"]) as held:
        with psycopg.connect(database.url, autocommit=True) as reader, psycopg.connect(database.url) as altering:
            reader.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
            reader.execute(f"SET TRANSACTION SNAPSHOT '{held.name}'".encode())
            row = reader.execute("SELECT count(*) FROM stories").fetchone()
            with pytest.raises(psycopg.errors.LockNotAvailable):
                altering.execute("LOCK TABLE stories IN ACCESS EXCLUSIVE MODE NOWAIT")
            assert row is not None
            return int(row[0])
