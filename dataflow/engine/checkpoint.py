"""An engine's state as a sequence of chunks: the coverage and the rows of its nodes, parents before children.

The engine rests between two steps. Chunks are tuples of plain values, some hundred keys or rows each, so that whoever
writes them needs no memory for all. Lookups in flight, loads that are not complete and refreshed views are left out:
they are holes of the engine that reads the chunks (`restoration`). Rows of views are in the leaf store, whose records
the writer adds.

Not here: files and checksums (`service.engine.checkpoint`).
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

from dataflow.engine.chunks import (
    Chunk,
    CoveredKeys,
    NodeBegun,
    NodeEnded,
    NodeGroups,
    NodeRows,
    Order,
    PlainInterval,
    RankedKeys,
    bounds_of,
)
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import GroupingNode, InnerNode, PartitionNode, Stored
from dataflow.engine.ranking import Ranking
from dataflow.engine.state_digests import StateDigests
from dataflow.state.coverage import Coverage
from dataflow.state.index import Stored as StoredRow
from dataflow.state.intervals import Cover, OrderedCover, OrderedCoverage
from dataflow.types import Columns, Key

#: Keys, or rows, of a chunk.
CHUNK = 1024
_T = TypeVar("_T")


def chunks(graph: Graph, ranking: Ranking) -> Iterator[Chunk]:
    """Yields all that is known. The engine must not step meanwhile."""
    digests = StateDigests(graph)
    for node in graph.stored():
        digest = None if isinstance(node, Leaf) and _is_left_out(node) else digests.of(node)
        if digest is not None:
            yield from _node(node, digest, digests)
    for some in _cut(ranking.standings()):
        items, standings = zip(*some, strict=True)
        views, keys = zip(*items, strict=True)
        yield RankedKeys(views, keys, standings)


def _is_left_out(leaf: Leaf) -> bool:
    return not leaf.coverage or leaf.stopped or leaf.recovering or (leaf.full and not leaf.loaded)


def _node(node: Stored, digest: bytes, digests: StateDigests) -> Iterator[Chunk]:
    if isinstance(node, Leaf):
        yield NodeBegun(digest, node.view_id, node.coverage.columns, node.ordered is not None, float(node.refill_cost))
    else:
        yield NodeBegun(digest)
    keys = rows = 0
    for cover, coverage in node.coverages().items():
        columns, order = _name(cover)
        routes = digests.of_routes(node, cover)
        for some in _cut(coverage.keys):
            keys += len(some)
            yield CoveredKeys(columns, order, routes, *_columns(node, coverage, some))
    if isinstance(node, GroupingNode):
        for groups in _cut(node.grouping.records()):
            rows += len(groups)
            yield NodeGroups(tuple(groups))
    elif isinstance(node, InnerNode):
        for stored in _cut(_rows(node)):
            rows += len(stored)
            yield _in_columns(stored)
    yield NodeEnded(keys, rows)


def _name(cover: Cover) -> tuple[Columns, Order | None]:
    if isinstance(cover, OrderedCover):
        return cover.columns, tuple([(t.column, t.descending, t.nulls_first) for t in cover.order])
    return cover, None


def _columns(node: Stored, coverage: Coverage, some: Sequence[Key]) -> tuple[Any, ...]:
    keys, sizes = tuple(some), tuple(coverage.sizes(some))
    limited = node.sizes.rows if isinstance(node, Leaf) and node.sizes is not None else None
    rows = None if limited is None else tuple([limited.get(key, -1) for key in keys])
    if not isinstance(coverage, OrderedCoverage):
        return keys, sizes, rows, None
    return keys, sizes, rows, tuple([_intervals(coverage, key) for key in keys])


def _intervals(coverage: OrderedCoverage, key: Key) -> tuple[PlainInterval, ...] | None:
    if coverage.whole(key):
        return None
    return tuple(map(bounds_of, coverage.covered(key)))


def _rows(node: InnerNode) -> Iterable[tuple[StoredRow, int]]:
    if isinstance(node, PartitionNode):
        return node.partitioned.input_rows()
    return node.materialization.stored().items()


def _in_columns(some: Sequence[tuple[StoredRow, int]]) -> NodeRows:
    rows, times = zip(*some, strict=True)
    return NodeRows(rows, None if times.count(1) == len(times) else times)


def _cut(items: Iterable[_T]) -> Iterator[list[_T]]:
    rest = iter(items)
    while some := list(islice(rest, CHUNK)):
        yield some
