"""Plans over a table whose rows have its columns at other places than its definition.

Not here: which places (`service.engine.views.tables`).
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any, TypeVar, cast

from dataflow.plan.nodes import Chain
from dataflow.plan.refresh import TableRead
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType

T = TypeVar("T")
#: Places of a table's columns in its rows, by the columns' order in its definition.
Places = tuple[int, ...]


def placed(plan: T, places: Mapping[str, Places]) -> T:
    """The plan (a tree of frozen dataclasses) with the columns of these tables, by name, at their places."""
    if isinstance(plan, Chain | TableRead):
        of_table = places.get(plan.table)
        return plan if of_table is None else _moved(plan, of_table)
    return _rebuilt(plan, lambda part: placed(part, places))


def _moved(part: T, places: Places) -> T:
    if isinstance(part, ColumnRef):
        return replace(part, index=places[part.index])
    if isinstance(part, TableRead):
        return replace(
            part,
            columns=frozenset(places[column] for column in part.columns),
            predicate=_moved(part.predicate, places),
            keys=tuple((places[column], position) for column, position in part.keys),
        )
    return _rebuilt(part, lambda each: _moved(each, places))


def _rebuilt(node: T, change: Callable[[Any], Any]) -> T:
    """The node with each part changed; the node itself if none is."""
    if isinstance(node, tuple):
        parts = tuple(map(change, node))
        return cast(T, parts) if any(new is not old for new, old in zip(parts, node, strict=True)) else node
    if not is_dataclass(node) or isinstance(node, type | SqlType):
        return node
    changed = {f.name: new for f in fields(node) if (new := change(old := getattr(node, f.name))) is not old}
    return cast(T, replace(node, **changed)) if changed else node
