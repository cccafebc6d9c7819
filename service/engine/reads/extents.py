"""Extents: how many rows of each key the engine has to cover for a request.

Not here: the test whether the leaf store covers enough (`service.leaf_store.reader`), covering (`dataflow.engine`).
"""

from dataclasses import replace

from dataflow.engine.events import Ahead, Extent
from dataflow.plan.parts import WHOLE, Cut, Interval
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.layout import HASH_BYTES
from service.leaf_store.pages import Place, page_bounds, read_token
from service.leaf_store.request import LeafRequest, Values, check_of, part_ahead

#: A request for more rows than this covers the whole key.
_MAX_ROWS_AHEAD = 100_000


def extent_of(info: ViewInfo, values: Values, request: LeafRequest, factor: int = 1) -> Extent:
    """Returns the extent needed of each key: `factor` times the rows of the answer, if their number is known.

    Raises `ValueError` if the window's token does not belong to this read.
    """
    start = start_of(info, values, request)
    part = part_ahead(info, values) if info.clock else request.part
    if not info.storage or not info.direct:
        # Answers in another order than the store's need all rows to find the first.
        return _interval(part)
    begin = part.start if start is None else _cut_before(info, start)
    rows = rows_needed(request, start) if info.ordered else None
    if rows is None or rows * factor > _MAX_ROWS_AHEAD:
        return _interval(Interval(begin, part.end))
    return Ahead(rows * factor, begin)


def start_of(info: ViewInfo, values: Values, request: LeafRequest) -> Place | None:
    """Returns the place named by the request's token. Raises `ValueError` if the token does not belong to this read."""
    if request.window is None or request.window.after is None:
        return None
    return read_token(request.window.after, check_of(info, values))


def rows_needed(request: LeafRequest, start: Place | None) -> int | None:
    """Returns the number of rows needed from the page's start, or from the token's row; None: all rows."""
    bounds = page_bounds(request, start)
    if bounds.rows is None:
        return None
    # One row beyond the page shows whether another page follows.
    return bounds.skip + (0 if start is None else start.copy) + bounds.rows + (not bounds.last)


def rows_asked(info: ViewInfo, values: Values, request: LeafRequest) -> int | None:
    """Returns how many rows of a key a request reads; None if that is not known."""
    start = start_of(info, values, request)
    rows = rows_needed(request, start)
    return None if rows is None else rows + (0 if start is None else start.rank)


def _cut_before(info: ViewInfo, start: Place) -> Cut:
    """Returns the cut before a place, without the columns that the engine's order does not have."""
    cut = info.ordering.cut_of_place(start.suffix[:-HASH_BYTES])
    return replace(cut, values=cut.values[: len(info.storage) - len(info.filters)])


def _interval(part: Interval) -> Interval | None:
    return None if part == WHOLE else part
