"""What the leaf store has of answers that are followed, all in one transaction.

Not here: asking the engine for what it does not have (`service.worker.shards.topics`).
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
class Found:
    """An answer and since when it is this one; None is a hole, and `gone` says why it will stay one."""

    answer: StoredAnswer | None = None
    since: Position = 0
    gone: str | None = None


def look(reads: Reads, wanted: Sequence[WantedRead]) -> tuple[LeafState | None, list[Found]]:
    """What there is of each, exact at the state's position. The state is None in between of two streams."""
    with reads.reader.begin() as txn:
        state = reads.follow(txn)
        if state is None or reads.catalog is None:
            return None, []
        views = reads.catalog.by_id
        return state, [_found(txn, views.get(w.view.info.id), w, state) for w in wanted]


def _found(txn: LeafTransaction, info: ViewInfo | None, wanted: WantedRead, state: LeafState) -> Found:
    if info is None or not info.listed:
        return Found(gone="The view was replaced or dropped.")
    if info.status == "broken":
        return Found(gone=f"The view is broken: {info.reason or 'the reason is unknown'}.")
    if info.status == ELSEWHERE:
        return Found(gone="The view is kept by another shard now.")
    answer = answer_in(txn, info, wanted.values, wanted.window)
    if answer is None:
        return Found()
    since = unchanged_since(txn, info, wanted.values, wanted.window)
    return Found(answer, state.position if since is None else since)
