"""The vote benchmark (thesis, Listing 6.1): stories with the number of their votes; mostly read, sometimes voted for.

Which story is read or voted for follows `Zipf`'s distribution. A visit reads one story, or several at once as clients
that batch do, or votes for one.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import psycopg

from load.driver.visit import READS, HttpCall, Visit, get, read_keys, write
from load.site import SiteDefinition, SiteView, SiteWrite
from load.workloads.zipf import Zipf

VIEW = "story_with_votes"
SCHEMA = """
CREATE TABLE stories (id bigint PRIMARY KEY, author bigint NOT NULL, title text NOT NULL, url text NOT NULL);
CREATE TABLE votes (story_id bigint NOT NULL, user_id bigint NOT NULL, PRIMARY KEY (story_id, user_id));
CREATE SEQUENCE voters;
"""
STORY_WITH_VOTES = SiteView(
    VIEW,
    "SELECT s.id, s.author, s.title, s.url, COUNT(v.user_id) AS votes FROM stories s"
    " LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id GROUP BY s.id, s.author, s.title, s.url",
    {"id": "bigint"},
)
VOTE = SiteWrite(
    "vote",
    # Always somebody new: runs do not meet.
    ("INSERT INTO votes (story_id, user_id) VALUES (:story, nextval('voters'))",),
    {"story": "bigint"},
    ((VIEW, {"id": ":story"}),),
)
SITE = SiteDefinition("vote", SCHEMA, (STORY_WITH_VOTES,), (VOTE,))


def load_stories(stories: int, votes_each: int) -> Callable[[str], None]:
    """Writes the rows into a database: each story has that many votes."""

    def load(url: str) -> None:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO stories SELECT n, n %% 50000, 'The story with the number ' || n,"
                " 'https://news.example/stories/' || n FROM generate_series(1, %s::bigint) n",
                [stories],
            )
            # In the order of the primary key, which makes its index dense.
            connection.execute(
                "INSERT INTO votes SELECT n, u FROM generate_series(1, %s::bigint) n, generate_series(1, %s::bigint) u",
                [stories, votes_each],
            )
            connection.execute("SELECT setval('voters', %s::bigint + 1)", [votes_each])

    return load


@dataclass(frozen=True, slots=True)
class VoteSpec:
    """Visitors of the vote site."""

    stories: int
    alpha: float = 1.15
    #: Of visits; the others vote.
    read_share: float = 0.99
    #: Stories that one reading visit reads, in one request.
    batch: int = 1
    #: After so many visits, of all generator processes together, another story becomes the most popular; 0: never.
    shift_every: int = 0

    def start(self, process: int, processes: int) -> "VoteWorkload":
        del process
        return VoteWorkload(self, Zipf(self.stories, self.alpha), processes)


class VoteWorkload:
    def __init__(self, spec: VoteSpec, zipf: Zipf, processes: int) -> None:
        self._spec = spec
        self._zipf = zipf
        self._shift_every = spec.shift_every / processes
        self._visits = 0

    def visit(self, random: Random) -> tuple[str, Visit]:
        self._visits += 1
        if random.random() >= self._spec.read_share:
            return "vote", _once(vote(self._story(random)))
        if self._spec.batch == 1:
            return "read", _once(HttpCall(READS, _READ % self._story(random)))
        keys = [{"id": self._story(random)} for _ in range(self._spec.batch)]
        return "read", _once(read_keys(VIEW, keys))

    def _story(self, random: Random) -> int:
        shift = int(self._visits / self._shift_every) if self._shift_every else 0
        return self._zipf.draw(random, shift)


def vote(story: int) -> HttpCall:
    return write(VOTE.name, {"story": story})


def _once(call: HttpCall) -> Visit:
    yield (call,)


#: The request that `get` makes, with a place for the story: reads are most of what is sent.
_READ = get(VIEW, {"id": 0}).request.replace(b"id=0", b"id=%d")
