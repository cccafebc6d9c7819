"""The site's data and visitors; and what a database computes of them."""

from collections import Counter
from collections.abc import Sequence
from random import Random

import orjson
import pytest

from load.driver.visit import READS, HttpCall, HttpReply, Visit
from load.site import SiteView
from load.workloads.lobsters.bulk_load import load
from load.workloads.lobsters.dataset import LobstersSite, LobstersSize, site, tables
from load.workloads.lobsters.site import WRITES, lobsters, views
from load.workloads.lobsters.statistics import (
    COMMENTS_PER_STORY,
    PAGES,
    VOTES_PER_COMMENT,
    VOTES_PER_STORY,
    VOTES_PER_USER,
    Popularity,
    values,
)
from load.workloads.lobsters.workload import LobstersSpec
from tests.fixtures.postgres import Database

SMALL = LobstersSize(0.01)


@pytest.fixture(scope="module")
def small() -> LobstersSite:
    """A hundredth of the site."""
    return site(SMALL)


def test_the_statistics_agree_with_each_other() -> None:
    cast = sum(values(VOTES_PER_USER, 100, 1))
    received = sum(values(VOTES_PER_STORY, 10, 1)) + sum(values(VOTES_PER_COMMENT, 10, 1))
    assert cast == pytest.approx(received, rel=0.02)
    assert sum(PAGES.values()) == 100_000
    assert sum(n for _, n in VOTES_PER_STORY) == sum(n for _, n in COMMENTS_PER_STORY)


def test_the_site_has_the_published_size() -> None:
    whole = site(LobstersSize())
    assert len(whole.story_votes) == 40_650
    assert len(whole.comment_story) == len(whole.comment_votes) == 121_270
    assert sum(whole.story_comments) == 121_270
    assert len(whole.user_votes) == 9_200


def test_ids_are_drawn_as_often_as_they_weigh() -> None:
    random = Random(1)
    popularity = Popularity([1, 0, 3])
    drawn = Counter(popularity.draw(random) for _ in range(4_000))
    assert set(drawn) == {1, 3}
    assert drawn[3] / drawn[1] == pytest.approx(3, rel=0.15)


def test_the_rows_are_those_of_the_seed(small: LobstersSite) -> None:
    once = {rows.table: list(rows.lines) for rows in tables(small)}
    again = {rows.table: list(rows.lines) for rows in tables(site(SMALL))}
    assert once == again
    assert len(once["stories"]) == len(small.story_votes)


def test_nobody_votes_twice_for_anything(small: LobstersSite) -> None:
    votes = next(list(rows.lines) for rows in tables(small) if rows.table == "votes")
    of_whom = [line.rsplit("\t", 1)[0] for line in votes]
    assert len(of_whom) == len(set(of_whom))


def test_every_read_is_a_view_with_typed_parameters() -> None:
    assert len(list(views())) == 44
    by_name = {view.name: view for view in views()}
    assert by_name["votes_on_comments"].parameters == {"user_id": "integer", "comment_ids": "integer[]"}


def test_writes_delete_keys_of_views_that_there_are() -> None:
    by_name = {view.name: view for view in views()}
    for write in WRITES:
        for view, key in write.invalidates:
            assert key.keys() == by_name[view].parameters.keys()
            assert {value.removeprefix(":") for value in key.values()} <= write.parameters.keys()


class Answers:
    """A side that has one row for everything."""

    def __init__(self) -> None:
        self._views = {view.name: view for view in views()}
        self._writes = {write.name: write for write in WRITES}
        self.asked: Counter[str] = Counter()

    def make(self, visit: Visit) -> None:
        """A whole visit."""
        try:
            calls = next(visit)
            while True:
                calls = visit.send([self._reply(call) for call in calls])
        except StopIteration:
            return

    def _reply(self, call: HttpCall) -> HttpReply:
        head, _, body = call.request.partition(b"\r\n\r\n")
        given = orjson.loads(body)
        if call.server != READS:
            name = head.split(b" ")[1].decode().rpartition("/")[2]
            assert given.keys() == self._writes[name].parameters.keys()
            self.asked["writes"] += 1
            return HttpReply(200, b'{"version": "0/1"}', None)
        results = [{"rows": self._rows(self._views[read["view"]], read["params"])} for read in given["reads"]]
        return HttpReply(200, orjson.dumps({"results": results}), None)

    def _rows(self, view: SiteView, given: dict[str, object]) -> Sequence[dict[str, object]]:
        assert given.keys() == view.parameters.keys()
        assert all(given.values())
        self.asked["reads"] += 1
        columns = ("id", "user_id", "story_id", "tag_id", "thread_id")
        return [{**dict.fromkeys(columns, 7), "short_id": "000007"}]


