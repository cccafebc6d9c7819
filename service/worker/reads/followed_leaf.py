"""Followed answers in the leaf store, read in one transaction.

Not here: requests to the engine for missing ones (`service.worker.subscriptions.updates`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.types import Position
from service.leaf_store.answer import LeafState, StoredAnswer
from service.leaf_store.catalog import ELSEWHERE, ViewInfo
from service.leaf_store.reader import answer_in
from service.leaf_store.transaction import LeafTransaction
from service.leaf_store.unchanged import unchanged_since
from service.worker.reads.reads import Reads, WantedRead


@dataclass(frozen=True, slots=True)
class FollowedAnswer:
    """An answer and the position since which it is unchanged; None is a hole, and `gone` the reason if it is
    permanent."""

    answer: StoredAnswer | None = None
    since: Position = 0
    gone: str | None = None


def look(reads: Reads, wanted: Sequence[WantedRead]) -> tuple[LeafState | None, list[FollowedAnswer]]:
    """Return the stored answers, exact at the state's position. The state is None between two streams."""
    with reads.reader.begin() as txn:
        state = reads.follow(txn)
        if state is None or reads.catalog is None:
            return None, []
        views = reads.catalog.by_id
        return state, [_found(txn, views.get(w.view.info.id), w, state) for w in wanted]


def _found(txn: LeafTransaction, info: ViewInfo | None, wanted: WantedRead, state: LeafState) -> FollowedAnswer:
    if info is None or not info.listed:
        return FollowedAnswer(gone="The view was replaced or dropped.")
    if info.status == "broken":
        return FollowedAnswer(gone=f"The view is broken: {info.reason or 'the reason is unknown'}.")
    if info.status == "outdated":
        return FollowedAnswer(gone=f"The view is being planned again: {info.reason or 'the schema has changed'}")
    if info.status == ELSEWHERE:
        return FollowedAnswer(gone="The view has moved to another shard.")
    answer = answer_in(txn, info, wanted.values, wanted.window)
    if answer is None:
        return FollowedAnswer()
    since = unchanged_since(txn, info, wanted.values, wanted.window)
    return FollowedAnswer(answer, state.position if since is None else since)
