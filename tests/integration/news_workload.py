"""Writers that make life hard for a cache of a small news site with accounts: `WRITERS` connections at once.

Transactions of several statements, updates that move rows between keys, deletes, rollbacks, savepoints, and commits
with and without waiting for the disk. A `Gate` lets a checker stop all of them between two transactions: the moment
that the writers agree on.
"""

import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import psycopg

WRITERS = 8
USERS = [f"user{i}" for i in range(12)]
STORIES = range(1, 61)
ACCOUNTS = range(1, 17)
OWNERS = [f"owner{i}" for i in range(4)]
#: What all accounts hold together, always.
MONEY = 1000 * len(ACCOUNTS)

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

#: name -> (SQL, its parameter, the values it takes, whether the order is total).
VIEWS: dict[str, tuple[str, str | None, list[str], bool]] = {
    "story_with_votes": (
        "SELECT s.id, s.title, s.author, COUNT(v.voter) AS votes, SUM(v.value) AS score FROM stories s "
        "LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id, s.title, s.author",
        "id", [str(i) for i in STORIES], True,
    ),
    "stories_of_author": (
        "SELECT s.id, s.title, COALESCE(SUM(v.value), 0) AS score FROM stories s LEFT JOIN votes v "
        "ON v.story_id = s.id WHERE s.author = :author GROUP BY s.id, s.title ORDER BY s.id DESC",
        "author", USERS, True,
    ),
    "comments_of_story": (
        "SELECT c.id, c.body, u.name, u.about FROM comments c LEFT JOIN users u ON u.name = c.author "
        "WHERE c.story_id = :story ORDER BY c.id",
        "story", [str(i) for i in STORIES], True,
    ),
    "replies_to": (
        "SELECT p.id AS parent, r.id AS reply, r.body FROM comments p JOIN comments r ON r.parent_id = p.id "
        "WHERE p.story_id = :story",
        "story", [str(i) for i in STORIES], False,
    ),
    "karma": (
        "SELECT u.name, COALESCE(SUM(v.value), 0) AS karma, COUNT(s.id) AS stories FROM users u "
        "LEFT JOIN stories s ON s.author = u.name LEFT JOIN votes v ON v.story_id = s.id "
        "WHERE u.name = :name GROUP BY u.name",
        "name", USERS, True,
    ),
    "votes_by": ("SELECT COUNT(*) AS n, MIN(story_id) AS first, AVG(value) AS mean FROM votes WHERE voter = :voter",
                 "voter", USERS, True),
    "account": ("SELECT id, owner, balance FROM accounts WHERE id = :id", "id", [str(i) for i in ACCOUNTS], True),
    "wealth": ("SELECT owner, SUM(balance) AS total, COUNT(*) AS accounts FROM accounts WHERE owner = :owner "
               "GROUP BY owner", "owner", OWNERS, True),
    "front_page": (
        "SELECT s.id, s.title, COUNT(c.id) AS comments FROM stories s LEFT JOIN comments c ON c.story_id = s.id "
        "GROUP BY s.id, s.title ORDER BY comments DESC, s.id LIMIT 10",
        None, [], True,
    ),
}  # fmt: skip


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


