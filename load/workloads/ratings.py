"""The vote site when it begins to have ratings, too (thesis, Listing 6.2): a new view counts both.

Visitors of three kinds, to be run beside each other: they read the old view, read the new one, or write and look
whether they see it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

import orjson
import psycopg

from load.driver.visit import Visit, get, read_many, write
from load.sides.side import SiteDefinition, SiteView, SiteWrite
from load.workloads import vote
from load.workloads.zipf import Zipf

SCHEMA = (
    vote.SCHEMA
    + """
CREATE TABLE ratings (
    story_id bigint NOT NULL, user_id bigint NOT NULL, rating integer NOT NULL, PRIMARY KEY (story_id, user_id)
);
"""
)
NEW_VIEW = SiteView(
    "story_with_score",
    "SELECT s.id, s.author, s.title, s.url, SUM(scores.score) AS score FROM stories s LEFT JOIN ("
    "SELECT story_id, COUNT(user_id) AS score FROM votes GROUP BY story_id"
    " UNION ALL SELECT story_id, SUM(rating) AS score FROM ratings GROUP BY story_id"
    ") scores ON scores.story_id = s.id WHERE s.id = :id GROUP BY s.id, s.author, s.title, s.url",
    {"id": "bigint"},
)
RATE = SiteWrite(
    "rate",
    ("INSERT INTO ratings (story_id, user_id, rating) VALUES (:story, nextval('voters'), :rating)",),
    {"story": "bigint", "rating": "integer"},
)
#: Without the new view.
SITE = SiteDefinition("ratings", SCHEMA, (vote.STORY_WITH_VOTES,), (vote.VOTE, RATE))

_RATINGS = 100


def load_ratings(stories: int, votes_each: int) -> Callable[[str], None]:
    """Stories and votes as the vote site's; each story has been rated once."""

    def load(url: str) -> None:
        vote.load_stories(stories, votes_each)(url)
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute(
                "INSERT INTO ratings SELECT n, 1, n %% 100 FROM generate_series(1, %s::bigint) n", [stories]
            )

    return load


@dataclass(frozen=True, slots=True)
class Readers:
    """Visitors that read a view by story."""

    view: str
    stories: int
    alpha: float

    def start(self, process: int, processes: int) -> "_Reading":
        """In one generator process."""
        del process, processes
        return _Reading(self.view, Zipf(self.stories, self.alpha))


@dataclass(frozen=True, slots=True)
class Writers:
    """Visitors that vote or rate, and then read the story as new as that."""

    stories: int
    alpha: float

    def start(self, process: int, processes: int) -> "_Writing":
        """In one generator process."""
        del process, processes
        return _Writing(Zipf(self.stories, self.alpha))


class _Reading:
    """A `Workload`."""

    def __init__(self, view: str, zipf: Zipf) -> None:
        self._view = view
        self._zipf = zipf

    def visit(self, random: Random) -> tuple[str, Visit]:
        """Reads a story."""
        return self._view, self._read(self._zipf.draw(random))

    def _read(self, story: int) -> Visit:
        yield (get(self._view, {"id": story}),)


class _Writing:
    """A `Workload`."""

    def __init__(self, zipf: Zipf) -> None:
        self._zipf = zipf

    def visit(self, random: Random) -> tuple[str, Visit]:
        """Votes or rates."""
        story = self._zipf.draw(random)
        if random.random() < 0.5:
            return vote.VOTE.name, _write_and_see(vote.VOTE.name, {"story": story})
        return RATE.name, _write_and_see(RATE.name, {"story": story, "rating": random.randrange(_RATINGS)})


def _write_and_see(name: str, parameters: dict[str, int]) -> Visit:
    (reply,) = yield (write(name, parameters),)
    version = orjson.loads(reply.body)["version"]
    yield (read_many([(vote.VIEW, {"id": parameters["story"]})], newer_than=version),)
