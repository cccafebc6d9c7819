"""Views of time windows, compared every second with the database at their version, under writes and without.

A writer adds, moves and removes rows near the windows' ends for some seconds and rests for some. Each second, between
two of its transactions, every answer is read at a version that sees the last one, and the database is asked the same
for the time just before the read and just after it: the answer must be that of some time between. Where these differ, a
row entered or left meanwhile.

``python -m tests.integration.time_windows --seconds 300 [--database mariadb]`` runs it for long.
"""

import argparse
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from tests.fixtures.mariadb import MariaDatabase, empty_mariadb, start_mariadb
from tests.fixtures.postgres import Database, discard_server, empty_database, start_server
from tests.fixtures.service import HTTP, PATIENT, RunningService, running_service

KINDS = (1, 2, 3)
#: Seconds of writing, then as many without.
_PHASE_S = 4.0
#: The databases' smallest time.
_TICK_S = 1e-6
#: Ages in seconds at which rows are written: around the ends of all windows.
_AGES = ((-3, 3), (4, 7), (3594, 3610), (86_390, 86_410))


@dataclass(frozen=True, slots=True)
class Setup:
    """One database's schema, views and statements. ``{now}``, ``{today}``: the time in a view's SQL."""

    schema: tuple[str, ...]
    views: dict[str, str]
    now: str
    today: str
    #: The same, of a time that is given; its format, and whether the server cuts it to seconds.
    then: str
    then_day: str
    whole_seconds: bool
    insert: str
    move: str
    remove: str

    def sql(self, view: str) -> str:
        """The view as users write it."""
        return self.views[view].replace("{now}", self.now).replace("{today}", self.today)

    def sql_at(self, view: str, unix_s: float, kind: int) -> str:
        """The view's statement for one key and a time."""
        moment = datetime.fromtimestamp(int(unix_s) if self.whole_seconds else unix_s, UTC)
        now, today = self.then.format(moment.strftime("%Y-%m-%d %H:%M:%S.%f")), self.then_day.format(moment.date())
        return self.views[view].replace("{now}", now).replace("{today}", today).replace(":kind", str(kind))


_VIEWS = {
    "hour": "SELECT id, at FROM events WHERE kind = :kind AND at > {now} - {hour}",
    "newest": "SELECT id, at FROM events WHERE kind = :kind AND at > {now} - {short} ORDER BY at DESC, id LIMIT 5",
    "between": "SELECT id FROM events WHERE at BETWEEN {now} - {short} AND {now} ORDER BY at, id",
    "due": "SELECT id, at FROM events WHERE kind = :kind AND {now} >= at ORDER BY at DESC, id LIMIT 8",
    "coming": "SELECT id, at FROM events WHERE kind = :kind AND at > {now} ORDER BY at, id LIMIT 3",
    "valid": "SELECT id FROM events WHERE kind = :kind AND at <= {now} AND until > {now} ORDER BY id",
    "latest_valid": "SELECT id, at FROM events WHERE kind = :kind AND at <= {now} AND (until IS NULL OR until > {now})"
    " ORDER BY at DESC, id LIMIT 5",
    "valid_or_old": "SELECT id FROM events WHERE (at <= {now} OR id < 40) AND (until >= {now} OR until IS NULL)"
    " AND kind = :kind",
    "days": "SELECT id, day FROM events WHERE kind = :kind AND day >= {today} AND id > 0",
    "since_midnight": "SELECT id FROM events WHERE kind = :kind AND at >= {today}",
    "day_before_moment": "SELECT id FROM events WHERE kind = :kind AND day < {now} - {hour}",
    "in_an_hour_of_today": "SELECT id FROM events WHERE kind = :kind AND at > {now} - {hour} AND day >= {today}",
    "number_of_today": "SELECT count(*) AS id FROM events WHERE kind = :kind AND day >= {today}",
    "joined": "SELECT e.id, k.name FROM events e JOIN kinds k ON k.id = e.kind WHERE e.kind = :kind"
    " AND e.at > {now} - {short} ORDER BY e.at, e.id",
    "of_name": "SELECT e.id, e.at FROM kinds k JOIN events e ON e.kind = k.id WHERE k.id = :kind"
    " AND e.at <= {now} - {hour}",
    "number": "SELECT count(*) AS id FROM events WHERE kind = :kind AND at > {now} - {short}",
    "number_of_valid": "SELECT count(*) AS id FROM events WHERE at <= {now} AND (until IS NULL OR until > {now})",
    "last": "SELECT max(id) AS id FROM events WHERE kind = :kind AND at BETWEEN {now} - {short} AND {now}",
    "number_of_days": "SELECT count(DISTINCT day) AS id FROM events WHERE kind = :kind AND at <= {now} - {hour}",
    "top_kinds": "SELECT kind AS id, count(*) AS n FROM events WHERE at > {now} - {short} GROUP BY kind"
    " HAVING count(*) > 1 ORDER BY n DESC, kind LIMIT 2",
    "names": "SELECT k.id, count(*) AS n FROM kinds k JOIN events e ON e.kind = k.id WHERE e.at > {now} - {short}"
    " AND e.at <= {now} GROUP BY k.id, k.name",
    "kinds_of_time": "SELECT DISTINCT kind AS id FROM events WHERE at >= {now} ORDER BY kind",
}


