"""Answers that are followed while random transactions run, and what each of them was after each transaction."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tests.fixtures.postgres import Database

SCHEMA = (
    "CREATE TABLE users (id int PRIMARY KEY, name text)",
    "CREATE TABLE stories (id int PRIMARY KEY, author int, title text, votes int)",
    "CREATE TABLE marks (n int)",
    "ALTER TABLE users REPLICA IDENTITY FULL",
    "ALTER TABLE stories REPLICA IDENTITY FULL",
    "ALTER TABLE marks REPLICA IDENTITY FULL",
    "INSERT INTO users SELECT n, 'user ' || n FROM generate_series(1, 6) n",
    "INSERT INTO stories SELECT n, n % 6 + 1, 'story ' || n, n % 4 FROM generate_series(1, 60) n",
)
#: Of each the SQL, and whether its order says something.
VIEWS = {
    "story": ("SELECT id, title, votes FROM stories WHERE id = :id", False),
    "by_author": ("SELECT id, title, votes FROM stories WHERE author = :author", False),
    "titles": ("SELECT title FROM stories WHERE author = :author", False),
    "among": ("SELECT id, votes FROM stories WHERE id IN (:ids)", False),
    "top": ("SELECT id, votes FROM stories WHERE author = :author ORDER BY votes DESC, id LIMIT 3", True),
    "best": ("SELECT id, votes FROM stories ORDER BY votes DESC, id LIMIT 4", True),
    "hidden": ("SELECT title FROM stories WHERE author = :author ORDER BY votes, id", True),
    "counted": ("SELECT COUNT(*) AS n, SUM(votes) AS votes FROM stories WHERE author = :author", False),
    "joined": (
        "SELECT s.id, s.title, u.name FROM stories s JOIN users u ON u.id = s.author WHERE u.id = :id",
        False,
    ),
    "totals": ("SELECT author, COUNT(*) AS n FROM stories GROUP BY author", False),
    "ranked": (
        "SELECT id, rank() OVER (ORDER BY votes DESC, id) AS place FROM stories WHERE author = :author",
        False,
    ),
    "marked": ("SELECT MAX(n) AS n FROM marks", False),
}


@dataclass(frozen=True, slots=True)
class Asked:
    """An answer that is followed: a view, and its parameters' values as its engine has them."""

    view: str
    values: tuple[Any, ...] = ()

    @property
    def query(self) -> str:
        """The SQL with its values in it; all are numbers."""
        sql = VIEWS[self.view][0]
        for value in self.values:
            start = sql.index(":")
            end = next((i for i in range(start + 1, len(sql)) if not sql[i].isalnum()), len(sql))
            sql = sql[:start] + (",".join(value) if isinstance(value, tuple) else value) + sql[end:]
        return sql

    def shown(self, rows: list[Any]) -> Any:
        """Rows so that equal answers are equal."""
        return rows if VIEWS[self.view][1] else sorted(json.dumps(row) for row in rows)


ASKED = [
    Asked("story", ("1",)),
    Asked("story", ("999",)),
    Asked("by_author", ("2",)),
    Asked("titles", ("3",)),
    Asked("among", (("1", "2", "61", "62"),)),
    Asked("top", ("1",)),
    Asked("top", ("4",)),
    Asked("best"),
    Asked("hidden", ("2",)),
    Asked("counted", ("5",)),
    Asked("joined", ("3",)),
    Asked("totals"),
    Asked("ranked", ("2",)),
    Asked("marked"),
]


class Writer:
    """Transactions, one after the other. *Maintains*: `states[i]` has each answer after the first `i` of them."""

    def __init__(self, database: Database, seed: int) -> None:
        self._connection = psycopg.connect(database.url, autocommit=True)
        self._random = Random(seed)
        self.states = [self._answers()]

    def _answers(self) -> dict[Asked, Any]:
        with self._connection.cursor(row_factory=dict_row) as cursor:
            return {asked: asked.shown(cursor.execute(asked.query).fetchall()) for asked in ASKED}

    def write(self, *statements: str) -> None:
        """One transaction: these statements, or random ones."""
        with self._connection.transaction():
            for statement in statements or self._statements():
                self._connection.execute(statement)
            # Each is in the stream.
            self._connection.execute(f"INSERT INTO marks VALUES ({len(self.states)})")
        self.states.append(self._answers())

    def _statements(self) -> Iterator[str]:
        rng = self._random
        for _ in range(rng.randint(1, 4)):
            story, author, votes = rng.randint(1, 70), rng.randint(1, 6), rng.randint(0, 5)
            yield rng.choice(
                (
                    f"UPDATE stories SET votes = {votes} WHERE id = {story}",
                    f"UPDATE stories SET votes = {votes} WHERE author = {author} AND votes > {votes}",
                    f"UPDATE stories SET author = {author} WHERE id = {story}",
                    f"DELETE FROM stories WHERE id = {story}",
                    f"INSERT INTO stories VALUES ({story}, {author}, 'new', {votes}) ON CONFLICT DO NOTHING",
                    f"UPDATE stories SET title = 'same' WHERE author = {author} AND id % 2 = 0",
                    f"UPDATE users SET name = 'name {votes}' WHERE id = {author}",
                )
            )
        if rng.random() < 0.02:
            yield "TRUNCATE stories"
        if rng.random() < 0.05:
            rows = "SELECT n, n % 6 + 1, 'again', n % 3 FROM generate_series(1, 60) n"
            yield f"INSERT INTO stories {rows} ON CONFLICT DO NOTHING"

    def close(self) -> None:
        self._connection.close()
