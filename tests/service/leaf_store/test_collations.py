"""Collations of the catalog's types: what readers of a store have compares as what the writer's views have."""

import json
from dataclasses import replace

from dataflow.collations import Collation
from dataflow.engine.effects import LeafFill
from dataflow.plan.nodes import Chain, OrderTerm, View
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import Row, ViewId
from service.leaf_store.answer import PageWindow
from service.leaf_store.reader import LeafReader
from service.leaf_store.writer import LeafWriter
from tests.service.leaf_store.sample_views import make_view

VIEW = ViewId(1)


def collation(name: str = "ci", step: int = 1) -> Collation:
    letters = {code: (ord(chr(code).lower()) * step).to_bytes(2, "big") for code in range(32, 127)}
    return Collation(name, letters, pad_space=True)


def view(weights: Collation) -> View:
    """Stories by their author, ordered by title."""
    text = SqlType("varchar", "varchar", collation=weights.name, weights=weights)
    types = (SqlType("int8", "bigint"), text, text)
    found = make_view("stories_of", {"author": 2}, shown=(0, 1, 2), order=(OrderTerm(1),))
    return replace(found, relation=Chain("shop.stories", None, tuple(ColumnRef(i, t) for i, t in enumerate(types))))


def test_readers_have_the_collations_of_parameters_columns_and_orders(writer: LeafWriter) -> None:
    weights = collation()
    writer.register(VIEW, view(weights), status="ready")
    rows: list[Row] = [("1", "b", "Ann"), ("2", "C", "ann"), ("3", "a", "ANN "), ("4", "A c", "ann")]
    writer.commit([LeafFill(VIEW, (weights.normal("Ann"),), rows)], 1, 0)
    reader = LeafReader(writer.reader.environment)
    info = reader.catalog().by_name["stories_of"]
    read = info.parameters[0].type.weights
    assert read is not None
    assert read is not weights
    assert read == weights
    assert read is info.columns[1].type.weights is info.storage[0].type.weights
    key = (read.normal("aNN"),)
    (answer,), _ = reader.read([(VIEW, key, None)])
    assert answer is not None
    assert [row["id"] for row in json.loads(answer.rows)] == [3, 4, 1, 2]
    (page,), _ = reader.read([(VIEW, key, PageWindow(2, None))])
    assert page is not None
    assert page.next is not None
    (rest,), _ = reader.read([(VIEW, key, PageWindow(2, page.next))])
    assert rest is not None
    assert [row["id"] for row in json.loads(rest.rows)] == [1, 2]


def test_a_collation_is_made_once_and_anew_when_its_weights_change(writer: LeafWriter) -> None:
    writer.register(VIEW, view(collation()))
    writer.commit([], 1, 0)
    first = writer.reader.catalog().by_name["stories_of"].columns[1].type.weights
    writer.set_status(VIEW, "ready")
    writer.commit([], 2, 0)
    assert writer.reader.catalog().by_name["stories_of"].columns[1].type.weights is first
    # The same collation of another version of the server.
    changed = collation(step=2)
    writer.register(VIEW, view(changed))
    writer.commit([], 3, 0)
    second = writer.reader.catalog().by_name["stories_of"].columns[1].type.weights
    assert second is not None
    assert second.order("ab") == changed.order("ab") != collation().order("ab")


def test_collations_are_put_again_into_an_emptied_store(writer: LeafWriter) -> None:
    weights = collation()
    writer.register(VIEW, view(weights))
    writer.commit([], 1, 0)
    writer.reset("e2")
    writer.register(VIEW, view(weights))
    writer.commit([], 2, 0)
    info = LeafReader(writer.reader.environment).catalog().by_name["stories_of"]
    assert info.columns[2].type.weights == weights
