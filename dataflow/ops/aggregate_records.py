"""State of accumulators as plain values, for a checkpoint: numbers, texts, tuples and dictionaries of them.

A decimal is its text, as bytes: no accumulator has other bytes. Unlike a state row (`aggregate_state`), a record
contains all of the state, also sums of which the addends are not known any more.

Not here: a group's other state (`aggregate`).
"""

from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from dataflow.ops.aggregate_accumulator import Accumulator
from dataflow.ops.aggregate_lists import ValueList

#: Values that are written as they are: most. No accumulator is written as one of these.
_AS_IT_IS = frozenset({int, str, bool, type(None)})


def record_of(accumulator: Accumulator) -> tuple[Any, ...]:
    """The values of the attributes that `Accumulator.recorded` names, in that order."""
    values = [getattr(accumulator, name) for name in accumulator.recorded]
    return tuple([value if type(value) in _AS_IT_IS else _plain(value) for value in values])


def restore(accumulator: Accumulator, record: Sequence[Any]) -> None:
    """Gives a new accumulator of the same call the state of another one."""
    for name, value in zip(accumulator.recorded, record):  # noqa: B905 - of one call
        if type(value) in _AS_IT_IS:
            setattr(accumulator, name, value)
        elif hasattr(part := getattr(accumulator, name), "recorded"):
            restore(part, value)
        else:
            setattr(accumulator, name, _restored(value))
    if isinstance(accumulator, ValueList):
        accumulator.outdated()


def _plain(value: Any) -> Any:
    if isinstance(value, Decimal):
        return str(value).encode()
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple([_plain(each) for each in value])
    return record_of(value) if hasattr(value, "recorded") else value


def _restored(value: Any) -> Any:
    if isinstance(value, bytes):
        return Decimal(value.decode())
    if isinstance(value, dict):
        return {key: _restored(each) for key, each in value.items()}
    if isinstance(value, tuple):
        return tuple([_restored(each) for each in value])
    return value
