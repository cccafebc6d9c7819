"""An engine's state as a sequence of chunks: the coverage and the rows of its nodes, parents before children.

The engine rests between two steps. Chunks are tuples of plain values, some hundred keys or rows each, so that whoever
writes them needs no memory for all. Lookups in flight, loads that are not complete and refreshed views are left out:
they are holes of the engine that reads the chunks (`restoration`). Rows of views are in the leaf store, whose records
the writer adds.

Not here: files and checksums (`service.engine.checkpoint`).
"""

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

from dataflow.engine.chunks import Chunk, CoveredKeys, NodeBegun, NodeEnded, NodeRows, Order, RankedKeys, bounds_of
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import GroupingNode, InnerNode, PartitionNode, Stored
from dataflow.engine.ranking import Ranking
from dataflow.engine.state_digests import StateDigests
from dataflow.state.coverage import Coverage
from dataflow.state.intervals import Cover, OrderedCover, OrderedCoverage
from dataflow.types import Columns, Key

#: Keys, or rows, of a chunk.
CHUNK = 256


def chunks(graph: Graph, ranking: Ranking) -> Iterator[Chunk]:
    """Yields all that is known. The engine must not step meanwhile."""
    digests = StateDigests(graph)
    for node in graph.stored():
        digest = digests.of(node) if any(map(len, node.coverages().values())) else None
        if digest is not None and not (isinstance(node, Leaf) and _is_incomplete(node)):
            yield from _node(node, digest)
    for keys in _cut((view, key, *standing) for (view, key), standing in ranking.standings()):
        yield RankedKeys(keys)


def _is_incomplete(leaf: Leaf) -> bool:
    return leaf.stopped or leaf.recovering or (leaf.full and not leaf.loaded)


def _node(node: Stored, digest: bytes) -> Iterator[Chunk]:
    if isinstance(node, Leaf):
        yield NodeBegun(digest, node.view_id, node.coverage.columns, node.ordered is not None, float(node.refill_cost))
    else:
        yield NodeBegun(digest)
    keys = rows = 0
    for cover, coverage in node.coverages().items():
        columns, order = _name(cover)
        for some in _cut(_keys(node, coverage)):
            keys += len(some)
            yield CoveredKeys(columns, order, some)
    for some in _cut(_rows(node) if isinstance(node, InnerNode) else ()):
        rows += len(some)
        yield NodeRows(some)
    yield NodeEnded(keys, rows)


def _name(cover: Cover) -> tuple[Columns, Order | None]:
    if isinstance(cover, OrderedCover):
        return cover.columns, tuple([(t.column, t.descending, t.nulls_first) for t in cover.order])
    return cover, None


def _keys(node: Stored, coverage: Coverage) -> Iterator[tuple[Any, ...]]:
    sizes = node.sizes.rows if isinstance(node, Leaf) and node.sizes is not None else {}
    for key, size in coverage.keys.items():
        yield key, _intervals(coverage, key), size, sizes.get(key, -1)


def _intervals(coverage: Coverage, key: Key) -> tuple[Any, ...] | None:
    if not isinstance(coverage, OrderedCoverage) or coverage.whole(key):
        return None
    return tuple(map(bounds_of, coverage.covered(key)))


def _rows(node: InnerNode) -> Iterator[tuple[Any, ...]]:
    if isinstance(node, GroupingNode):
        return node.grouping.records()
    if isinstance(node, PartitionNode):
        return node.partitioned.input_rows()
    return iter(node.materialization.bag().items())


def _cut(items: Iterable[tuple[Any, ...]]) -> Iterator[list[tuple[Any, ...]]]:
    rest = iter(items)
    while some := list(islice(rest, CHUNK)):
        yield some
