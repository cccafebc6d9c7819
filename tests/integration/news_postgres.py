"""The news site on PostgreSQL."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import psycopg

from tests.fixtures.postgres import Database
from tests.integration.news_workload import ACCOUNTS, USERS, Gate, Gone, Undone, Writer

SCHEMA = f"""
CREATE TABLE users (name text PRIMARY KEY, about text);
CREATE TABLE stories (id int PRIMARY KEY, author text NOT NULL REFERENCES users, title text, score numeric);
CREATE TABLE votes (
    story_id int NOT NULL REFERENCES stories, voter text NOT NULL REFERENCES users, value smallint,
    PRIMARY KEY (story_id, voter));
CREATE TABLE comments (
    id int PRIMARY KEY, story_id int NOT NULL REFERENCES stories, author text REFERENCES users,
    parent_id int, body text);
CREATE TABLE accounts (id int PRIMARY KEY, owner text NOT NULL, balance bigint NOT NULL);
CREATE INDEX ON stories (author);
CREATE INDEX ON comments (story_id);
CREATE INDEX ON accounts (owner);
ALTER TABLE users REPLICA IDENTITY FULL; ALTER TABLE stories REPLICA IDENTITY FULL;
ALTER TABLE votes REPLICA IDENTITY FULL; ALTER TABLE comments REPLICA IDENTITY FULL;
ALTER TABLE accounts REPLICA IDENTITY FULL;
INSERT INTO users SELECT 'user' || i, 'about ' || i FROM generate_series(0, {len(USERS) - 1}) i;
INSERT INTO stories SELECT i, 'user' || i % 12, 'title ' || i, i % 7 FROM generate_series(1, 30) i;
INSERT INTO accounts SELECT i, 'owner' || i % 4, 1000 FROM generate_series(1, {len(ACCOUNTS)}) i;
"""


def plain(value: Any) -> Any:
    """A value of the database as the service's JSON has it."""
    if isinstance(value, Decimal):
        return format(value, "f")
    assert value is None or isinstance(value, int | str)
    return value


@dataclass(frozen=True, slots=True)
class PostgresNews:
    """The site in a database. Is a `News`."""

    database: Database
    tables: tuple[str, ...] = ("public.users", "public.stories", "public.votes", "public.comments", "public.accounts")

    @property
    def url(self) -> str:
        return self.database.url

    def create(self) -> None:
        self.database.execute(*[statement for statement in SCHEMA.split(";") if statement.strip()])

    def writer(self, gate: Gate, seed: int) -> Writer:
        return PostgresWriter(self.url, gate, seed)

    @contextmanager
    def snapshot(self) -> Iterator["PostgresState"]:
        with psycopg.connect(self.url) as connection:
            connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
            yield PostgresState(connection)


@dataclass(frozen=True, slots=True)
class PostgresState:
    """Is a `Snapshot`."""

    connection: psycopg.Connection

    def take(self) -> str:
        row = self.connection.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        return str(row[0])

    def rows(self, sql: str, value: str | None) -> list[list[Any]]:
        parameters = None if value is None else (value,)
        cursor = self.connection.execute(re.sub(r":\w+", "%s", sql).encode(), parameters)
        return [[plain(v) for v in row] for row in cursor.fetchall()]


class PostgresWriter(Writer):
    """Commits with and without waiting for the disk."""

    vote = (
        "INSERT INTO votes SELECT id, %s, %s FROM stories WHERE id = %s "
        "ON CONFLICT (story_id, voter) DO UPDATE SET value = excluded.value"
    )
    submit = "INSERT INTO stories VALUES (%s, %s, %s, 1.0) ON CONFLICT DO NOTHING"
    change_author = "UPDATE stories SET author = %s, title = title || '.' WHERE id = %s"
    comment = "INSERT INTO comments SELECT %s, id, %s, %s, %s FROM stories WHERE id = %s ON CONFLICT DO NOTHING"
    _connection: psycopg.Connection

    def __init__(self, url: str, gate: Gate, seed: int) -> None:
        super().__init__(gate, seed)
        self._url = url

    @contextmanager
    def connected(self) -> Iterator[None]:
        try:
            with psycopg.connect(self._url, autocommit=True) as self._connection:
                yield
        except psycopg.OperationalError as gone:  # At its beginning, or its end.
            raise Gone from gone

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            with self._connection.transaction():
                if self.random.random() < 0.4:
                    self._connection.execute("SET LOCAL synchronous_commit = off")
                yield
        except (psycopg.errors.IntegrityError, psycopg.errors.OperationalError) as lost:
            # Somebody else was there first, or a deadlock: what such a transaction did is undone.
            raise (Gone if self._connection.closed else Undone) from lost

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        with self._connection.transaction():
            yield

    def do(self, statement: str, *parameters: Any) -> None:
        self._connection.execute(statement.encode(), parameters)
