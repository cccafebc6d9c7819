"""Checks of answers: readers that vote on the front page and read again; and the distinct reads of a run's visitors,
for a comparison when all is quiet."""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from random import Random

import orjson

from load.driver.audit import Read
from load.driver.connection import Broken, SingleConnection
from load.driver.visit import READS, HttpCall, HttpReply, Visit, VisitSource, read_many, write
from load.sides.side import Side
from load.workloads.lobsters.dataset import slug
from load.workloads.lobsters.pages import rows_of, version_of
from load.workloads.lobsters.site import AMBIGUOUS

#: Between two looks.
_PAUSE_S = 0.1
_TIMEOUT_S = 30.0
#: Of a write that is not made: everything is as new as that.
_NO_WRITE = HttpReply(200, b'{"version": "0/0"}', None)


@dataclass(slots=True)
class OwnWrites:
    """How often somebody wrote and asked for what is as new as that, and how often the answer did not show it."""

    looked: int = 0
    not_shown: int = 0
    failed: int = 0


@contextmanager
def looking(side: Side, users: Sequence[int], seed: int) -> Iterator[OwnWrites]:
    """While the block runs: users, one after another, vote for a story of the front page and look again."""
    found = OwnWrites()
    stop = threading.Event()

    def look() -> None:
        random = Random(seed)
        with SingleConnection(side.reads_url, side.writes_url, _TIMEOUT_S) as connection:
            while not stop.wait(_PAUSE_S):
                _look(connection, random.choice(users), random, found)

    looker = threading.Thread(target=look)
    looker.start()
    try:
        yield found
    finally:
        stop.set()
        looker.join()


def _look(connection: SingleConnection, user: int, random: Random, found: OwnWrites) -> None:
    try:
        shown = connection.make(_vote_and_look(user, random))
    except (Broken, OSError, LookupError, ValueError):
        found.failed += 1
        return
    if len(shown) < _REPLIES:
        return
    found.looked += 1
    voted = [row["story_id"] for row in rows_of(shown[-1])[0]]
    before = [row["story_id"] for row in rows_of(shown[1])[0]]
    found.not_shown += len(voted) <= len(before)


#: Of somebody who found a story to vote for.
_REPLIES = 4


def _vote_and_look(user: int, random: Random) -> Visit:
    (reply,) = yield [read_many([("frontpage", {})])]
    # A comment or a vote of no story has a line of its own there, without an id.
    stories = [row["id"] for row in rows_of(reply)[0] if row["id"] is not None]
    votes = ("votes_on_stories", {"user_id": user, "story_ids": stories})
    (reply,) = yield [read_many([votes])]
    voted = {row["story_id"] for row in rows_of(reply)[0]}
    if others := [story for story in stories if story not in voted]:
        story = random.choice(others)
        of_vote = {"user_id": user, "story_id": story, "vote": 1, "short_id": slug(story)}
        (written,) = yield [write("vote_story", of_vote)]
        yield [read_many([votes], newer_than=version_of(written))]


def reads_of(workload: VisitSource, random: Random, visits: int, side: Side) -> list[Read]:
    """Distinct reads of so many visits on `side`. Nothing is written."""
    reads: dict[bytes, Read] = {}
    with SingleConnection(side.reads_url, side.writes_url, _TIMEOUT_S) as connection:
        for _ in range(visits):
            _, visit = workload.visit(random)
            for read in _reads(visit, connection):
                reads.setdefault(orjson.dumps(read), read)
    return [read for read in reads.values() if read[0] not in AMBIGUOUS]


def _reads(visit: Visit, connection: SingleConnection) -> Iterator[Read]:
    try:
        calls = next(visit)
        while True:
            for call in calls:
                yield from _reads_of_call(call)
            calls = visit.send([connection.ask(call) if call.server == READS else _NO_WRITE for call in calls])
    except (StopIteration, LookupError, ValueError):
        # A visit that reads what it would have written ends here.
        return


def _reads_of_call(call: HttpCall) -> Iterator[Read]:
    if call.server == READS:
        for read in orjson.loads(call.request.partition(b"\r\n\r\n")[2])["reads"]:
            yield read["view"], read["params"]