class Writer(threading.Thread):
    """One connection's worth of random transactions, until told to stop."""

    def __init__(self, url: str, gate: Gate, seed: int) -> None:
        super().__init__(daemon=True)
        self._url = url
        self._gate = gate
        self._random = random.Random(seed)
        self._stop_asked = threading.Event()
        self.commits = 0
        self.rollbacks = 0
        self.failure: BaseException | None = None

    def stop(self) -> None:
        """Ask it to end, and wait."""
        self._stop_asked.set()
        self.join(30)

    def run(self) -> None:
        try:
            with psycopg.connect(self._url, autocommit=True) as connection:
                while not self._stop_asked.is_set():
                    with self._gate.transaction():
                        self._transaction(connection)
        except BaseException as failure:
            self.failure = failure

    def _transaction(self, connection: psycopg.Connection) -> None:
        try:
            with connection.transaction():
                if self._random.random() < 0.4:
                    connection.execute("SET LOCAL synchronous_commit = off")
                for _ in range(self._random.randint(1, 4)):
                    self._statement(connection)
                if self._random.random() < 0.15:
                    raise psycopg.Rollback
                self.commits += 1
        except (psycopg.errors.IntegrityError, psycopg.errors.OperationalError):
            # Somebody else was there first, or a deadlock: what such a transaction did is undone.
            self.rollbacks += 1

    def _statement(self, connection: psycopg.Connection) -> None:
        action = self._random.choice(self._actions)
        if self._random.random() < 0.2:
            with connection.transaction():
                action(self, connection)
                if self._random.random() < 0.4:
                    raise psycopg.Rollback
        else:
            action(self, connection)

    def _story(self) -> int:
        return min(self._random.choice(STORIES), self._random.choice(STORIES))

    def _user(self) -> str:
        return self._random.choice(USERS)

    def _vote(self, c: psycopg.Connection) -> None:
        c.execute(
            "INSERT INTO votes SELECT id, %s, %s FROM stories WHERE id = %s "
            "ON CONFLICT (story_id, voter) DO UPDATE SET value = excluded.value",
            (self._user(), self._random.choice((-1, 1, 1, 5, None)), self._story()),
        )

    def _unvote(self, c: psycopg.Connection) -> None:
        c.execute("DELETE FROM votes WHERE story_id = %s AND voter < %s", (self._story(), self._user()))

    def _move_votes(self, c: psycopg.Connection) -> None:
        c.execute("UPDATE votes SET voter = %s WHERE story_id = %s AND voter = %s",
                  (self._user(), self._story(), self._user()))  # fmt: skip

    def _submit(self, c: psycopg.Connection) -> None:
        c.execute("INSERT INTO stories VALUES (%s, %s, %s, 1.0) ON CONFLICT DO NOTHING",
                  (self._story(), self._user(), f"title {self._random.random()}"))  # fmt: skip

    def _change_author(self, c: psycopg.Connection) -> None:
        c.execute("UPDATE stories SET author = %s, title = title || '.' WHERE id = %s", (self._user(), self._story()))

    def _withdraw(self, c: psycopg.Connection) -> None:
        story = self._story()
        c.execute("DELETE FROM votes WHERE story_id = %s", (story,))
        c.execute("DELETE FROM comments WHERE story_id = %s", (story,))
        c.execute("DELETE FROM stories WHERE id = %s", (story,))

    def _comment(self, c: psycopg.Connection) -> None:
        author = self._random.choice([*USERS, None])
        c.execute(
            "INSERT INTO comments SELECT %s, id, %s, %s, %s FROM stories WHERE id = %s ON CONFLICT DO NOTHING",
            (self._random.randint(1, 300), author, self._random.randint(1, 300), "text", self._story()),
        )

    def _move_comments(self, c: psycopg.Connection) -> None:
        c.execute("UPDATE comments SET story_id = %s, parent_id = %s WHERE id %% 50 = %s",
                  (self._story(), self._random.randint(1, 300), self._random.randint(0, 49)))  # fmt: skip

    def _uncomment(self, c: psycopg.Connection) -> None:
        c.execute("DELETE FROM comments WHERE id %% 40 = %s", (self._random.randint(0, 39),))

    def _introduce(self, c: psycopg.Connection) -> None:
        c.execute("UPDATE users SET about = %s WHERE name = %s", (str(self._random.random()), self._user()))

    def _transfer(self, c: psycopg.Connection) -> None:
        giver, taker = self._random.sample(ACCOUNTS, 2)
        amount = self._random.randint(1, 50)
        c.execute("UPDATE accounts SET balance = balance - %s WHERE id = %s", (amount, giver))
        c.execute("UPDATE accounts SET balance = balance + %s WHERE id = %s", (amount, taker))

    def _change_owner(self, c: psycopg.Connection) -> None:
        c.execute("UPDATE accounts SET owner = %s WHERE id = %s",
                  (self._random.choice(OWNERS), self._random.choice(ACCOUNTS)))  # fmt: skip

    _actions: tuple[Callable[["Writer", psycopg.Connection], None], ...] = (
        _vote, _vote, _vote, _unvote, _move_votes, _submit, _submit, _change_author, _withdraw, _comment, _comment,
        _move_comments, _uncomment, _introduce, _transfer, _transfer, _transfer, _change_owner,
    )  # fmt: skip