def _views(hour: str, short: str) -> dict[str, str]:
    return {name: sql.replace("{hour}", hour).replace("{short}", short) for name, sql in _VIEWS.items()}


POSTGRES = Setup(
    (
        "CREATE TABLE kinds (id int PRIMARY KEY, name text NOT NULL)",
        "CREATE TABLE events (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, kind int NOT NULL,"
        " at timestamptz NOT NULL, day date NOT NULL, until timestamptz)",
        "CREATE INDEX ON events (kind, at)",
        "INSERT INTO kinds SELECT n, 'kind ' || n FROM generate_series(1, 3) n",
    ),
    _views("interval '1 hour'", "interval '5 seconds'"),
    "now()",
    "CURRENT_DATE",
    "timestamptz '{}+00'",
    "date '{}'",
    False,
    "WITH made AS (SELECT now() - make_interval(secs => %(age)s) AS at)"
    " INSERT INTO events (kind, at, day, until)"
    " SELECT %(kind)s, at, at::date, at + make_interval(secs => %(lasting)s) FROM made",
    "UPDATE events SET at = now() - make_interval(secs => %s) WHERE mod(id, 50) = %s",
    "DELETE FROM events WHERE mod(id, 50) = %s",
)
MARIADB = Setup(
    (
        "CREATE TABLE kinds (id int PRIMARY KEY, name varchar(20) NOT NULL)",
        "CREATE TABLE events (id int AUTO_INCREMENT PRIMARY KEY, kind int NOT NULL, at datetime(3) NOT NULL,"
        " day date NOT NULL, until datetime(3), KEY (kind, at))",
        "INSERT INTO kinds SELECT seq, CONCAT('kind ', seq) FROM seq_1_to_3",
    ),
    _views("INTERVAL 1 HOUR", "INTERVAL 5 SECOND"),
    "NOW()",
    "CURRENT_DATE",
    "TIMESTAMP '{}'",
    "DATE '{}'",
    True,
    "INSERT INTO events (kind, at, day, until) SELECT k, a, DATE(a), a + INTERVAL %(lasting)s SECOND FROM"
    " (SELECT NOW(3) - INTERVAL %(age)s SECOND AS a, %(kind)s AS k) made",
    "UPDATE events SET at = NOW(3) - INTERVAL %s SECOND WHERE mod(id, 50) = %s",
    "DELETE FROM events WHERE mod(id, 50) = %s",
)


