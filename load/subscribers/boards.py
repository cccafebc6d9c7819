"""Boards of notes, and a process that changes them: the data that subscribers follow.

A view answers with the notes of one board in order. Changes are small and of every kind: texts, places, notes that
move to another board, come and go. Each note carries the number of the change that wrote it, so that an event says
which commit it shows.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from random import Random
from time import monotonic, sleep
from typing import Any

import psycopg

from load.site import SiteDefinition, SiteView
from load.worker_process import worker_process

VIEW = "board"
#: Boards 1 … are the subscribers'; this one is changed a lot, for those who do not read.
HEAVY = 0
SQL = "SELECT id, rank, text, change FROM notes WHERE board = :board ORDER BY rank, id"
SCHEMA = """
CREATE TABLE notes (
    id integer PRIMARY KEY, board integer NOT NULL, rank integer NOT NULL, text text NOT NULL, change integer NOT NULL
);
CREATE INDEX notes_of ON notes (board);
"""
SITE = SiteDefinition("boards", SCHEMA, (SiteView(VIEW, SQL, {"board": "integer"}),), ())
NOTES_EACH = 20
#: Of its text; an event has the old one and the new one.
HEAVY_BYTES = 20_000
_RANKS = 1000


def load(boards: int) -> Callable[[str], None]:
    """Writes the notes into a database."""

    def write(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO notes SELECT n, 1 + n %% %s, n * 7919 %% %s, 'note ' || n, 0"
                " FROM generate_series(1, %s::integer) n",
                [boards, _RANKS, boards * NOTES_EACH],
            )
            connection.execute("INSERT INTO notes VALUES (0, %s, 0, '', 0)", [HEAVY])

    return write


class Changer:
    """Makes changes, each a transaction, through a connection in autocommit mode."""

    def __init__(self, connection: psycopg.Connection[Any], boards: int, seed: int = 1) -> None:
        self._connection = connection
        self._boards = boards
        self._random = Random(seed)
        #: Of the notes that nobody deletes, and of all.
        self._last_id = boards * NOTES_EACH
        row = connection.execute("SELECT max(id) FROM notes").fetchone()
        self._next_id = self._last_id if row is None else int(row[0])
        self.made = 0

    def change(self) -> int:
        self.made += 1
        random, number = self._random, self.made
        note, board = random.randint(1, self._last_id), random.randint(1, self._boards)
        kind = random.random()
        if kind < 0.15:
            self._next_id += 1
            self._run(
                "INSERT INTO notes VALUES (%s, %s, %s, 'new', %s)",
                self._next_id,
                board,
                random.randrange(_RANKS),
                number,
            )
        elif kind < 0.25:
            self._run("DELETE FROM notes WHERE id = (SELECT max(id) FROM notes WHERE id > %s)", self._last_id)
        elif kind < 0.35:
            self._run("UPDATE notes SET board = %s, change = %s WHERE id = %s", board, number, note)
        elif kind < 0.6:
            rank = random.randrange(_RANKS)
            self._run("UPDATE notes SET rank = %s, change = %s WHERE id = %s", rank, number, note)
        else:
            self._run("UPDATE notes SET text = %s, change = %s WHERE id = %s", f"text {number}", number, note)
        return number

    def change_heavy(self) -> None:
        """One that is large, of the board for those who do not read."""
        text = self._random.randbytes(HEAVY_BYTES // 2).hex()
        self._run("UPDATE notes SET text = %s WHERE id = 0", text)

    def _run(self, statement: str, *values: object) -> None:
        self._connection.execute(statement.encode(), values)


def notes_of(url: str, boards: int) -> dict[int, list[dict[str, Any]]]:
    """Rows of the database, by board."""
    with psycopg.connect(url) as connection:
        query = "SELECT board, id, rank, text, change FROM notes ORDER BY board, rank, id"
        found: dict[int, list[dict[str, Any]]] = {board: [] for board in range(boards + 1)}
        for board, *row in connection.execute(query):
            found[board].append(dict(zip(("id", "rank", "text", "change"), row, strict=True)))
        return found


@dataclass(frozen=True, slots=True)
class ChangeJob:
    """Task of the writer process: `rate` changes a second, and `heavy_rate` large ones, for `seconds`."""

    url: str
    boards: int
    rate: float
    heavy_rate: float
    seconds: float


def change_on(pipe: Pipe, job: ChangeJob) -> None:
    """The process: reports that it is ready, waits for the start, sends when each change was committed."""
    with psycopg.connect(job.url, autocommit=True) as connection:
        changer = Changer(connection, job.boards)
        pipe.send(None)
        pipe.recv()
        start, committed, heavy = monotonic(), {}, 0
        while (elapsed := monotonic() - start) < job.seconds:
            if changer.made < job.rate * elapsed:
                number = changer.change()
                committed[number] = monotonic()
            elif heavy < job.heavy_rate * elapsed:
                changer.change_heavy()
                heavy += 1
            else:
                sleep(0.001)
        pipe.send(committed)
        with suppress(EOFError):
            pipe.recv()


def changing(job: ChangeJob) -> AbstractContextManager[Pipe]:
    """The process, ready to begin: send it anything, and receive the times of all changes by their numbers."""
    return worker_process(change_on, job)
