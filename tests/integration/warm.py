"""A service with views of several shapes, filled, and writers that go on while it is stopped."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, until

STORIES = 40
AUTHORS = 8
#: By the name: the SQL, and the values of its parameter.
Views = Mapping[str, tuple[str, range | None]]
WarmDatabase = MariaDatabase | Database


def _views(titles: str) -> Views:
    """`titles`: a call that joins the titles of a group."""
    return {
        "story": ("SELECT id, title, score FROM stories WHERE id = :key", range(1, STORIES + 1)),
        "counted": (
            "SELECT s.id, s.title, COUNT(v.id) AS votes FROM stories s LEFT JOIN votes v ON v.story = s.id "
            "WHERE s.id = :key GROUP BY s.id, s.title",
            range(1, STORIES + 1),
        ),
        "scores": (
            "SELECT author, MIN(score) AS least, MAX(score) AS most, SUM(score) AS total, AVG(score) AS mean, "
            f"{titles} AS titles FROM stories WHERE author = :key GROUP BY author",
            range(AUTHORS),
        ),
        "newest": ("SELECT id, title FROM stories WHERE author = :key ORDER BY id DESC LIMIT 3", range(AUTHORS)),
        "ranked": (
            "SELECT * FROM (SELECT id, author, ROW_NUMBER() OVER (PARTITION BY author ORDER BY score DESC, id) AS "
            "place FROM stories) r WHERE author = :key",
            range(AUTHORS),
        ),
        "voted": (
            "SELECT v.voter, s.title FROM votes v JOIN stories s ON s.id = v.story WHERE s.author = :key",
            range(AUTHORS),
        ),
        "all_votes": ("SELECT story, COUNT(*) AS votes FROM votes GROUP BY story", None),
    }


@dataclass(frozen=True, slots=True)
class WarmDialect:
    """SQL of one kind of database, and settings of a service over it."""

    tables: tuple[str, ...]
    views: Views
    #: A table of nine rows, for alterations.
    altered: tuple[str, ...]
    #: Alterations of a table of two columns beside its key, of which rows may have been changed before and after; the
    #: last one alters nothing.
    alterations: tuple[tuple[str, ...], ...]
    #: Deletes one vote for a story.
    delete_vote: str
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)


MARIADB = WarmDialect(
    (
        "CREATE TABLE stories (id int PRIMARY KEY, author int NOT NULL, title varchar(40), score decimal(8,2))",
        "CREATE TABLE votes (id int AUTO_INCREMENT PRIMARY KEY, story int NOT NULL, voter int NOT NULL, KEY (story))",
        f"INSERT INTO stories SELECT seq, seq % {AUTHORS}, CONCAT('title ', seq), seq / 4 FROM seq_1_to_{STORIES}",
        f"INSERT INTO votes (story, voter) SELECT 1 + seq % {STORIES}, seq FROM seq_1_to_200",
    ),
    _views("GROUP_CONCAT(title ORDER BY id)"),
    (
        "CREATE TABLE {0} (id int PRIMARY KEY, title varchar(40), score decimal(8,2))",
        "INSERT INTO {0} SELECT seq, CONCAT('title ', seq), seq / 3 FROM seq_1_to_9",
    ),
    (
        ("ALTER TABLE {0} ADD COLUMN more int DEFAULT 3",),
        ("ALTER TABLE {0} MODIFY score decimal(9,3)",),
        ("ALTER TABLE {0} MODIFY title varchar(40) CHARACTER SET latin1",),
        ("ALTER TABLE {0} DROP COLUMN title, ADD COLUMN title varchar(40) AFTER id",),
        ("ALTER TABLE {0} DROP COLUMN title", "ALTER TABLE {0} ADD COLUMN title varchar(40) AFTER id"),
        ("ALTER TABLE {0} MODIFY score int", "ALTER TABLE {0} MODIFY score decimal(8,2)"),
        (
            "RENAME TABLE {0} TO {0}_old",
            "CREATE TABLE {0} LIKE {0}_old",
            "INSERT INTO {0} SELECT * FROM {0}_old LIMIT 3",
        ),
        (
            "CREATE TABLE {0}_new LIKE {0}",
            "INSERT INTO {0}_new SELECT id, 'same', score FROM {0}",
            "DROP TABLE {0}",
            "RENAME TABLE {0}_new TO {0}",
        ),
        ("TRUNCATE {0}", "INSERT INTO {0} VALUES (2, 'anew', 1)"),
        ("UPDATE {0} SET title = 'not altered'",),
    ),
    "DELETE FROM votes WHERE story = {0} LIMIT 1",
)

POSTGRES = WarmDialect(
    (
        "CREATE TABLE stories (id int PRIMARY KEY, author int NOT NULL, title varchar(40), score decimal(8,2))",
        "CREATE TABLE votes (id serial PRIMARY KEY, story int NOT NULL, voter int NOT NULL)",
        "CREATE INDEX ON votes (story)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "ALTER TABLE votes REPLICA IDENTITY FULL",
        f"INSERT INTO stories SELECT i, i % {AUTHORS}, 'title ' || i, i / 4.0 FROM generate_series(1, {STORIES}) i",
        f"INSERT INTO votes (story, voter) SELECT 1 + i % {STORIES}, i FROM generate_series(1, 200) i",
    ),
    _views("string_agg(title, ',' ORDER BY id)"),
    (
        "CREATE TABLE {0} (id int PRIMARY KEY, title varchar(40), score decimal(8,2))",
        "ALTER TABLE {0} REPLICA IDENTITY FULL",
        "INSERT INTO {0} SELECT i, CONCAT('title ', i), i / 3.0 FROM generate_series(1, 9) i",
    ),
    (
        ("ALTER TABLE {0} ADD COLUMN more int DEFAULT 3",),
        ("ALTER TABLE {0} ALTER score TYPE decimal(9,3)",),
        ("ALTER TABLE {0} DROP COLUMN title, ADD COLUMN title varchar(40)",),
        ("ALTER TABLE {0} DROP COLUMN title", "ALTER TABLE {0} ADD COLUMN title varchar(40)"),
        ("ALTER TABLE {0} ALTER score TYPE int", "ALTER TABLE {0} ALTER score TYPE decimal(8,2)"),
        ("ALTER TABLE {0} ALTER score TYPE decimal(8,2) USING 7",),
        ("ALTER TABLE {0} RENAME title TO was", "ALTER TABLE {0} RENAME was TO title"),
        (
            "ALTER TABLE {0} RENAME TO {0}_old",
            "CREATE TABLE {0} (LIKE {0}_old)",
            "ALTER TABLE {0} ADD PRIMARY KEY (id)",
            "INSERT INTO {0} SELECT * FROM {0}_old LIMIT 3",
        ),
        (
            "CREATE TABLE {0}_new AS SELECT id, 'same'::varchar(40) AS title, score FROM {0}",
            "DROP TABLE {0}",
            "ALTER TABLE {0}_new RENAME TO {0}",
            "ALTER TABLE {0} ADD PRIMARY KEY (id)",
        ),
        (
            "ALTER PUBLICATION upquery DROP TABLE {0}",
            "UPDATE {0} SET title = 'unpublished'",
            "ALTER PUBLICATION upquery ADD TABLE {0}",
        ),
        ("ALTER PUBLICATION upquery DROP TABLE {0}", "UPDATE {0} SET title = 'unpublished'"),
        (
            "ALTER PUBLICATION upquery DROP TABLE {0}",
            "ALTER TABLE {0} SET UNLOGGED",
            "UPDATE {0} SET title = 'unlogged'",
            "ALTER TABLE {0} SET LOGGED",
            "ALTER PUBLICATION upquery ADD TABLE {0}",
        ),
        ("TRUNCATE {0}", "INSERT INTO {0} VALUES (2, 'anew', 1)"),
        ("UPDATE {0} SET title = 'not altered'",),
    ),
    "DELETE FROM votes WHERE id = (SELECT MIN(id) FROM votes WHERE story = {0})",
    {"state": {"persistent": True}},
)


def dialect_of(database: WarmDatabase) -> WarmDialect:
    return POSTGRES if isinstance(database, Database) else MARIADB


def plain(rows: Any) -> list[tuple[str | None, ...]]:
    """Rows as texts, in no order."""
    return sorted(
        (tuple(None if value is None else str(value) for value in row) for row in rows),
        key=lambda row: [value or "" for value in row],
    )


class WarmService:
    """The service, and the database's own answers. `settings`: beside those of the dialect."""

    def __init__(
        self,
        directory: Path,
        database: WarmDatabase,
        views: Views | None = None,
        settings: Mapping[str, dict[str, Any]] | None = None,
        engines: int = 1,
    ) -> None:
        self.engines = engines
        self.dialect = dialect_of(database)
        self.database = database
        self.directory = directory
        self.views = {**self.dialect.views, **(views or {})}
        self.settings = {**self.dialect.settings, **(settings or {})}
        database.execute(*self.dialect.tables)
        self.running = self._service()

    def _service(self) -> RunningService:
        views = {name: sql for name, (sql, _) in self.views.items()}
        log = {"level": "info", "format": "json"}
        return RunningService(
            self.directory, self.database.url, views, log=log, engine={"shards": self.engines}, **self.settings
        )

    def restart(self, views: Views | None = None, engines: int | None = None) -> None:
        """Starts it again after a stop, perhaps with other views, or with more engines or fewer; returns when it has
        caught up."""
        self.running.discard()
        self.engines = engines or self.engines
        self.views = dict(views or self.views)
        self.running = self._service()
        self.running.start()

    def log(self) -> str:
        """Everything that the service has logged."""
        return self.running.log.read_text()

    @property
    def checkpoints(self) -> list[Path]:
        """The files that exist."""
        return sorted((self.directory / "state").glob("checkpoint*"))

    def fill(self) -> None:
        """Every key of every view is in memory."""
        until(lambda: self.hit_rate() == 1.0)

    def keys_of(self, *names: str) -> Iterator[tuple[str, int | None]]:
        """Yields the keys of these views, or of all."""
        for name in names or self.views:
            for key in self.views[name][1] or (None,):
                yield name, key

    def hits(self, name: str, key: int | None) -> bool:
        return self.running.hits(name, **({} if key is None else {"key": key}))

    def hit_rate(self, *names: str) -> float:
        """The part of the keys that a first read finds in memory."""
        found = [self.hits(name, key) for name, key in self.keys_of(*names)]
        return sum(found) / len(found)

    def compare(self) -> None:
        """Every key is answered as the database answers it, at a position behind all writes so far."""
        version = HTTP.post(f"{self.running.http}/v1/checkpoint").json()["version"]
        for name, key in self.keys_of():
            given = {} if key is None else {"key": key}
            reply = self.running.read(name, {"Upquery-Min-Version": version, "Prefer": "wait=20"}, **given)
            assert reply.status_code == 200, reply.text
            statement = self.views[name][0].replace(":key", str(key))
            rows = [tuple(row.values()) for row in reply.json()["rows"]]
            assert plain(rows) == plain(self.database.query(statement)), (name, key)

    @contextmanager
    def writing(self, seed: int = 1) -> Iterator[Callable[[], int]]:
        """Somebody writes within the block; yields a counter of statements."""
        stop, random, written = Event(), Random(seed), [0]

        def write() -> None:
            while not stop.is_set():
                self.database.execute(self._any_statement(random))
                written[0] += 1

        writer = Thread(target=write)
        writer.start()
        try:
            yield lambda: written[0]
        finally:
            stop.set()
            writer.join()

    def _any_statement(self, random: Random) -> str:
        story = random.randint(1, STORIES)
        return random.choice(
            (
                f"INSERT INTO votes (story, voter) VALUES ({story}, {random.randint(1, 99)})",
                self.dialect.delete_vote.format(story),
                f"UPDATE stories SET title = 'title {random.randint(1, 999)}' WHERE id = {story}",
                f"UPDATE stories SET score = {random.randint(0, 99)}.{random.randint(0, 9)}0 WHERE id = {story}",
                f"UPDATE stories SET author = {random.randrange(AUTHORS)} WHERE id = {story}",
            )
        )


@contextmanager
def filled_service(
    database: WarmDatabase,
    directory: Path,
    views: Views | None = None,
    settings: Mapping[str, dict[str, Any]] | None = None,
    engines: int = 1,
) -> Iterator[WarmService]:
    """A service that runs and has every key in memory. `views`: beside those of the dialect."""
    service = WarmService(directory, database, views, settings, engines)
    try:
        service.running.start()
        service.fill()
        yield service
    finally:
        service.running.discard()
