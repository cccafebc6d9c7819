"""The news site on MariaDB. Names are compared without regard to case and to spaces at their ends; writers use that."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from tests.fixtures.mariadb import MariaDatabase
from tests.integration.news_workload import ACCOUNTS, USERS, Gate, Gone, Undone, Writer

if TYPE_CHECKING:
    import pymysql

SCHEMA = f"""
CREATE TABLE users (name varchar(40) PRIMARY KEY, about varchar(40));
CREATE TABLE stories (
    id int PRIMARY KEY, author varchar(40) NOT NULL, title varchar(200), score decimal(10, 2), KEY (author),
    FOREIGN KEY (author) REFERENCES users (name));
CREATE TABLE votes (
    story_id int NOT NULL, voter varchar(40) NOT NULL, value smallint, PRIMARY KEY (story_id, voter),
    FOREIGN KEY (story_id) REFERENCES stories (id), FOREIGN KEY (voter) REFERENCES users (name));
CREATE TABLE comments (
    id int PRIMARY KEY, story_id int NOT NULL, author varchar(40), parent_id int, body varchar(200), KEY (parent_id),
    FOREIGN KEY (story_id) REFERENCES stories (id), FOREIGN KEY (author) REFERENCES users (name));
CREATE TABLE accounts (id int PRIMARY KEY, owner varchar(40) NOT NULL, balance bigint NOT NULL, KEY (owner));
INSERT INTO users SELECT concat('user', seq), concat('about ', seq) FROM seq_0_to_{len(USERS) - 1};
INSERT INTO stories SELECT seq, concat('user', seq % 12), concat('title ', seq), seq % 7 FROM seq_1_to_30;
INSERT INTO accounts SELECT seq, concat('owner', seq % 4), 1000 FROM seq_1_to_{len(ACCOUNTS)};
"""
#: What a transaction ends with that others were in the way of: constraints, deadlocks, waits, what is too long.
_UNDONE = frozenset({1062, 1205, 1213, 1406, 1451, 1452, 1020})


def plain(value: Any) -> Any:
    """A value of the database as the service's JSON has it."""
    if isinstance(value, Decimal):
        return format(value, "f")
    assert value is None or isinstance(value, int | str)
    return value


def acting(schema: str) -> str:
    """Return the schema with foreign keys that change rows: those of comments by author become NULL."""
    before, comments = schema.split("CREATE TABLE comments")
    rule = "REFERENCES {} ON DELETE {} ON UPDATE CASCADE"
    for parent in ("users (name)", "stories (id)"):
        before = before.replace(f"REFERENCES {parent}", rule.format(parent, "CASCADE"))
        comments = comments.replace(
            f"REFERENCES {parent}", rule.format(parent, "SET NULL" if "users" in parent else "CASCADE")
        )
    return f"{before}CREATE TABLE comments{comments}"


class MariaNews:
    """The site in a database. Is a `News`."""

    def __init__(self, database: MariaDatabase, *, keys_act: bool = False) -> None:
        self._database = database
        #: Foreign keys change the rows of votes, stories and comments.
        self._keys_act = keys_act
        self.tables = tuple(f"{database.name}.{name}" for name in ("users", "stories", "votes", "comments", "accounts"))

    @property
    def url(self) -> str:
        return self._database.url

    def create(self) -> None:
        schema = acting(SCHEMA) if self._keys_act else SCHEMA
        self._database.execute(*[statement for statement in schema.split(";") if statement.strip()])

    def writer(self, gate: Gate, seed: int) -> Writer:
        return (ReferencedWriter if self._keys_act else MariaWriter)(self._database, gate, seed)

    @contextmanager
    def snapshot(self) -> Iterator["MariaState"]:
        with self._database.connect() as connection:
            yield MariaState(connection)


@dataclass(frozen=True, slots=True)
class MariaState:
    """Is a `Snapshot`."""

    connection: "pymysql.Connection[Any]"

    def take(self) -> str:
        with self.connection.cursor() as cursor:
            cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")
            cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
            status = {name.lower(): value for name, value in cursor.fetchall()}
        return f"{status['binlog_snapshot_file']}:{status['binlog_snapshot_position']}"

    def rows(self, sql: str, value: str | None) -> list[list[Any]]:
        statement = re.sub(r":\w+", "%s", sql)
        with self.connection.cursor() as cursor:
            cursor.execute(statement, None if value is None else (value,))
            return [[plain(v) for v in row] for row in cursor.fetchall()]


class MariaWriter(Writer):
    """Also writes users' names in other ways that are equal by the columns' collation."""

    vote = (
        "INSERT INTO votes SELECT id, %s, %s FROM stories WHERE id = %s ON DUPLICATE KEY UPDATE value = VALUES(value)"
    )
    submit = "INSERT IGNORE INTO stories VALUES (%s, %s, %s, 1.0)"
    change_author = "UPDATE stories SET author = %s, title = concat(title, '.') WHERE id = %s"
    comment = "INSERT IGNORE INTO comments SELECT %s, id, %s, %s, %s FROM stories WHERE id = %s"
    _connection: "pymysql.Connection[Any]"

    def __init__(self, database: MariaDatabase, gate: Gate, seed: int) -> None:
        super().__init__(gate, seed)
        self._database = database

    @contextmanager
    def connected(self) -> Iterator[None]:
        import pymysql

        try:
            with self._database.connect() as self._connection:
                yield
        except pymysql.err.OperationalError as gone:
            raise Gone from gone

    @contextmanager
    def transaction(self) -> Iterator[None]:
        import pymysql

        isolation = self.random.choice(("READ COMMITTED", "REPEATABLE READ"))
        try:
            self.do(f"SET TRANSACTION ISOLATION LEVEL {isolation}")
            self.do("BEGIN")
            try:
                yield
            except BaseException:
                if self._connection.open:
                    self.do("ROLLBACK")
                raise
            self.do("COMMIT")
        except pymysql.err.MySQLError as lost:
            if lost.args and lost.args[0] in _UNDONE:
                raise Undone from lost
            raise

    @contextmanager
    def savepoint(self) -> Iterator[None]:
        self.do("SAVEPOINT s")
        try:
            yield
        except Undone:
            self.do("ROLLBACK TO SAVEPOINT s")
            raise
        self.do("RELEASE SAVEPOINT s")

    def do(self, statement: str, *parameters: Any) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(statement, parameters or None)

    def user(self) -> str:
        name = super().user()
        return self.random.choice((name, name, name.upper(), name.title(), f"{name}  "))


class ReferencedWriter(MariaWriter):
    """Deletes and renames what others reference: foreign keys change the rest."""

    def _withdraw(self) -> None:
        self.do("DELETE FROM stories WHERE id = %s", self._story())

    def _renumber(self) -> None:
        self.do("UPDATE stories SET id = %s WHERE id = %s", self._story(), self._story())

    def _leave(self) -> None:
        user = self.user()
        self.do("DELETE FROM users WHERE name = %s", user)
        self.do("INSERT INTO users VALUES (%s, 'back')", user)

    def _respell(self) -> None:
        self.do("UPDATE users SET name = %s, about = 'renamed' WHERE name = %s", self.user(), self.user())

    def _resubmit(self) -> None:
        self.do("REPLACE INTO stories VALUES (%s, %s, 'again', 2.0)", self._story(), self.user())

    _actions = (*Writer._actions, _withdraw, _withdraw, _renumber, _leave, _respell, _respell, _resubmit)
