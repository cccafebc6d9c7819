"""DDL under load: what changes answers, or the stream, without a word in the stream.

While readers read and a writer writes, each form of DDL is committed, and a reader asks for the version after it. Where
transactions are marked, the first answer is the database's. Where they are not, it is so a heartbeat later, and from
then on. A view that is planned anew may refuse for a moment, and say that it can be asked again.

A sample of the forms is run, another one each day; with ``SOAK_SECONDS`` all of them, then others for so long.
"""

import json
import os
import random
import signal
import threading
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from service.demo.postgres_server import EmbeddedPostgres
from service.engine.databases.postgres.schema_marks import MARKING
from tests.fixtures.postgres import Database, empty_database
from tests.fixtures.seeds import day_seed
from tests.fixtures.service import LIMIT_S, RunningService, alive, process_named, running_service, until
from tests.integration import partition_forms
from tests.integration.schema_forms import FORMS, OF_TABLES, UNREAD, Form

pytestmark = pytest.mark.postgres

SOAK_S = float(os.environ.get("SOAK_SECONDS", "0"))
#: Answers that say: not now.
_NOT_NOW = (httpx.codes.SERVICE_UNAVAILABLE, httpx.codes.GATEWAY_TIMEOUT)


class Site:
    """A database with a schema for each form, and a service with its views."""

    def __init__(self, database: Database, directory: Path, forms: list[Form], *, marked: bool, shards: int) -> None:
        self.database = database
        self.marked = marked
        self.forms = forms
        self.connection = psycopg.connect(database.url, autocommit=True)
        self.user = self.connection.info.user
        if marked:
            self.run(MARKING)
        self.run(("CREATE TABLE noise (id int PRIMARY KEY, n int)", "INSERT INTO noise VALUES (1, 0)"))
        for number, form in enumerate(forms):
            self.run((f"CREATE SCHEMA s{number}", *self.texts(form, form.setup)))
        self.service = RunningService(
            directory,
            database.url,
            {"noise": "SELECT n FROM noise WHERE id = :id"},
            engine={"shards": shards},
            cdc={"set_replica_identity": True, "schema_check_s": 60 if marked else 0.1},
        )
        with self.service.config.open("a") as file:
            for form in forms:
                for kind, sql in form.views:
                    tier = "refresh" if kind == "refresh" else "incremental"
                    file.write(self._view(form, kind, sql, tier))
        self.service.start()
        self._ended = threading.Event()
        self._load = [threading.Thread(target=loop) for loop in (self._write, self._read)]
        self.failures: list[str] = []
        for thread in self._load:
            thread.start()

    def _view(self, form: Form, kind: str, sql: str, tier: str) -> str:
        (text,) = self.texts(form, (sql,))
        # The plan of later may be another one: only what is to be refreshed says so.
        asked = f'tier = "{tier}"\n' if tier == "refresh" else ""
        return f"[[views]]\nname = {json.dumps(self.name(form, kind))}\nsql = {json.dumps(text)}\n{asked}"

    def name(self, form: Form, kind: str) -> str:
        """Return the name of a form's view."""
        return f"s{self.forms.index(form)}_{kind}"

    def texts(self, form: Form, statements: tuple[str, ...]) -> tuple[str, ...]:
        """SQL for the form's schema."""
        schema = f"s{self.forms.index(form)}"
        return tuple(statement.format(s=schema, user=self.user) for statement in statements)

    def run(self, statements: tuple[str, ...]) -> None:
        """Each in a transaction."""
        for statement in statements:
            self.connection.execute(statement)

    def token(self) -> str:
        """The version of all that was committed."""
        (row,) = self.connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchall()
        return str(row[0])

    def expected(self, form: Form, sql: str, key: int) -> list[list[Any]] | None:
        """The database's answer; None if there is none."""
        (text,) = self.texts(form, (sql,))
        try:
            rows = self.connection.execute(text.replace(":id", str(key))).fetchall()
        except psycopg.Error:
            return None
        return [[_text(value) for value in row] for row in rows]

    def answer(self, form: Form, kind: str, key: int, token: str) -> list[list[Any]] | None:
        """The service's first answer at that version; None if it says for good that there is none."""
        deadline = time.monotonic() + LIMIT_S
        headers = {"Upquery-Min-Version": token, "Prefer": "wait=20"}
        while True:
            reply = self.service.read(self.name(form, kind), headers, id=key)
            if reply.is_success:
                return [[_text(value) for value in row.values()] for row in reply.json()["rows"]]
            if not (reply.status_code in _NOT_NOW and "retry-after" in reply.headers):
                assert reply.json()["code"] in ("view_broken", "upstream_refused"), reply.text
                return None
            assert time.monotonic() < deadline, reply.text
            time.sleep(0.01)

    def is_right(self, form: Form, token: str) -> str | None:
        """Return the wrong answer of a form's views, if there is one."""
        for kind, sql in form.views:
            for key in (1, 2):
                expected, found = self.expected(form, sql, key), self.answer(form, kind, key, token)
                if found != expected:
                    return f"{form.name}: {kind} {key}: {found}, the database says {expected}"
        return None

    def warm(self, form: Form) -> None:
        """All of its views have what they are asked for."""
        token = self.token()
        for kind, _ in form.views:
            for key in (1, 2):
                until(lambda kind=kind, key=key: self.answer(form, kind, key, token) is not None)
        assert (wrong := self.is_right(form, token)) is None, wrong

    def pass_through(self) -> None:
        """All forms, one after the other."""
        for form in self.forms:
            self.warm(form)
            self.run(self.texts(form, form.ddl))
            self.check(form)
            if form.then is not None:
                self.run(self.texts(form, (form.then,)))
                self.check(form)
        for form in self.forms:
            self.check(form)
        assert not self.failures
        # Unmarked, a row with a new label may come before the label is known.
        assert not self.marked or self.service.stats()["counters"]["engine_failures"] == 0
        said = self.service.call("GET", "/readyz").json()["schema_changes"]
        assert said == ("exact" if self.marked else "heartbeat")

    def kill_engine(self) -> None:
        """The next process has plans of this one; all views are right again."""
        pid = process_named("engine", self.service.pid)
        os.kill(pid, signal.SIGKILL)
        until(lambda: not alive(pid))
        for form in self.forms:
            self.check(form)

    def check(self, form: Form) -> None:
        """All of its views answer what the database does: now, or in a moment where changes are not marked."""
        token = self.token()
        if self.marked:
            assert (wrong := self.is_right(form, token)) is None, wrong
        else:
            # It may be right before the change is noticed, too, and planned anew after that.
            until(lambda: self.is_right(form, token) is None)

    def _write(self) -> None:
        with psycopg.connect(self.database.url, autocommit=True) as connection:
            while not self._ended.wait(0.01):
                connection.execute("UPDATE noise SET n = n + 1")

    def _read(self) -> None:
        """Keeps keys in use."""
        chance = random.Random(day_seed("schema changes, reader"))
        kinds = [(form, kind) for form in self.forms for kind, _ in form.views]
        with httpx.Client(timeout=LIMIT_S) as http:
            while not self._ended.wait(0.005):
                form, kind = chance.choice(kinds)
                url = f"{self.service.http}/v1/views/{self.name(form, kind)}"
                reply = http.get(url, params={"id": chance.randint(1, 2)})
                if reply.is_server_error and reply.status_code not in _NOT_NOW:
                    self.failures.append(reply.text)

    def close(self) -> None:
        """Stop everything."""
        self._ended.set()
        for thread in self._load:
            thread.join(LIMIT_S)
        self.service.discard()
        self.connection.close()


