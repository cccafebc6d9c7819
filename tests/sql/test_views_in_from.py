"""Views of the upstream, and other registered views, in FROM: read as the queries that they stand for."""

from dataclasses import replace

import pytest

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.plan.nodes import Block, View
from dataflow.schema import Catalog, Column, SqlType, UpstreamView
from dataflow.sql import plan_view
from tests.plans.news_site import CATALOG

TEXT, INT8 = SqlType("text", "text"), SqlType("int8", "int8")
AUTHORS = UpstreamView(
    "public.authors",
    " SELECT author AS who,\n    count(*) AS stories\n   FROM stories\n  GROUP BY author;",
    (Column("name", TEXT), Column("stories", INT8)),
)
REGISTERED = {
    "counts": "SELECT story_id, count(*) AS n FROM votes GROUP BY story_id",
    "busy": "SELECT story_id FROM counts WHERE n > 10",
    "of_author": "SELECT id FROM stories WHERE author = :author",
    "tags": "SELECT id FROM stories",
    "round": "SELECT * FROM about",
    "about": "SELECT * FROM round",
    "refused": "SELECT random() AS r FROM stories",
}
CATALOG_OF_VIEWS = Catalog(CATALOG.tables, views={AUTHORS.name: AUTHORS}, registered=REGISTERED)


def planned(sql: str, catalog: Catalog = CATALOG_OF_VIEWS) -> View:
    """The view that a SQL text means."""
    return plan_view("v", sql, catalog)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "SELECT name, stories FROM authors WHERE name = :name",
            "SELECT author AS name, count(*) AS stories FROM stories WHERE author = :name GROUP BY author",
        ),
        (
            "SELECT a.name FROM public.authors a(name, n) WHERE n > 1",
            "SELECT author AS name FROM stories GROUP BY 1 HAVING count(*) > 1",
        ),
        (
            "SELECT s.title, c.n FROM stories s JOIN counts c ON c.story_id = s.id WHERE s.id = :id",
            "SELECT s.title, c.n FROM stories s JOIN (SELECT story_id, count(*) AS n FROM votes GROUP BY story_id) c"
            " ON c.story_id = s.id WHERE s.id = :id",
        ),
        ("SELECT * FROM busy", "SELECT story_id FROM votes GROUP BY story_id HAVING count(*) > 10"),
    ],
)
def test_a_view_is_its_query(one: str, other: str) -> None:
    first, second = planned(one), planned(other)
    assert (first.relation, first.parameters, first.output) == (second.relation, second.parameters, second.output)


def test_a_view_and_a_reader_of_it_share_their_parts() -> None:
    counts, reader = (
        planned(REGISTERED["counts"]),
        planned("SELECT c.n FROM counts c JOIN stories s ON s.id = c.story_id"),
    )
    assert isinstance(counts.relation, Block)
    assert isinstance(reader.relation, Block)
    assert counts.relation.inputs[0].relation in [item.relation for item in reader.relation.inputs]


def test_the_upstream_s_name_comes_first() -> None:
    assert planned("SELECT name FROM tags").output[0].name == "name"
    views = {"public.counts": replace(AUTHORS, name="public.counts")}
    assert planned("SELECT stories FROM counts", replace(CATALOG_OF_VIEWS, views=views)).output[0].name == "stories"


def test_a_registered_view_is_in_no_schema() -> None:
    with pytest.raises(InvalidQuery, match='There is no table "counts"'):
        planned("SELECT * FROM public.counts")


def test_a_view_with_parameters_is_no_relation() -> None:
    with pytest.raises(InvalidQuery, match=r'"of_author" has parameters \(:author\)'):
        planned("SELECT * FROM of_author")


def test_a_view_that_reads_itself() -> None:
    with pytest.raises(UnsupportedQuery, match="reads itself"):
        planned("SELECT * FROM round")


def test_what_a_view_is_refused_for_is_placed_at_its_name() -> None:
    with pytest.raises(UnsupportedQuery, match='The view "refused" in FROM: A random number') as caught:
        planned("SELECT 1 FROM refused")
    assert caught.value.span is not None
    assert (caught.value.span.start, caught.value.span.end) == (14, 21)


def test_a_view_whose_columns_have_changed() -> None:
    views = {AUTHORS.name: replace(AUTHORS, columns=AUTHORS.columns[:1])}
    with pytest.raises(UnsupportedQuery, match="columns of other types"):
        planned("SELECT * FROM authors", replace(CATALOG_OF_VIEWS, views=views))