@dataclass
class Site:
    """A service over the events, and its writer. *State*: `quiet` is held by who changes the table, or compares;
    `_stop` ends the writer."""

    setup: Setup
    database: Database | MariaDatabase
    service: RunningService
    seed: int
    quiet: threading.Lock = field(default_factory=threading.Lock)
    counts: Counter[str] = field(default_factory=Counter)
    failure: BaseException | None = None
    _stop: threading.Event = field(default_factory=threading.Event)

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _write(self) -> None:
        draw = random.Random(self.seed)
        try:
            with connection_of(self.database) as cursor:
                while not self._stop.wait(draw.random() * 0.05):
                    if time.time() % (2 * _PHASE_S) < _PHASE_S:
                        with self.quiet:
                            self.change(cursor, draw)
        except BaseException as error:
            self.failure = error

    def change(self, cursor: Any, draw: random.Random) -> None:
        """Run one transaction near the ends of the windows."""
        age = round(draw.uniform(*draw.choice(_AGES)), 3)
        what = draw.random()
        if what < 0.7:
            lasting = draw.choice((None, round(max(0, age) + draw.uniform(-2, 6), 3)))
            cursor.execute(self.setup.insert, {"age": age, "kind": draw.choice(KINDS), "lasting": lasting})
        elif what < 0.85:
            cursor.execute(self.setup.move, (age, draw.randrange(50)))
        else:
            cursor.execute(self.setup.remove, (draw.randrange(50),))
        self.counts["writes"] += 1

    def compare_for(self, seconds: float) -> None:
        """Compare every view and key once a second. AssertionError if an answer is wrong."""
        until_s = time.monotonic() + seconds
        with connection_of(self.database) as cursor:
            while time.monotonic() < until_s and self.failure is None:
                with self.quiet:
                    self.compare(cursor)
                self._stop.wait(1.0 - time.time() % 1.0)
        if self.failure is not None:
            raise self.failure

    def compare(self, cursor: Any) -> None:
        """Compare every view and key with the database, while nothing is written."""
        version = HTTP.post(f"{self.service.http}/v1/checkpoint").json()["version"]
        for view, sql in self.setup.views.items():
            for kind in KINDS if ":kind" in sql else KINDS[:1]:
                given = {"kind": kind} if ":kind" in sql else {}
                before = time.time()
                response = self.service.read(view, {"Upquery-Min-Version": version, **PATIENT}, **given)
                after = time.time()
                assert response.status_code == 200, response.text
                self.counts["hits"] += "; hit" in response.headers["cache-status"]
                self._check(cursor, view, kind, response.json()["rows"], (before, after))

    def _check(self, cursor: Any, view: str, kind: int, rows: list[dict[str, Any]], times: Sequence[float]) -> None:
        def answer(unix_s: float) -> list[int]:
            cursor.execute(self.setup.sql_at(view, unix_s, kind))
            ids = [row[0] for row in cursor.fetchall()]
            return ids if "ORDER BY" in self.setup.views[view] else sorted(ids)

        found = [row["id"] for row in rows]
        found = found if "ORDER BY" in self.setup.views[view] else sorted(found)
        before, after = times
        expected = list(_answers(answer, (before, answer(before)), (after, answer(after))))
        self.counts["compared"] += 1
        self.counts["rows"] += len(found)
        self.counts["moving"] += len(expected) > 1
        assert found in expected, f"{view} {kind} at {times}: {found} is none of {expected}"


def _answers(
    answer: Callable[[float], list[int]], first: tuple[float, list[int]], last: tuple[float, list[int]]
) -> Iterator[list[int]]:
    """The different answers from one time to another, each once for each change."""
    if first[1] == last[1]:
        yield first[1]
    elif last[0] - first[0] < _TICK_S:
        yield first[1]
        yield last[1]
    else:
        middle_s = (first[0] + last[0]) / 2
        middle = middle_s, answer(middle_s)
        yield from _answers(answer, first, middle)
        yield from _answers(answer, middle, last)


@contextmanager
def connection_of(database: Database | MariaDatabase) -> Iterator[Any]:
    """A cursor in UTC that commits each statement."""
    if isinstance(database, Database):
        import psycopg

        with psycopg.connect(database.url, autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SET TIME ZONE 'UTC'")
            yield cursor
    else:
        with database.connect(autocommit=True) as connection, connection.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
            yield cursor


@contextmanager
def site_of(
    setup: Setup, database: Database | MariaDatabase, directory: Path, seed: int, **sections: dict[str, Any]
) -> Iterator[Site]:
    """A service with the views, and rows near the ends of the windows."""
    database.execute(*setup.schema)
    views = {name: setup.sql(name) for name in setup.views}
    with running_service(directory, database.url, views, cdc={"set_replica_identity": True}, **sections) as service:
        tiers = {name: service.view(name)["tier"] for name in views}
        assert set(tiers.values()) == {"incremental"}, tiers
        site = Site(setup, database, service, seed)
        draw = random.Random(seed)
        with connection_of(database) as cursor:
            for _ in range(300):
                site.change(cursor, draw)
        yield site


def main() -> None:
    """Run the comparison and print its counts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--database", choices=("postgres", "mariadb"), default="postgres")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as directory,
        _database(given.database) as (setup, database),
        site_of(setup, database, Path(directory), given.seed) as site,
        site,
    ):
        site.compare_for(given.seconds)
    counts = ", ".join(f"{name} {count}" for name, count in site.counts.items())
    sys.stdout.write(f"{given.database}, {given.seconds:.0f} s: 0 wrong; {counts}\n")


@contextmanager
def _database(kind: str) -> Iterator[tuple[Setup, Database | MariaDatabase]]:
    if kind == "mariadb":
        server = start_mariadb()
        try:
            with empty_mariadb(server) as mariadb:
                yield MARIADB, mariadb
        finally:
            server.discard()
        return
    postgres = start_server()
    try:
        with empty_database(postgres) as database:
            yield POSTGRES, database
    finally:
        discard_server(postgres)


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        main()
