"""Report of a broken rule: events and effects in short, with plans by their names."""

from collections import Counter
from typing import Any

from dataflow.engine.events import Apply, InstallRefresh, InstallView
from dataflow.plan.nodes import Aggregate, Chain, Relation, TopK, Union, Window
from dataflow.plan.parts import Lookup


class DivergenceError(AssertionError):
    """The engine did what it must not do."""


def require(condition: object, *message: object) -> None:
    """A rule that every run keeps. The message is put together only if it is broken: plans are long to print."""
    if not condition:
        raise DivergenceError(" ".join(brief(part) for part in message))


def brief(value: object) -> str:
    """An event or effect, with plans by their names."""
    if isinstance(value, InstallView | InstallRefresh):
        return f"{type(value).__name__}({value.id}, {value.view.name})"
    if isinstance(value, Lookup):
        return f"Lookup({value.id}, {brief_relation(value.relation)} by {value.columns}: {value.keys})"
    if isinstance(value, Apply):
        lines = [f"{t.id} ending at {t.end}: {t.tables}" for t in value.transactions]
        return "\n     ".join([f"Apply up to {value.position}", *lines])
    return str(value)


def brief_relation(relation: Relation) -> str:
    """A relation without its types."""
    if isinstance(relation, Chain):
        return relation.table + ("" if relation.predicate is None else " filtered") + f"/{len(relation.columns)}"
    if isinstance(relation, Aggregate):
        calls = ", ".join(c.function for c in relation.calls)
        return f"({calls} of {brief_relation(relation.input)} grouped by {relation.group})"
    if isinstance(relation, Union):
        return "[" + " with ".join(map(brief_relation, relation.inputs)) + "]"
    if isinstance(relation, Window | TopK):
        kind = "windows" if isinstance(relation, Window) else f"first {relation.limit_rows}"
        return f"({kind} of {brief_relation(relation.input)} by {relation.partition})"
    inputs = [("left " if i.left else "") + brief_relation(i.relation) for i in relation.inputs]
    return "[" + " + ".join(inputs) + "]"


def describe(bag: Counter[Any]) -> str:
    """A bag, sorted."""
    return str(sorted(bag.elements(), key=repr))
