"""From the values of a view's parameters to a read: keys, a part of each, and the number of rows.

Not here: conversion of the client's values (`service.web.arguments`), reading (`reader`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from dataflow.functions import arrays
from dataflow.plan.parts import WHOLE, Cut, Interval
from dataflow.state.ordering import Ordering
from dataflow.types import Key, Value
from service.leaf_store.answer import PageWindow
from service.leaf_store.catalog import BOUNDS, OrderColumn, ParameterInfo, ParameterRole, ViewInfo
from service.leaf_store.clock import FILLED_US, now_us
from service.leaf_store.layout import Places, content_hash, entry_key, entry_keys

#: A parameter's value; a tuple for a list parameter.
Given = Value | tuple[Value, ...]
#: In the order of `ViewInfo.parameters`.
Values = tuple[Given, ...]

#: Bytes of `check_of`.
CHECK_BYTES = 8


@dataclass(frozen=True, slots=True)
class LeafRequest:
    """A read of a view: the rows of `keys`, merged if they are several, in `part`, at most `limit_rows` after the
    first `offset_rows`; or the rows with one of the values `picked` in their order columns. Without keys, no row can
    match and the answer does not depend on data. `filters`: places that the last order columns of a row must be in."""

    keys: tuple[Key, ...]
    part: Interval
    limit_rows: int | None
    offset_rows: int
    window: PageWindow | None = None
    picked: tuple[Key, ...] = ()
    filters: tuple[Places, ...] = ()


def request_of(info: ViewInfo, values: Values, window: PageWindow | None = None) -> LeafRequest:
    """Return the read of these values."""
    if info.refreshed:
        key = tuple(arrays.render(value) if isinstance(value, tuple) else value for value in values)
        return LeafRequest((key,), WHOLE, None, 0, window)
    by_role = list(zip(info.parameters, values, strict=True))
    parts: list[list[Value]] = []
    bounds: list[tuple[ParameterRole, Value]] = []
    limit_rows, offset_rows = info.limit_rows, info.offset_rows
    for parameter, value in by_role:
        match parameter.role:
            case ParameterRole.EQUAL | ParameterRole.LIST:
                parts.append(_listed(value, parameter))
            case ParameterRole.LIMIT:
                limit_rows = None if value is None else _count(value)
            case ParameterRole.OFFSET:
                offset_rows = 0 if value is None else _count(value)
            case role:
                assert not isinstance(value, tuple)
                bounds.append((role, value))
    of_key = len(parts) - info.within
    keys: tuple[Key, ...] = tuple(product(*_times(info), *parts[:of_key]))
    picked: tuple[Key, ...] = ()
    if info.within:
        picked = tuple(product(*parts[of_key:]))
        if not picked:
            keys = ()
    part = WHOLE
    filters: tuple[Places, ...] = ()
    if info.clock:
        time_us = now_us()
        bounds += [_role(bound.at(time_us)) for bound in info.clock]
        filters = tuple(_filters(info, time_us))
    if bounds:
        known = [(role, bound) for role, bound in bounds if bound is not None]
        part = part_of(info.storage[0], info.ordering, known)
        if len(known) < len(bounds) or _is_empty(info.ordering, part):
            keys = ()
    return LeafRequest(keys, part, limit_rows, offset_rows, window, picked, filters)


def _filters(info: ViewInfo, time_us: int) -> Iterator[Places]:
    """Yield the places that a row's columns must be in at a time, for each of the last order columns."""
    for bound, column, ordering in info.filter_columns:
        part = part_of(column, ordering, [_role(bound.at(time_us))])
        yield ordering.place(part.start) or b"", ordering.place(part.end)


def part_ahead(info: ViewInfo, values: Values) -> Interval:
    """Return the part of a key that a read's miss fills, if the view has conditions on the current time."""
    given = zip(info.parameters, values, strict=True)
    bounds = [(p.role, value) for p, value in given if p.role in BOUNDS and isinstance(value, str)]
    time_us = now_us()
    parts = [
        part_of(info.storage[0], info.ordering, bounds + [_role(b.around(time_us, *times_us)) for b in info.clock])
        for times_us in FILLED_US
    ]
    start = min((part.start for part in parts), key=lambda cut: info.ordering.place(cut) or b"")
    return Interval(start, max((part.end for part in parts), key=lambda cut: _end_place(info.ordering, cut)))


def _role(bound: tuple[str, str]) -> tuple[ParameterRole, str]:
    return ParameterRole(bound[0]), bound[1]


def names_of(info: ViewInfo, values: Values) -> list[bytes]:
    """Return the entries of a read of whole keys (`ViewInfo.whole`), without duplicates; none: no row can match."""
    if info.refreshed:
        return [entry_key(info.head, key) for key in request_of(info, values).keys]
    listed = [_listed(value, p) for value, p in zip(values, info.parameters, strict=True)]
    return entry_keys(info.head, [*_times(info), *listed])


def _times(info: ViewInfo) -> list[list[Value]]:
    """Return the values of the current time that keys begin with."""
    if not info.clock_keys:
        return []
    time_us = now_us()
    return [[bound.at(time_us)[1]] for bound in info.clock_keys]


def picked_places(info: ViewInfo, request: LeafRequest) -> list[bytes]:
    """Return the places of the selected rows within their key."""
    return [info.ordering.place_of_row(values) for values in request.picked]


def _listed(value: Given, parameter: ParameterInfo) -> list[Value]:
    """Return the distinct values of a part of a key, without NULL where that equals nothing."""
    if parameter.whole and isinstance(value, tuple):
        return [arrays.render(value)]
    takes_null = parameter.takes_null
    listed = dict.fromkeys(value if isinstance(value, tuple) else (value,))
    return [v for v in listed if takes_null or v is not None]


def _count(value: Given) -> int:
    assert isinstance(value, str)
    return int(value)


def part_of(column: OrderColumn, ordering: Ordering, bounds: list[tuple[ParameterRole, str]]) -> Interval:
    """Return the interval of rows whose first order column is within all bounds. NULLs are within none."""
    starts, ends = [_nulls_end(column)], [_nulls_start(column)]
    for role, value in bounds:
        # `> v` begins after v in ascending order, and ends before v in descending order.
        cut = Cut((value,), behind=(role in (ParameterRole.GREATER, ParameterRole.AT_MOST)) != column.descending)
        lower = role in (ParameterRole.GREATER, ParameterRole.AT_LEAST)
        (starts if lower != column.descending else ends).append(cut)
    start = max(starts, key=lambda cut: ordering.place(cut) or b"")
    return Interval(start, min(ends, key=lambda cut: _end_place(ordering, cut)))


def _is_empty(ordering: Ordering, part: Interval) -> bool:
    return _end_place(ordering, part.end) <= (False, ordering.place(part.start) or b"")


def _end_place(ordering: Ordering, cut: Cut) -> tuple[bool, bytes]:
    place = ordering.place(cut)
    return place is None, place or b""


def _nulls_end(column: OrderColumn) -> Cut:
    return Cut((None,), behind=True) if column.nulls_first else WHOLE.start


def _nulls_start(column: OrderColumn) -> Cut:
    return WHOLE.end if column.nulls_first else Cut((None,), behind=False)


def check_of(info: ViewInfo, values: Values) -> bytes:
    """Return the check that ties page tokens to this read."""
    return content_hash("\0".join([info.sql, *_spelled(values)]).encode())[:CHECK_BYTES]


def _spelled(values: Values) -> Iterator[str]:
    for value in values:
        yield arrays.render(value) if isinstance(value, tuple) else "null" if value is None else f"={value}"
