"""Changes for one dataflow, in transactions of a given size, as many a second as are asked for.

A procedure of the database commits one transaction after another, so that what limits is who follows the stream and
not who writes. `votes`: votes for stories (thesis, Listing 6.1). `notifications`: people of Lobsters see a story again,
which may change what they are notified of (thesis, §6.8).
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

import psycopg

from load.site import SiteDefinition
from load.workloads import vote
from load.workloads.lobsters.bulk_load import load as load_lobsters
from load.workloads.lobsters.dataset import LobstersSize
from load.workloads.lobsters.site import lobsters
from load.workloads.zipf import Zipf

_PROCEDURE = """
CREATE PROCEDURE change(ids bigint[], many integer) LANGUAGE plpgsql AS $$
BEGIN
    FOR i IN 1 .. cardinality(ids) BY many LOOP
        {statement};
        COMMIT;
    END LOOP;
END $$;
"""
_VOTE = "INSERT INTO votes SELECT id, nextval('voters') FROM unnest(ids[i : i + many - 1]) id"
_SEE = "UPDATE read_ribbons SET updated_at = localtimestamp WHERE id = ANY (ids[i : i + many - 1])"
_NOTIFICATIONS = "notifications"


@dataclass(frozen=True, slots=True)
class ChangeWorkload:
    """A site that changes in one way. What is written is drawn from ids 1 … `ids` with skew `alpha`."""

    name: str
    site: SiteDefinition
    load: Callable[[str], None]
    #: The view that follows, its keys that are read before, the most changed last, and how many.
    view: str
    keys: Callable[[], Iterator[Mapping[str, Any]]]
    alpha: float
    #: Finds how many ids there are.
    count_sql: str


def votes(stories: int, votes_each: int, alpha: float, hottest: int) -> ChangeWorkload:
    """Votes, by Zipf's distribution; the hottest stories are in memory."""

    def keys() -> Iterator[dict[str, int]]:
        return ({"id": story} for story in reversed(list(Zipf(stories, alpha).hottest(hottest))))

    def load(url: str) -> None:
        vote.load_stories(stories, votes_each)(url)
        _create(url, _VOTE)

    return ChangeWorkload("votes", vote.SITE, load, vote.VIEW, keys, alpha, "SELECT count(*) FROM stories")


def notifications(scale: float) -> ChangeWorkload:
    """Ribbons of Lobsters, each as often; everybody's notifications are in memory."""
    size = LobstersSize(scale)
    whole = lobsters()
    views = tuple(view for view in whole.views if view.name == _NOTIFICATIONS)
    site = SiteDefinition(whole.name, whole.schema_sql, views, ())

    def keys() -> Iterator[dict[str, int]]:
        return ({"user_id": user} for user in range(1, size.users + 1))

    def load(url: str) -> None:
        load_lobsters(url, size)
        _create(url, _SEE)

    return ChangeWorkload("notifications", site, load, _NOTIFICATIONS, keys, 0.0, "SELECT count(*) FROM read_ribbons")


def _create(url: str, statement: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(_PROCEDURE.format(statement=statement).encode())


class ChangeWriter:
    """Makes changes through one connection."""

    def __init__(self, connection: psycopg.Connection[Any], ids: int, alpha: float, many: int) -> None:
        self._connection = connection
        self._zipf = Zipf(ids, alpha)
        self._random = Random(1)
        self._many = many

    def write(self, changes: int) -> None:
        """So many, in transactions of `many`; the connection is in autocommit mode."""
        ids = [self._zipf.draw(self._random) for _ in range(changes)]
        self._connection.execute("CALL change(%s::bigint[], %s)", (ids, self._many))