@pytest.mark.parametrize(
    ("page", "reads", "writes"),
    [("story", 14, 1), ("frontpage", 14, 0), ("user", 7, 0), ("comments", 9, 0), ("recent", 14, 0), ("login", 1, 0)],
)
def test_pages_ask_as_many_queries_as_the_thesis_counts(page: str, reads: int, writes: int) -> None:
    side = Answers()
    side.make(LobstersSpec(SMALL, only=page).start(0, 1).visit(Random(1))[1])
    assert (side.asked["reads"], side.asked["writes"]) == (reads, writes)


def test_every_page_can_be_visited() -> None:
    for page in PAGES.keys() - {"logout"}:
        name, visit = LobstersSpec(SMALL, only=page).start(0, 1).visit(Random(1))
        assert name == page
        side = Answers()
        side.make(visit)
        assert side.asked["reads"]


def test_pages_come_as_often_as_on_the_site() -> None:
    workload, random = LobstersSpec(SMALL).start(0, 1), Random(1)
    seen = Counter(workload.visit(random)[0] for _ in range(5_000))
    assert seen["story"] / 5_000 == pytest.approx(PAGES["story"] / 100_000, rel=0.05)
    assert seen["frontpage"] / 5_000 == pytest.approx(PAGES["frontpage"] / 100_000, rel=0.08)


def test_processes_of_a_run_write_different_rows() -> None:
    visits = [LobstersSpec(SMALL, only="submit").start(process, 2).visit(Random(1))[1] for process in (0, 1)]
    written = [orjson.loads(next(visit)[0].request.partition(b"\r\n\r\n")[2]) for visit in visits]
    assert written[0] != written[1]


def test_the_schema_has_repairs_below_what_is_published() -> None:
    sql = lobsters().schema_sql
    assert sql.index("CREATE VIEW frontpage_ids") < sql.index("CREATE OR REPLACE VIEW frontpage_ids")


KEPT = "SELECT story_id AS id, upvotes, downvotes, hotness FROM story_counters ORDER BY id"
COMPUTED = """
    SELECT id, up.votes, down.votes, hotness FROM FULL_story_hotness
    FULL JOIN FULL_story_upvotes AS up USING (id) FULL JOIN FULL_story_downvotes AS down USING (id)
    WHERE id IS NOT NULL ORDER BY id
"""
KEPT_OF_COMMENTS = "SELECT comment_id AS id, upvotes, downvotes FROM comment_counters ORDER BY id"
COMPUTED_OF_COMMENTS = """
    SELECT id, up.votes, down.votes FROM FULL_comment_upvotes AS up
    FULL JOIN FULL_comment_downvotes AS down USING (id) ORDER BY id
"""
NOTIFIED = """
    SELECT user_id, COUNT(*) AS notifications FROM BOUNDARY_replying_comments_for_count GROUP BY user_id
"""
WRITTEN = (
    "INSERT INTO votes (user_id, story_id, vote) SELECT 1, 1 + n % 400, n % 2 FROM generate_series(1, 900) AS n",
    "INSERT INTO votes (user_id, story_id, comment_id, vote)"
    " SELECT 1, story_id, id, id % 2 FROM comments WHERE id % 3 = 0",
    "INSERT INTO stories (id, user_id, title, short_id) VALUES (90001, 1, 'nobody has voted', 'new1')",
    "INSERT INTO taggings (story_id, tag_id) VALUES (90001, 1)",
    "WITH written AS (INSERT INTO comments (created_at, short_id, story_id, user_id, comment)"
    " VALUES (localtimestamp, 'new2', 2, 7, 'of the story') RETURNING id, story_id, user_id)"
    " INSERT INTO votes (user_id, story_id, comment_id, vote) SELECT user_id, story_id, id, 1 FROM written",
)


@pytest.mark.postgres
def test_what_is_kept_is_what_would_be_computed(database: Database) -> None:
    database.execute(lobsters().schema_sql)
    load(database.url, SMALL, counter_columns=True)
    database.execute(*WRITTEN)
    assert database.query(KEPT) == database.query(COMPUTED) != []
    assert database.query(KEPT_OF_COMMENTS) == database.query(COMPUTED_OF_COMMENTS) != []
    assert len(database.query("SELECT * FROM frontpage_ids")) == 51
    notified = database.query("SELECT * FROM BOUNDARY_notifications ORDER BY user_id")
    assert notified == database.query(f"{NOTIFIED} ORDER BY user_id") != []
