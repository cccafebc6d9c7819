"""Hits of many keys of one view in the leaf stores of several shards (for one shard:
`service.worker.routes.batch_hits`).

*Invariants*: answers equal those of `ShardedReads.serve` (checked in `tests/service/worker/shards/test_router.py`).
None means that nothing was counted.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from service.leaf_store.layout import HEAD_BYTES
from service.leaf_store.read_ahead import AtOnce
from service.leaf_store.scan import NotCoveredError
from service.leaf_store.unchanged import since_of
from service.sharding.common_version import Exact, meet
from service.sharding.scatter import joined, split
from service.web.messages import Reply
from service.worker.reads.batches import batch_reply
from service.worker.reads.notes import NOTED
from service.worker.reads.reads import Answers, Reads, ViewRoute
from service.worker.routes.batch_hits import entries_of, results_of, rows_of
from service.worker.shards.placement import PlacedView
from service.worker.shards.reads import is_same


@dataclass(frozen=True, slots=True)
class _Hits:
    """The hits of one leaf store."""

    reads: Reads
    route: ViewRoute
    names: list[bytes]
    rows: list[bytes]
    at_ms: int


def reply_of(shards: Sequence[Reads], placed: PlacedView, names: Sequence[bytes], started: int) -> Reply | None:
    """Return the response to a request for these entries, named as in the leaf store of `placed.route`."""
    parts = split(names, map(placed.of_entry, names))
    timelines, at_once = [], AtOnce()
    for part in parts:
        found = _look(shards[part.shard], placed.route, part.items, at_once)
        if found is None:
            return None
        timelines.append([found])
    met = meet(timelines)
    if met is None:
        return None
    hits = [exact.answers for exact in met.parts]
    for each in hits:
        each.route.counters.hits += len(each.names)
        each.reads.touches.note_all(each.names)
    rows = joined(parts, [each.rows for each in hits])
    if (noted := NOTED.get()) is not None:
        noted.entries(placed.route.info, joined(parts, [each.names for each in hits]), rows)
    answers = Answers([], met.position, min(each.at_ms for each in hits), hit=True)
    return batch_reply(answers, results_of(rows), placed.route.cache_control, started)


def _look(reads: Reads, known: ViewRoute, names: Sequence[bytes], at_once: AtOnce) -> Exact[_Hits] | None:
    with reads.reader.begin() as txn:
        state = reads.follow(txn)
        route = reads.routes.get(known.info.name)
        if state is None or route is None or route.max_lag_ms is not None or not is_same(route.info, known.info):
            return None
        own = [route.info.head + name[HEAD_BYTES:] for name in names]
        entries = entries_of(txn, route, own)
        if entries is None:
            return None
        try:
            rows = rows_of(txn, route, own, entries, at_once)
        except NotCoveredError:
            return None
        since = min(since_of(txn, route.info, entries), state.position)
    hits = _Hits(reads, route, own, rows, state.at_ms)
    return Exact(hits, since, state.position, state.server, state.one_by_one)
