"""Which views are kept by fewer parameters than they have."""

from collections.abc import Mapping
from dataclasses import replace

import pytest

from dataflow.engine.explain import explain_text
from dataflow.plan.coarser_key import MEAN_ROWS, MOST_ROWS
from dataflow.plan.nodes import Chain, View
from dataflow.schema import Catalog, Spread
from dataflow.sql import plan_view
from tests.plans.news_site import CATALOG

FEW = Spread(20, 300)
#: Of stories: id, author; of comments: story_id, author.
STORIES, COMMENTS = {0: Spread(1, 1), 3: FEW}, {1: Spread(3, 90), 3: FEW}


def planned(sql: str, stories: Mapping[int, Spread] = STORIES, comments: Mapping[int, Spread] = COMMENTS) -> View:
    tables = dict(CATALOG.tables)
    tables["public.stories"] = replace(tables["public.stories"], spreads=stories)
    tables["public.comments"] = replace(tables["public.comments"], spreads=comments)
    return plan_view("v", sql, Catalog(tables))


def names(view: View) -> tuple[list[str], list[str]]:
    return [p.name for p in view.parameters], [p.name for p in view.within]


def test_the_fewest_keys_whose_rows_are_few() -> None:
    view = planned("SELECT body FROM comments WHERE author = :author AND story_id = :story")
    assert names(view) == (["author"], ["story"])
    assert "rows of a key picked by: :story = story_id" in explain_text(view, CATALOG)
    assert "= ANY($1::text[])" in explain_text(view, CATALOG)


def test_a_list_picks_rows() -> None:
    view = planned("SELECT body FROM comments WHERE author IN (:authors) AND story_id = :story AND id = :id")
    assert names(view) == (["story"], ["authors", "id"])


def test_rows_that_no_value_picks_are_not_kept() -> None:
    view = planned("SELECT body FROM comments WHERE author = :author AND parent_id = :parent")
    assert names(view) == (["author"], ["parent"])
    assert isinstance(view.relation, Chain)
    assert "parent_id IS NOT NULL" in explain_text(view, CATALOG)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT body FROM comments WHERE author = :author",
        "SELECT body FROM comments WHERE author IN (:authors) AND story_id IN (:stories)",
        "SELECT body FROM comments WHERE author = :author AND story_id = :story ORDER BY id",
        "SELECT body FROM comments WHERE author = :author AND story_id = :story LIMIT 1",
        "SELECT body FROM comments WHERE author = :author AND story_id = :story AND id > :id",
        "SELECT count(*) FROM comments WHERE author = :author AND story_id = :story",
        "SELECT body FROM comments c JOIN stories s ON s.id = c.story_id WHERE c.author = :author AND s.title = :title",
        "SELECT title FROM stories WHERE score = :score AND title = :title",
        "SELECT body FROM comments WHERE author = :author AND author = :other",
    ],
)
def test_others_are_kept_by_all_their_parameters(sql: str) -> None:
    assert names(planned(sql))[1] == []


@pytest.mark.parametrize("spread", [Spread(MEAN_ROWS + 1, 300), Spread(2, MOST_ROWS + 1)])
def test_many_rows_are_not_one_key(spread: Spread) -> None:
    sql = "SELECT body FROM comments WHERE author = :author AND story_id = :story"
    assert names(planned(sql, comments={1: spread, 3: spread}))[1] == []
    assert names(planned(sql, comments={}))[1] == []
