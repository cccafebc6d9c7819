"""Looked-up state keeps apart what goes away apart."""

from dataflow.lookups.postgres.lookup import lookup_sql
from dataflow.schema import Catalog
from tests.simulation.schema import TABLES, TEXT
from tests.simulation.views import COUNT_ROWS, NAME, SCORE, STORIES, USERS, aggregate, call, greatest, least

CATALOG = Catalog({table.name: table for table in TABLES})


def test_equal_numbers_of_a_minimum_are_grouped_by_their_text() -> None:
    # Else 1.0 and 1.00 came as two of one of them, and removing the other would leave one too many.
    sql = lookup_sql(aggregate(STORIES, (1,), least(SCORE)), (0,), CATALOG)
    assert sql.endswith('GROUP BY t."author", t."score", (t."score")::text COLLATE "C"')


def test_equal_numbers_of_a_group_are_grouped_by_their_text() -> None:
    # Else the group could not tell which text is left when one of its rows goes.
    sql = lookup_sql(aggregate(USERS, (2,), COUNT_ROWS), (0,), CATALOG)
    assert sql.endswith('GROUP BY t."karma", (t."karma")::text COLLATE "C"')


def test_what_is_its_own_normal_form_is_grouped_once() -> None:
    sql = lookup_sql(aggregate(USERS, (0,), greatest(NAME)), (0,), CATALOG)
    assert sql.endswith('GROUP BY t."id", t."name"')


def test_the_argument_may_be_computed() -> None:
    shouted = call("||", TEXT, NAME, NAME)
    sql = lookup_sql(aggregate(USERS, (0,), least(shouted)), (0,), CATALOG)
    assert sql.endswith('GROUP BY t."id", t."name" || t."name"')