def _text(value: Any) -> Any:
    return None if value is None else str(value)


@pytest.mark.parametrize(
    ("marked", "shards", "sample"), [(True, 1, 20), (False, 1, 8), (True, 2, 5)], ids=["marked", "unmarked", "shards"]
)
def test_ddl_under_load(
    postgres_server: EmbeddedPostgres, tmp_path: Path, shards: int, sample: int, *, marked: bool
) -> None:
    chance = random.Random(day_seed("schema changes"))
    deadline = time.monotonic() + SOAK_S
    for run in count():
        with empty_database(postgres_server) as database:
            usable = [form for form in [*FORMS, *partition_forms.FORMS] if database.version >= form.since]
            forms = chance.sample(usable, sample if run or not SOAK_S else len(usable))
            with closing(Site(database, tmp_path / str(run), forms, marked=marked, shards=shards)) as site:
                site.pass_through()
        if time.monotonic() >= deadline:
            break


def test_the_next_engine_after_ddl(database: Database, tmp_path: Path) -> None:
    forms = [UNREAD, *random.Random(day_seed("engines after DDL")).sample(OF_TABLES, 8)]
    with closing(Site(database, tmp_path / "site", forms, marked=True, shards=1)) as site:
        (plans,) = until(lambda: list(site.service.run.glob("*/plans")))
        before = plans.stat().st_mtime_ns
        site.pass_through()
        # One of the forms had views planned anew, all of them the columns of tables altered.
        until(lambda: plans.stat().st_mtime_ns > before)
        site.kill_engine()
        assert "cached plans are used" in site.service.log.read_text()


def test_hits_go_on_while_the_stream_waits_for_the_catalog(database: Database, tmp_path: Path) -> None:
    """A check that fails is repeated; nothing is told at the version that it is for before it succeeds."""
    database.execute(
        "CREATE TYPE mood AS ENUM ('sad', 'ok')",
        "CREATE TABLE t (id int PRIMARY KEY, m mood)",
        "INSERT INTO t VALUES (1, 'ok')",
        "CREATE VIEW v AS SELECT 1 AS one",
        *MARKING,
    )
    view = {"t": "SELECT m FROM t WHERE id = :id"}
    options = {"upstream": {"statement_timeout_s": 1}, "cdc": {"set_replica_identity": True, "schema_check_s": 60}}
    with running_service(tmp_path / "service", database.url, view, **options) as service:
        until(lambda: service.hits("t", id=1))
        with psycopg.connect(database.url) as blocker:
            blocker.execute("CREATE OR REPLACE VIEW v AS SELECT 2 AS one")
            database.execute("ALTER TYPE mood RENAME VALUE 'ok' TO 'fine'")
            token = str(database.query("SELECT pg_current_wal_insert_lsn()::text")[0][0])
            until(lambda: "the stream waits until one succeeds" in service.log.read_text())
            hit = service.read("t", id=1)
            assert (hit.json()["rows"], "; hit" in hit.headers["cache-status"]) == ([{"m": "ok"}], True)
            refused = service.read("t", {"Upquery-Min-Version": token, "Prefer": "wait=0"}, id=1)
            assert refused.json()["code"] == "version_timeout"
            blocker.rollback()
        headers = {"Upquery-Min-Version": token, "Prefer": "wait=20"}
        until(lambda: service.read("t", headers, id=1).is_success)
        assert service.read("t", headers, id=1).json()["rows"] == [{"m": "fine"}]
