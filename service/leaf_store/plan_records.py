"""Parts of plans as records of the catalog: dataclasses as objects that name their class."""

from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Block,
    BlockInput,
    CallOrder,
    Chain,
    Frame,
    FrameMode,
    JoinCondition,
    OrderTerm,
    OutputColumn,
    TopK,
    Union,
    View,
    Window,
    WindowCall,
)
from dataflow.scalar import Call, ColumnRef, Literal
from dataflow.schema import SqlType

_CLASSES: dict[str, type] = {
    kind.__name__: kind
    for kind in (
        *(View, OutputColumn, OrderTerm),
        *(Chain, Union, TopK, Block, BlockInput, JoinCondition),
        *(Aggregate, AggregateCall, CallOrder, Window, WindowCall, Frame),
        *(Call, ColumnRef, Literal),
    )
}
#: Fields that are members of an enumeration.
_ENUMERATIONS: dict[tuple[type, str], type] = {
    (AggregateCall, "function"): AggregateFunction,
    (Frame, "mode"): FrameMode,
}
_CLASS = "class"


def fields_of(value: Any) -> dict[str, object]:
    """Return a dataclass as a record."""
    record = {f.name: getattr(value, f.name) for f in fields(value)}
    name = type(value).__name__
    return {_CLASS: name, **record} if name in _CLASSES else record


def load_plan(record: Any, typed: Callable[[dict[str, Any]], SqlType]) -> Any:
    """Return a part of a plan from its record. `typed` makes a type of its record."""
    if isinstance(record, list):
        return tuple(load_plan(member, typed) for member in record)
    if not isinstance(record, dict):
        return record
    if _CLASS not in record:
        return typed(record)
    kind = _CLASSES[record.pop(_CLASS)]
    loaded = {name: load_plan(value, typed) for name, value in record.items()}
    for (owner, name), enumeration in _ENUMERATIONS.items():
        if owner is kind:
            loaded[name] = enumeration(loaded[name])
    return kind(**loaded)


def types_in(value: object) -> Iterator[SqlType]:
    """Return the types in a part of a plan."""
    if isinstance(value, SqlType):
        yield value
    elif isinstance(value, tuple):
        for member in value:
            yield from types_in(member)
    elif is_dataclass(value):
        for f in fields(value):
            yield from types_in(getattr(value, f.name))
