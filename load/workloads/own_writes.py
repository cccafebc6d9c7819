"""Read-your-writes workload: pairs of a write and a read that must show it.

A write is a transaction of two statements, a counter and a line of its ledger; the view joins both. So an answer shows
whether it has the write, and whether it has all of it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, Protocol

import psycopg

from load.plain_http import PlainClient
from load.postgres_log import log_end
from load.site import SiteDefinition, SiteView

VIEW = "counter"
SQL = (
    "SELECT c.id, c.n, COUNT(l.id) AS entries FROM counters c LEFT JOIN ledger l ON l.counter = c.id"
    " WHERE c.id = :id GROUP BY c.id, c.n"
)
SCHEMA = (
    "CREATE TABLE counters (id integer PRIMARY KEY, n integer NOT NULL)",
    "CREATE TABLE ledger (id integer PRIMARY KEY, counter integer NOT NULL)",
    "CREATE INDEX ledger_of ON ledger (counter)",
)
SITE = SiteDefinition("own writes", "; ".join(SCHEMA), (SiteView(VIEW, SQL, {"id": "integer"}),), ())
UPDATE = "UPDATE counters SET n = n + 1 WHERE id = %s"
INSERT = "INSERT INTO ledger (id, counter) VALUES (%s, %s)"
#: Seconds that a read waits for the token's version.
WAIT_S = 10


def fill_sql(counters: int) -> str:
    """The statement that makes the counters, all at zero."""
    return "INSERT INTO counters (id, n) VALUES " + ", ".join(f"({number}, 0)" for number in range(counters))


class Author(Protocol):
    """A writer with a connection of its own."""

    def write(self, counter: int, entry: int) -> str:
        """Counts up in a transaction, with a new entry in the ledger; returns a token that comes after its commit."""
        ...


class PostgresAuthor:
    """The token is the end of the log."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self._connection = connection

    def write(self, counter: int, entry: int) -> str:
        """Write, and ask for the log's end once that is committed."""
        with self._connection.transaction():
            self._connection.execute(UPDATE, [counter])
            self._connection.execute(INSERT, [entry, counter])
        return log_end(self._connection)


@dataclass(slots=True)
class PairCounts:
    """Results of the reads of some pairs."""

    pairs: int = 0
    #: Answers without the write that had been committed before.
    missed: int = 0
    #: Answers with a part of a transaction.
    torn: int = 0
    #: Of each read.
    milliseconds: list[float] = field(default_factory=list)


class Pairs:
    """Writes and reads in turns. *State*: `written`, how often each counter was counted up; `_entries` so far."""

    def __init__(self, author: Author, clients: Sequence[PlainClient], counters: int) -> None:
        self._author = author
        self._clients = clients
        self.written = [0] * counters
        self._entries = 0

    def run(self, pairs: int, *, with_token: bool) -> PairCounts:
        """So many pairs, each of one counter, read through one connection after the other."""
        found = PairCounts()
        for number in range(pairs):
            counter = number % len(self.written)
            token = self._author.write(counter, self._entries)
            self._entries += 1
            self.written[counter] += 1
            headers = {"Upquery-Min-Version": token, "Prefer": f"wait={WAIT_S}"} if with_token else None
            started = perf_counter()
            (row,) = self._clients[number % len(self._clients)].read(f"/v1/views/{VIEW}?id={counter}", headers)
            found.milliseconds.append((perf_counter() - started) * 1000)
            found.pairs += 1
            found.missed += row["n"] < self.written[counter]
            found.torn += row["n"] != row["entries"]
        return found
