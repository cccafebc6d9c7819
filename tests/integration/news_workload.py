"""Writers that make life hard for a cache of a small news site with accounts: `WRITERS` connections at once.

Transactions of several statements, updates that move rows between keys, deletes, rollbacks, savepoints. A `Gate` lets a
checker stop all of them between two transactions: the moment that the writers agree on. `News` is the site on one kind
of database; see `news_postgres` and `news_mariadb`.
"""

import random
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any, ClassVar, Protocol

WRITERS = 8
USERS = [f"user{i}" for i in range(12)]
STORIES = range(1, 61)
ACCOUNTS = range(1, 17)
OWNERS = [f"owner{i}" for i in range(4)]
#: What all accounts hold together, always.
MONEY = 1000 * len(ACCOUNTS)

#: name -> (SQL, its parameter, the values it takes, whether the order is total).
VIEWS: dict[str, tuple[str, str | None, list[str], bool]] = {
    "story_with_votes": (
        "SELECT s.id, s.title, s.author, COUNT(v.voter) AS votes, SUM(v.value) AS score FROM stories s "
        "LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id, s.title, s.author",
        "id",
        [str(i) for i in STORIES],
        True,
    ),
    "stories_of_author": (
        "SELECT s.id, s.title, COALESCE(SUM(v.value), 0) AS score FROM stories s LEFT JOIN votes v "
        "ON v.story_id = s.id WHERE s.author = :author GROUP BY s.id, s.title ORDER BY s.id DESC",
        "author",
        USERS,
        True,
    ),
    "comments_of_story": (
        "SELECT c.id, c.body, u.name, u.about FROM comments c LEFT JOIN users u ON u.name = c.author "
        "WHERE c.story_id = :story ORDER BY c.id",
        "story",
        [str(i) for i in STORIES],
        True,
    ),
    "replies_to": (
        "SELECT p.id AS parent, r.id AS reply, r.body FROM comments p JOIN comments r ON r.parent_id = p.id "
        "WHERE p.story_id = :story",
        "story",
        [str(i) for i in STORIES],
        False,
    ),
    "karma": (
        "SELECT u.name, COALESCE(SUM(v.value), 0) AS karma, COUNT(s.id) AS stories FROM users u "
        "LEFT JOIN stories s ON s.author = u.name LEFT JOIN votes v ON v.story_id = s.id "
        "WHERE u.name = :name GROUP BY u.name",
        "name",
        USERS,
        True,
    ),
    "votes_by": (
        "SELECT COUNT(*) AS n, MIN(story_id) AS first, AVG(value) AS mean FROM votes WHERE voter = :voter",
        "voter",
        USERS,
        True,
    ),
    "account": ("SELECT id, owner, balance FROM accounts WHERE id = :id", "id", [str(i) for i in ACCOUNTS], True),
    "wealth": (
        "SELECT owner, SUM(balance) AS total, COUNT(*) AS accounts FROM accounts WHERE owner = :owner GROUP BY owner",
        "owner",
        OWNERS,
        True,
    ),
    "front_page": (
        "SELECT s.id, s.title, COUNT(c.id) AS comments FROM stories s LEFT JOIN comments c ON c.story_id = s.id "
        "GROUP BY s.id, s.title ORDER BY comments DESC, s.id LIMIT 10",
        None,
        [],
        True,
    ),
}
ALL_KEYS = [(name, value) for name, (_, _, values, _) in VIEWS.items() for value in values or [None]]


class Snapshot(Protocol):
    """One consistent state of the database."""

    def take(self) -> str:
        """Fix it; a version that answers must have to show it, as ``Upquery-Min-Version``."""
        ...

    def rows(self, sql: str, value: str | None) -> list[list[Any]]:
        """The rows of a view at it, as the service's JSON has them."""
        ...


class News(Protocol):
    """The site, in a database of its own."""

    #: Names of the tables, as the upstream has them.
    tables: tuple[str, ...]

    @property
    def url(self) -> str:
        """URL for the service."""
        ...

    def create(self) -> None:
        """Make the tables and some rows."""
        ...

    def writer(self, gate: "Gate", seed: int) -> "Writer":
        """A writer that has not been started."""
        ...

    def snapshot(self) -> AbstractContextManager[Snapshot]:
        """A connection for one snapshot."""
        ...


class Gate:
    """Writers pass it with each transaction; closing it waits until all are outside."""

    def __init__(self) -> None:
        self._condition = threading.Condition()
        self._inside = 0
        self._closed = False

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """For a writer: waits while the gate is closed."""
        with self._condition:
            self._condition.wait_for(lambda: not self._closed)
            self._inside += 1
        try:
            yield
        finally:
            with self._condition:
                self._inside -= 1
                self._condition.notify_all()

    @contextmanager
    def closed(self) -> Iterator[None]:
        """For the checker: no transaction is open meanwhile."""
        with self._condition:
            self._closed = True
            self._condition.wait_for(lambda: self._inside == 0)
        try:
            yield
        finally:
            with self._condition:
                self._closed = False
                self._condition.notify_all()


class Undone(Exception):
    """A transaction, or a part of it, is rolled back: it was to be, or somebody else was there first."""


class Gone(Exception):
    """The connection is lost."""


