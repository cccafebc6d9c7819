"""Random requests of readers, and random evictions."""

from collections.abc import Iterable, Iterator
from random import Random
from typing import Any

from dataflow.engine.engine import Engine
from dataflow.engine.nodes import InnerNode
from dataflow.plan.nodes import Relation, View, column_types
from dataflow.plan.parametric import is_parameter
from dataflow.plan.parts import Interval, Lookup
from dataflow.state.intervals import Cover
from dataflow.types import Key, Row, Value
from tests.simulation.oracle import SOME_INTEGERS, SOME_NUMERICS

#: Parts of keys that may have no rows, by type.
SOME_NUMBERS = SOME_INTEGERS
SOME_VALUES = {"text": ("", "a", "b", "p", "q", "x", "y"), "numeric": SOME_NUMERICS}


def is_key(lookup: Lookup, key: Key) -> bool:
    """Return whether a lookup can be by a key: NULL is one of a parameter only."""
    pairs = zip(lookup.columns, key, strict=True)
    return all(value is not None or is_parameter(lookup.relation, column) for column, value in pairs)


def any_key(view: View, known: Iterable[Key], rng: Random) -> Key:
    """A key of a view: one that is known, or any."""
    keys = sorted((k for k in known if view.may_match(k)), key=lambda k: [(v is None, v or "") for v in k])
    if keys and rng.random() < 0.7:
        return rng.choice(keys)
    types = column_types(view.relation)
    parts = [
        sorted({k[i] for k in keys} | set(SOME_VALUES.get(types[p.column].name, SOME_NUMBERS)), key=str)
        + [None] * p.takes_null
        for i, p in enumerate(view.parameters)
    ]
    chosen: dict[int, Value] = {}
    for column, part in zip(view.key_columns, parts, strict=True):
        chosen.setdefault(column, rng.choice(part))
    same = rng.random() < 0.7
    return tuple(chosen[c] if same else rng.choice(p) for c, p in zip(view.key_columns, parts, strict=True))


def materializations(
    engine: Engine,
) -> Iterator[tuple[Relation, dict[Cover, dict[Key, tuple[Interval, ...]]], list[Row]]]:
    """Each inner materialization's relation, covered intervals of keys by columns, and known rows."""
    for node in engine.graph.stored():
        if isinstance(node, InnerNode):
            covered = {cover: {key: c.covered(key) for key in c} for cover, c in node.coverages().items()}
            yield node.relation, covered, list(node.materialization.known_rows())


def inner_keys(engine: Engine) -> list[tuple[int, Any, list[Key]]]:
    """Covered keys of inner materializations, by node and columns."""
    return [
        (node.id, columns, list(coverage.keys))
        for _, node in sorted(engine.graph.by_id.items())
        if isinstance(node, InnerNode)
        for columns, coverage in node.coverages().items()
        if coverage.keys
    ]
