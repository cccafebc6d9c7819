"""Parametric chains over a table that has got a column since they were planned."""

from dataclasses import replace

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.partial_images import PartialImages
from dataflow.lookups.postgres.lookup import lookup_sql
from dataflow.plan.nodes import Aggregate, Chain
from dataflow.plan.outline import table_columns
from dataflow.plan.parametric import chain_table, parametric_chains
from dataflow.schema import Catalog, Column, SqlType
from dataflow.sql import plan_view
from dataflow.types import UNKNOWN, NodeId
from tests.plans.news_site import CATALOG

INT = SqlType("int4", "int4")
STORIES = CATALOG.tables["public.stories"]
WIDER = Catalog({STORIES.name: replace(STORIES, columns=(*STORIES.columns, Column("added", INT)), identity=(0,))})


def planned() -> Chain:
    view = plan_view("v", "SELECT id FROM stories WHERE score > :low OR author = 'x'", CATALOG)
    (chain,) = parametric_chains(view.relation)
    return chain


def test_a_parameter_stands_behind_the_columns_that_were_known() -> None:
    chain = planned()
    assert chain.parameters is not None
    assert chain_table(chain, WIDER).columns[chain.parameters.first].name == ":1"
    assert table_columns(chain, WIDER)[chain.parameters.first] == ":1"


def test_partial_changes_do_not_tell_parameters() -> None:
    chain = planned()
    assert chain.parameters is not None
    images = PartialImages(ChainNode(NodeId(1), chain), WIDER.tables[STORIES.name])
    row = tuple(str(i) for i in range(len(STORIES.columns) + 1))
    place = [i for i, c in enumerate(chain.columns) if getattr(c, "index", None) == chain.parameters.first]
    assert [images.shown(row)[i] for i in place] == [UNKNOWN]


def test_lookups_are_as_before() -> None:
    chain = planned()
    relation: Chain | Aggregate = chain
    columns = tuple(i for i, c in enumerate(chain.columns) if getattr(c, "index", -1) == len(STORIES.columns))
    assert lookup_sql(relation, columns, WIDER) == lookup_sql(relation, columns, CATALOG)
