"""Since when answers of the leaf store are what they are: they are exact from there to the store's position.

*Invariants*: never too early. Where it is not known, that is said, and the store's position is the earliest that is
sure.
"""

from collections.abc import Iterable

from dataflow.types import Position
from service.leaf_store.answer import PageWindow
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.layout import MARK, SINCE_SLICE, entry_key
from service.leaf_store.request import Values, request_of
from service.leaf_store.transaction import LeafTransaction


def unchanged_since(
    txn: LeafTransaction, info: ViewInfo, values: Values, window: PageWindow | None = None
) -> Position | None:
    """Since when a covered answer has not changed; None: that is not known."""
    entries = [txn.get(entry_key(info.head, key)) for key in request_of(info, values, window).keys]
    known = [entry for entry in entries if entry is not None]
    # A key of a full view that has no rows: whether it ever had is not known.
    return since_of(txn, info, known) if len(known) == len(entries) else None


def since_of(txn: LeafTransaction, info: ViewInfo, entries: Iterable[bytes]) -> Position:
    """Since when what these entries of a view say, all of it, has not changed."""
    mark = txn.get(info.head)
    changed = [entry[SINCE_SLICE] for entry in entries]
    since = int.from_bytes(max(changed), "big") if changed else 0
    if mark is not None:
        since = max(since, MARK.unpack(mark)[0])
    # An answer that expired may have been another one at that very version.
    return since + info.refreshed
