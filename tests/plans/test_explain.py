"""Explanations beside the plan: full materializations and their size, shared nodes, staleness."""

from collections import Counter
from dataclasses import replace

from dataflow.engine.explain import Explanation
from dataflow.engine.graph import Graph
from dataflow.plan import explain_refresh
from dataflow.plan.estimate import Size, estimated_bytes, estimated_leaf_bytes
from dataflow.plan.refresh import RefreshParameter, RefreshView, TableRead
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import Catalog, SqlType
from dataflow.sql import plan_view
from dataflow.types import ViewId
from tests.plans.news_site import CATALOG

INT = SqlType("int4", "int4")
BOOL = SqlType("bool", "bool")
STORIES = CATALOG.tables["public.stories"]


def counted(rows: float) -> Catalog:
    """The catalog of an upstream that has been analyzed."""
    return Catalog({name: replace(table, estimated_rows=rows) for name, table in CATALOG.tables.items()})


def explained(sql: str, catalog: Catalog = CATALOG, running: Graph | None = None, whole: bool = False) -> Explanation:
    return Explanation(plan_view("v", sql, catalog), catalog, running, whole)


def test_a_view_without_a_route_says_what_it_takes() -> None:
    sql = "SELECT author, count(*) AS n FROM stories GROUP BY author ORDER BY n DESC"
    found = explained(sql, counted(100_000)).json()
    assert found["materialization"] == "full"
    assert 10_000_000 < found["estimated_bytes"] < 100_000_000
    assert "About 100,000 rows" in found["notes"][0]
    unknown = explained(sql)
    assert unknown.estimated_bytes is None
    assert "run ANALYZE" in unknown.text()


def test_what_no_route_leads_to_is_said_to_be_whole() -> None:
    sql = "SELECT author, n FROM (SELECT author, count(*) AS n FROM stories GROUP BY author) x WHERE n = :n"
    found = explained(sql, counted(1000))
    assert "inputs that no route reaches from the key are fully materialized" in found.reason
    assert "fully materialized: about 1,000 rows" in found.text()
    assert found.estimated_bytes is not None


def test_the_parameter_that_no_route_leads_from_is_named() -> None:
    sql = "SELECT id, author || title AS both FROM stories WHERE author || title = :t"
    assert "No route leads from :t to" in explained(sql).reason


def test_a_partial_view_has_no_size() -> None:
    partial = explained("SELECT id, title FROM stories WHERE author = :a", counted(100_000))
    assert (partial.materialization, partial.estimated_bytes) == ("partial", None)
    whole = explained("SELECT id, title FROM stories WHERE author = :a", counted(100_000), whole=True)
    assert whole.materialization == "full"
    assert "materialization = full" in whole.reason
    assert whole.estimated_bytes is not None


def test_parts_warn_of_the_index_that_orders_them() -> None:
    sql = "SELECT id, title FROM stories WHERE author = :a ORDER BY created_at DESC LIMIT 10"
    (part,) = explained(sql).part_lookups()
    assert part.sql.endswith('ORDER BY t."created_at" DESC, t."id" FETCH FIRST 10 ROWS WITH TIES')
    assert part.warning == ("no index of public.stories begins with author, then created_at: each part is sorted anew")
    index = (STORIES.ordinal("author"), STORIES.ordinal("created_at"))
    indexed = Catalog({**CATALOG.tables, STORIES.name: replace(STORIES, indexes=(*STORIES.indexes, index))})
    (part,) = explained(sql, indexed).part_lookups()
    assert part.warning is None


def test_what_other_views_read_too_is_shared_with_them() -> None:
    running = Graph(CATALOG, Counter())
    counts = "SELECT s.id, count(v.user_id) FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE s.id = :id"
    running.install(ViewId(1), plan_view("counts", f"{counts} GROUP BY s.id", CATALOG))
    explanation = explained(
        "SELECT s.title, count(v.user_id) FROM stories s LEFT JOIN votes v ON v.story_id = s.id "
        "WHERE s.author = :a GROUP BY s.id, s.title",
        running=running,
    )
    assert "shared with counts" in explanation.text()
    assert explanation.json()["shared_with"] == []
    again = explained(f"{counts} GROUP BY s.id", running=running)
    assert again.json()["shared_with"] == ["counts"]


def test_a_refreshed_view_says_what_makes_it_stale() -> None:
    author, score = STORIES.ordinal("author"), STORIES.ordinal("score")
    predicate = Call(">", (ColumnRef(score, INT), Literal("5", INT)), BOOL)
    read = TableRead(STORIES.name, frozenset({author, score}), predicate, ((author, 0),))
    view = RefreshView(
        "v", "SELECT …", (RefreshParameter("a", SqlType("text", "text")),), (("n", INT),), (read,), "GROUPING SETS."
    )
    assert explain_refresh.explain_text(view, CATALOG) == (
        "view v\n"
        "  refresh: GROUPING SETS.\n"
        "  parameters: :a\n"
        "  columns: n\n"
        "  stale after a change of public.stories\n"
        "    by an insert or a delete, or an update of author, score\n"
        "    in a row where score > 5\n"
        "    only for the key with :a = author\n"
    )
    assert explain_refresh.explain_json(view, CATALOG)["reads"] == [
        {"table": "public.stories", "columns": ["author", "score"], "where": "score > 5", "keys": {"a": "author"}}
    ]
    assert explain_refresh.explain_dot(view, CATALOG).count("->") == 1


def test_a_view_that_expires_says_when() -> None:
    view = RefreshView("v", "SELECT now()", (), (("now", INT),), (), "now() is not a function of tables.", 5000)
    assert explain_refresh.explain_text(view, CATALOG) == (
        "view v\n  ttl: now() is not a function of tables.\n  an answer is good for 5000 ms\n  columns: now\n"
    )


def test_what_the_planner_says_is_taken_before_the_tables_statistics() -> None:
    view = plan_view("v", "SELECT author, title, count(*) AS n FROM stories GROUP BY author, title ORDER BY n", CATALOG)
    catalog = counted(100_000)
    guessed = estimated_bytes(view.relation, catalog)
    few = estimated_bytes(view.relation, catalog, {view.relation: Size(10, 60)})
    wide = estimated_bytes(view.relation, catalog, {view.relation: Size(100_000, 2_000)})
    assert guessed is not None
    assert few is not None
    assert wide is not None
    assert few < guessed / 1000
    assert wide > 200_000_000
    assert estimated_leaf_bytes(view, CATALOG) is None
    leaf = estimated_leaf_bytes(view, CATALOG, {view.relation: Size(1000, 2_000)})
    assert leaf is not None
    assert 2_000_000 < leaf < 3_000_000