class Writer(threading.Thread):
    """One connection's worth of random transactions, until told to stop.

    A lost connection is made anew: whether its last transaction was committed is the database's to know.
    """

    #: Statements that are not the same in all dialects: parameters in the order of the actions below.
    vote: ClassVar[str]
    submit: ClassVar[str]
    change_author: ClassVar[str]
    comment: ClassVar[str]

    def __init__(self, gate: Gate, seed: int) -> None:
        super().__init__(daemon=True)
        self._gate = gate
        self.random = random.Random(seed)
        self._stop_asked = threading.Event()
        #: Between two transactions.
        self.pause_s = 0.0
        self.commits = 0
        self.rollbacks = 0
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._stop_asked.set()
        self.join(30)

    def run(self) -> None:
        try:
            while not self._stop_asked.is_set():
                try:
                    self._write()
                except Gone:
                    self._stop_asked.wait(0.1)
        except BaseException as failure:
            self.failure = failure

    def _write(self) -> None:
        with self.connected():
            while not self._stop_asked.is_set():
                with self._gate.transaction():
                    self._transaction()
                if self.pause_s:
                    self._stop_asked.wait(self.pause_s)

    def _transaction(self) -> None:
        try:
            with self.transaction():
                for _ in range(self.random.randint(1, 4)):
                    self._statement()
                if self.random.random() < 0.15:
                    raise Undone
            self.commits += 1
        except Undone:
            self.rollbacks += 1

    def _statement(self) -> None:
        action = self.random.choice(self._actions)
        if self.random.random() >= 0.2:
            action(self)
        elif self.random.random() >= 0.4:
            with self.savepoint():
                action(self)
        else:
            with suppress(Undone), self.savepoint():
                action(self)
                raise Undone

    def connected(self) -> AbstractContextManager[None]:
        """A connection, for the length of a block. Raises `Gone`, also in the block."""
        raise NotImplementedError

    def transaction(self) -> AbstractContextManager[None]:
        """A transaction, committed at the end of the block; on Undone, rolled back. Raises `Undone`, `Gone`."""
        raise NotImplementedError

    def savepoint(self) -> AbstractContextManager[None]:
        """A savepoint; on Undone, what came after it is rolled back. Raises `Undone`."""
        raise NotImplementedError

    def do(self, statement: str, *parameters: Any) -> None:
        """Run a statement."""
        raise NotImplementedError

    def user(self) -> str:
        """One of the users, as somebody may write it."""
        return self.random.choice(USERS)

    def _story(self) -> int:
        return min(self.random.choice(STORIES), self.random.choice(STORIES))

    def _vote(self) -> None:
        self.do(self.vote, self.user(), self.random.choice((-1, 1, 1, 5, None)), self._story())

    def _unvote(self) -> None:
        self.do("DELETE FROM votes WHERE story_id = %s AND voter < %s", self._story(), self.user())

    def _move_votes(self) -> None:
        statement = "UPDATE votes SET voter = %s WHERE story_id = %s AND voter = %s"
        self.do(statement, self.user(), self._story(), self.user())

    def _submit(self) -> None:
        self.do(self.submit, self._story(), self.user(), f"title {self.random.random()}")

    def _change_author(self) -> None:
        self.do(self.change_author, self.user(), self._story())

    def _withdraw(self) -> None:
        story = self._story()
        for statement in (
            "DELETE FROM votes WHERE story_id = %s",
            "DELETE FROM comments WHERE story_id = %s",
            "DELETE FROM stories WHERE id = %s",
        ):
            self.do(statement, story)

    def _comment(self) -> None:
        author = self.user() if self.random.random() < 0.9 else None
        number, parent = self.random.randint(1, 300), self.random.randint(1, 300)
        self.do(self.comment, number, author, parent, "text", self._story())

    def _move_comments(self) -> None:
        statement = "UPDATE comments SET story_id = %s, parent_id = %s WHERE id %% 50 = %s"
        self.do(statement, self._story(), self.random.randint(1, 300), self.random.randint(0, 49))

    def _uncomment(self) -> None:
        self.do("DELETE FROM comments WHERE id %% 40 = %s", self.random.randint(0, 39))

    def _introduce(self) -> None:
        self.do("UPDATE users SET about = %s WHERE name = %s", str(self.random.random()), self.user())

    def _transfer(self) -> None:
        giver, taker = self.random.sample(ACCOUNTS, 2)
        amount = self.random.randint(1, 50)
        self.do("UPDATE accounts SET balance = balance - %s WHERE id = %s", amount, giver)
        self.do("UPDATE accounts SET balance = balance + %s WHERE id = %s", amount, taker)

    def _change_owner(self) -> None:
        owner, account = self.random.choice(OWNERS), self.random.choice(ACCOUNTS)
        self.do("UPDATE accounts SET owner = %s WHERE id = %s", owner, account)

    _actions = (
        _vote,
        _vote,
        _vote,
        _unvote,
        _move_votes,
        _submit,
        _submit,
        _change_author,
        _withdraw,
        _comment,
        _comment,
        _move_comments,
        _uncomment,
        _introduce,
        _transfer,
        _transfer,
        _transfer,
        _change_owner,
    )
