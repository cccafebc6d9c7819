"""The front page of the vote benchmark's site: the stories with the most votes.

The view needs all rows: all stories, joined with the count of all votes. Few stories have many votes (the n-th
some `C` / √n), so that votes of a moment change who is in it.

A writer votes, takes votes back and renames stories, each in a transaction that has a number: `TICKS` says how many of
them an answer includes, so that it can be compared with what it must be, whenever it was given.
"""

import itertools
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from math import isqrt
from random import Random
from typing import Any

import psycopg

from load.site import SiteDefinition, SiteView
from load.workloads.vote import SCHEMA, STORY_WITH_VOTES

PAGE = 25
FRONT_PAGE = SiteView(
    "front_page",
    "SELECT s.id, s.title, s.author, COUNT(v.user_id) AS score FROM stories s LEFT JOIN votes v ON v.story_id = s.id"
    f" GROUP BY s.id, s.title, s.author ORDER BY score DESC, s.id LIMIT {PAGE}",
    {},
)
TICKS = SiteView("ticks", "SELECT COUNT(*) AS n FROM ticks", {})
#: Without the front page, which is installed when all the others are there.
SITE = SiteDefinition(
    "front page", SCHEMA + "CREATE TABLE ticks (n bigint PRIMARY KEY);", (STORY_WITH_VOTES, TICKS), ()
)
#: Writers have numbers; each has so many voters of its own.
_VOTERS = 1_000_000_000
#: Stories that half of what is written is about: those on the front page, or nearly.
_HOT = 100
#: Of a hundred changes.
_TAKEN_BACK, _RENAMED = 20, 5
_STEPS = 50

#: A story, how many votes it gains, and its new title.
Change = tuple[int, int, str | None]


def load_front_page(stories: int, votes: int, tell: Callable[[str], None]) -> Callable[[str], None]:
    """Writes stories, and about so many votes, into a database; says how far it is."""

    def load(url: str) -> None:
        scale = votes / (2 * isqrt(stories))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO stories SELECT n, n %% 50000, 'The story with the number ' || n,"
                " 'https://news.example/stories/' || n FROM generate_series(1, %s::bigint) n",
                [stories],
            )
            # An index that is made at the end takes a third of the time.
            connection.execute("ALTER TABLE votes DROP CONSTRAINT votes_pkey")
            # About as many votes in each step.
            ends = [round(stories * (step / _STEPS) ** 2) for step in range(_STEPS + 1)]
            for step, (after, last) in enumerate(itertools.pairwise(ends)):
                connection.execute(
                    "INSERT INTO votes SELECT n, u FROM generate_series(%s::bigint, %s::bigint) n,"
                    " generate_series(1, greatest(1, floor(%s::float8 / sqrt(n)))::bigint) u",
                    [after + 1, last, scale],
                )
                if step % 10 == 9:
                    tell(f"{(step + 1) / _STEPS:.0%} of {votes:,} votes are there")
            connection.execute("ALTER TABLE votes ADD PRIMARY KEY (story_id, user_id)")

    return load


class FrontPageWriter:
    """Writes one transaction after the other. `log` is what each of them changed."""

    def __init__(self, connection: psycopg.Connection, stories: int, seed: int = 1) -> None:
        self._connection = connection
        self._stories = stories
        self._random = Random(seed)
        self._votes: list[tuple[int, int]] = []
        row = connection.execute("SELECT nextval('voters')").fetchone()
        assert row is not None
        self._first_user = int(row[0]) * _VOTERS
        self.log: list[Change] = []

    def write(self, transactions: int) -> None:
        for _ in range(transactions):
            self._one(len(self.log) + 1)

    def _one(self, number: int) -> None:
        what = self._random.randrange(100)
        if what < _TAKEN_BACK and self._votes:
            at = self._random.randrange(len(self._votes))
            self._votes[at], self._votes[-1] = self._votes[-1], self._votes[at]
            story, user = self._votes.pop()
            self._run(number, "DELETE FROM votes WHERE story_id = %s AND user_id = %s", story, user)
            self.log.append((story, -1, None))
            return
        story = self._random.randint(1, min(_HOT, self._stories) if what % 2 else self._stories)
        if what >= 100 - _RENAMED:
            title = f"A story that was renamed {number}"
            self._run(number, "UPDATE stories SET title = %s WHERE id = %s", title, story)
            self.log.append((story, 0, title))
            return
        user = self._first_user + number
        self._run(number, "INSERT INTO votes VALUES (%s, %s)", story, user)
        self._votes.append((story, user))
        self.log.append((story, 1, None))

    def _run(self, number: int, statement: str, *parameters: Any) -> None:
        # One statement is one transaction.
        sql = f"WITH tick AS (INSERT INTO ticks VALUES (%s)) {statement}"
        self._connection.execute(sql.encode(), [number, *parameters], prepare=True)


@dataclass(slots=True)
class Truth:
    """The front page after each of a writer's transactions. Asked in the order of transactions."""

    #: By story.
    votes: "array[int]"
    #: Where they are not as they were loaded.
    titles: dict[int, str]
    #: Stories that may be in it: those with the most votes, and all that were written about. A vote is taken back only
    #: by the writer that gave it, so that the first ones never have less than at the beginning.
    touched: set[int]
    log: Sequence[Change] = ()
    applied: int = 0

    @classmethod
    def before(cls, url: str, stories: int) -> "Truth":
        """The state of the database before a writer begins."""
        votes = array("q", bytes(8 * (stories + 1)))
        with psycopg.connect(url) as connection, connection.cursor(name="votes") as cursor:
            cursor.itersize = 20_000
            cursor.execute("SELECT story_id, count(*) FROM votes GROUP BY story_id")
            for story, count in cursor:
                votes[story] = count
            renamed = connection.execute("SELECT id, title FROM stories WHERE title NOT LIKE 'The story with %'")
            titles = {int(story): str(title) for story, title in renamed.fetchall()}
        first = nsmallest(PAGE, range(1, stories + 1), key=lambda story: (-votes[story], story))
        return cls(votes, titles, set(first))

    def after(self, transactions: int) -> list[tuple[int, str, int, int]]:
        """The front page as it is after so many."""
        assert transactions >= self.applied, "asked in order"
        for story, votes, title in self.log[self.applied : transactions]:
            self.votes[story] += votes
            self.touched.add(story)
            if title is not None:
                self.titles[story] = title
        self.applied = transactions
        page = nsmallest(PAGE, self.touched, key=lambda story: (-self.votes[story], story))
        return [(story, self._title(story), story % 50000, self.votes[story]) for story in page]

    def _title(self, story: int) -> str:
        return self.titles.get(story, f"The story with the number {story}")
