"""A service over MariaDB with views of several shapes, filled, and writers that go on while it is stopped."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.service import HTTP, RunningService, until

STORIES = 40
AUTHORS = 8
TABLES = (
    "CREATE TABLE stories (id int PRIMARY KEY, author int NOT NULL, title varchar(40), score decimal(8,2))",
    "CREATE TABLE votes (id int AUTO_INCREMENT PRIMARY KEY, story int NOT NULL, voter int NOT NULL, KEY (story))",
    f"INSERT INTO stories SELECT seq, seq % {AUTHORS}, CONCAT('title ', seq), seq / 4 FROM seq_1_to_{STORIES}",
    f"INSERT INTO votes (story, voter) SELECT 1 + seq % {STORIES}, seq FROM seq_1_to_200",
)
#: By the name: the SQL, and the values of its parameter.
Views = Mapping[str, tuple[str, range | None]]
VIEWS: Views = {
    "story": ("SELECT id, title, score FROM stories WHERE id = :key", range(1, STORIES + 1)),
    "counted": (
        "SELECT s.id, s.title, COUNT(v.id) AS votes FROM stories s LEFT JOIN votes v ON v.story = s.id "
        "WHERE s.id = :key GROUP BY s.id, s.title",
        range(1, STORIES + 1),
    ),
    "scores": (
        "SELECT author, MIN(score) AS least, MAX(score) AS most, SUM(score) AS total, AVG(score) AS mean, "
        "GROUP_CONCAT(title ORDER BY id) AS titles FROM stories WHERE author = :key GROUP BY author",
        range(AUTHORS),
    ),
    "newest": ("SELECT id, title FROM stories WHERE author = :key ORDER BY id DESC LIMIT 3", range(AUTHORS)),
    "ranked": (
        "SELECT * FROM (SELECT id, author, ROW_NUMBER() OVER (PARTITION BY author ORDER BY score DESC, id) AS place "
        "FROM stories) r WHERE author = :key",
        range(AUTHORS),
    ),
    "voted": (
        "SELECT v.voter, s.title FROM votes v JOIN stories s ON s.id = v.story WHERE s.author = :key",
        range(AUTHORS),
    ),
    "all_votes": ("SELECT story, COUNT(*) AS votes FROM votes GROUP BY story", None),
}


def plain(rows: Any) -> list[tuple[str | None, ...]]:
    """Rows as texts, in no order."""
    return sorted(
        (tuple(None if value is None else str(value) for value in row) for row in rows),
        key=lambda row: [value or "" for value in row],
    )


class WarmService:
    """The service, and the database's own answers."""

    def __init__(self, directory: Path, database: MariaDatabase, views: Views = VIEWS) -> None:
        self.database = database
        self.directory = directory
        self.views = views
        database.execute(*TABLES)
        self.running = self._service()

    def _service(self) -> RunningService:
        views = {name: sql for name, (sql, _) in self.views.items()}
        log = {"level": "info", "format": "json"}
        return RunningService(self.directory, self.database.url, views, log=log)

    def restart(self, views: Views | None = None) -> None:
        """Starts it again after a stop, perhaps with other views; returns when it has caught up."""
        self.running.discard()
        self.views = views or self.views
        self.running = self._service()
        self.running.start()

    def log(self) -> str:
        """Everything that the service has logged."""
        return self.running.log.read_text()

    @property
    def checkpoint(self) -> Path:
        return self.directory / "state" / "checkpoint"

    def fill(self) -> None:
        """Every key of every view is in memory."""
        until(lambda: self.hit_rate() == 1.0)

    def keys(self, *names: str) -> Iterator[tuple[str, int | None]]:
        """The keys of these views, or of all."""
        for name in names or self.views:
            for key in self.views[name][1] or (None,):
                yield name, key

    def hits(self, name: str, key: int | None) -> bool:
        return self.running.hits(name, **({} if key is None else {"key": key}))

    def hit_rate(self, *names: str) -> float:
        """The part of the keys that a first read finds in memory."""
        found = [self.hits(name, key) for name, key in self.keys(*names)]
        return sum(found) / len(found)

    def compare(self) -> None:
        """Every key is answered as the database answers it, at a position behind all writes so far."""
        version = HTTP.post(f"{self.running.http}/v1/checkpoint").json()["version"]
        for name, key in self.keys():
            given = {} if key is None else {"key": key}
            reply = self.running.read(name, {"Upquery-Min-Version": version, "Prefer": "wait=20"}, **given)
            assert reply.status_code == 200, reply.text
            statement = self.views[name][0].replace(":key", str(key))
            rows = [tuple(row.values()) for row in reply.json()["rows"]]
            assert plain(rows) == plain(self.database.query(statement)), (name, key)

    @contextmanager
    def writing(self, seed: int = 1) -> Iterator[None]:
        """Somebody writes within the block."""
        stop, random = Event(), Random(seed)

        def write() -> None:
            while not stop.is_set():
                self.database.execute(_any_statement(random))

        writer = Thread(target=write)
        writer.start()
        try:
            yield
        finally:
            stop.set()
            writer.join()


def _any_statement(random: Random) -> str:
    story = random.randint(1, STORIES)
    return random.choice(
        (
            f"INSERT INTO votes (story, voter) VALUES ({story}, {random.randint(1, 99)})",
            f"DELETE FROM votes WHERE story = {story} LIMIT 1",
            f"UPDATE stories SET title = 'title {random.randint(1, 999)}' WHERE id = {story}",
            f"UPDATE stories SET score = {random.randint(0, 99)}.{random.randint(0, 9)}0 WHERE id = {story}",
            f"UPDATE stories SET author = {random.randrange(AUTHORS)} WHERE id = {story}",
        )
    )
