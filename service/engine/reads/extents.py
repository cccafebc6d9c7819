"""From a request to what the engine is to cover of each of its keys.

Not here: when the leaf store has enough (`service.leaf_store.reader`), how the engine covers it (`dataflow.engine`).
"""

from dataflow.engine.events import Ahead, Extent
from dataflow.plan.parts import WHOLE, Interval
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.layout import HASH_BYTES
from service.leaf_store.pages import Place, page_bounds, read_token
from service.leaf_store.request import LeafRequest, Values, check_of

#: Who wants more rows than this is taken to want all of them.
_MAX_ROWS_AHEAD = 100_000


def extent_of(info: ViewInfo, values: Values, request: LeafRequest, factor: int = 1) -> Extent:
    """What of each key is needed. `factor` times as many rows as the answer has, where it has a number.

    ValueError: the window's token is not one of this read.
    """
    start = start_of(info, values, request)
    if not info.storage or not info.direct:
        # Answers in another order than the store's need all rows to find the first.
        return _interval(request.part)
    begin = request.part.start if start is None else info.ordering.cut_of_place(start.suffix[:-HASH_BYTES])
    rows = rows_needed(request, start) if info.ordered else None
    if rows is None or rows * factor > _MAX_ROWS_AHEAD:
        return _interval(Interval(begin, request.part.end))
    return Ahead(rows * factor, begin)


def start_of(info: ViewInfo, values: Values, request: LeafRequest) -> Place | None:
    """The place that the request's token names. ValueError if it is not one of this read."""
    if request.window is None or request.window.after is None:
        return None
    return read_token(request.window.after, check_of(info, values))


def rows_needed(request: LeafRequest, start: Place | None) -> int | None:
    """How many rows must be there from the part's start on, or from the token's row on; None: all of them."""
    bounds = page_bounds(request, start)
    if bounds.rows is None:
        return None
    # Behind a page that is not the last, one more row says that there is another.
    return bounds.skip + (0 if start is None else start.copy) + bounds.rows + (not bounds.last)


def rows_asked(info: ViewInfo, values: Values, request: LeafRequest) -> int | None:
    """How far into a key a request reads, in rows; None if that is not known."""
    start = start_of(info, values, request)
    rows = rows_needed(request, start)
    return None if rows is None else rows + (0 if start is None else start.rank)


def _interval(part: Interval) -> Interval | None:
    return None if part == WHOLE else part
