"""Earliest position of an answer: it is exact from there to the store's position.

*Invariants*: the position is never too early. If it is unknown, None is returned, and only the store's position is
certain.
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
    """Return the position since which a covered answer is unchanged; None: unknown."""
    entries = [txn.get(entry_key(info.head, key)) for key in request_of(info, values, window).keys]
    known = [entry for entry in entries if entry is not None]
    # A key of a full view without rows may have had rows before.
    return since_of(txn, info, known) if len(known) == len(entries) else None


def since_of(txn: LeafTransaction, info: ViewInfo, entries: Iterable[bytes]) -> Position:
    """Return the position since which all these entries of a view are unchanged."""
    mark = txn.get(info.head)
    changed = [entry[SINCE_SLICE] for entry in entries]
    since = int.from_bytes(max(changed), "big") if changed else 0
    if mark is not None:
        since = max(since, MARK.unpack(mark)[0])
    # The answer that expired at this version may have been different.
    return since + info.refreshed
