"""How plans find the old rows of tables whose replica identity has some columns only."""

from dataclasses import replace

import pytest

from dataflow.engine.explain import Explanation
from dataflow.plan.explain_refresh import explain_text
from dataflow.plan.identity_uses import identity_uses
from dataflow.plan.nodes import Block, Chain
from dataflow.plan.refresh import RefreshParameter, RefreshView, TableRead
from dataflow.schema import Catalog, SqlType
from dataflow.sql import plan_view
from tests.plans.news_site import CATALOG

#: By primary keys, as of new tables.
BY_KEY = Catalog({name: replace(table, identity=table.keys[0]) for name, table in CATALOG.tables.items() if table.keys})


def texts(sql: str, catalog: Catalog = BY_KEY) -> list[str]:
    return [use.text for use in identity_uses(plan_view("v", sql, catalog), catalog)]


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "SELECT title FROM stories WHERE id = :id",
            ["old rows of public.stories: an update evicts the keys that (id) tells"],
        ),
        (
            "SELECT title FROM stories WHERE author = :author",
            [
                "old rows of public.stories: materialized, found by (id); not needed with a replica identity of "
                "(id, author)"
            ],
        ),
        (
            "SELECT author, count(*) AS n FROM stories GROUP BY author",
            [
                "old rows of public.stories: materialized, found by (id); not needed with a replica identity of "
                "(id, author)"
            ],
        ),
        ("SELECT count(*) AS n FROM stories", ["old rows of public.stories: materialized, found by (id)"]),
        (
            "SELECT s.title, c.body FROM stories s JOIN comments c ON c.story_id = s.id WHERE s.id = :id",
            [
                "old rows of public.comments: found by (id) in the input of the join",
                "old rows of public.stories: found by (id) in the input of the join",
            ],
        ),
    ],
)
def test_uses(sql: str, expected: list[str]) -> None:
    assert sorted(texts(sql)) == expected
    lines = list(Explanation(plan_view("v", sql, BY_KEY), BY_KEY).lines())
    assert [line for line in lines if line.startswith("old rows")] == texts(sql)


@pytest.mark.parametrize(("identity", "spared"), [(("id",), False), (("id", "author"), True), (None, True)])
def test_a_refreshed_view_needs_the_columns_of_its_key(identity: tuple[str, ...] | None, spared: bool) -> None:
    """Without them, any of its keys may be the old row's."""
    stories = CATALOG.tables["public.stories"]
    ordinals = None if identity is None else tuple(map(stories.ordinal, identity))
    catalog = Catalog({stories.name: replace(stories, identity=ordinals)})
    author = stories.ordinal("author")
    read = TableRead(stories.name, frozenset({author}), None, ((author, 0),))
    text = SqlType("text", "text")
    view = RefreshView("v", "SELECT …", (RefreshParameter("a", text),), (("n", text),), (read,), "GROUPING SETS.")
    expected = (
        "old rows of public.stories: an update or delete evicts all keys that may be its row's; one key with a replica "
        "identity of (id, author)"
    )
    assert [use.text for use in identity_uses(view, catalog)] == ([] if spared else [expected])
    assert (expected in explain_text(view, catalog)) is not spared


def test_whole_old_rows_need_nothing() -> None:
    assert texts("SELECT title FROM stories WHERE author = :author", CATALOG) == []


def test_a_wider_identity_spares_the_rows() -> None:
    """A unique index on the key and on what the view is read by."""
    stories = BY_KEY.tables["public.stories"]
    identity = (stories.ordinal("id"), stories.ordinal("author"))
    catalog = Catalog({**BY_KEY.tables, "public.stories": replace(stories, identity=identity)})
    plan = plan_view("v", "SELECT title FROM stories WHERE author = :author", catalog)
    assert isinstance(plan.relation, Chain)


def test_the_key_is_among_the_columns_of_what_is_materialized() -> None:
    plan = plan_view("v", "SELECT title FROM stories WHERE author = :author", BY_KEY)
    assert isinstance(plan.relation, Block)
    (item,) = plan.relation.inputs
    assert isinstance(item.relation, Chain)
    assert len(item.relation.columns) == len(plan.relation.columns) + 1


def test_a_parametric_chain_evicts_keys() -> None:
    sql = "SELECT author, count(*) FROM stories WHERE score > :low GROUP BY author"
    assert texts(sql) == ["old rows of public.stories: an update evicts the keys that (id) tells"]
