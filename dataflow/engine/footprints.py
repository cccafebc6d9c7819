"""Footprints of view keys: the keys of inner nodes that each has read, and the memory of those.

*Theory*: an inner key stays while anything covered depends on it (`budget`). So what some keys of views hold inside is
the union of what they lead to, not the sum; who wants to know what fewer of them would take needs to know which. That a
key *may* depend on an inner key, by the rows that are known, keeps it, too, if another one has read it (`evictions`).

*Invariants*: an inner key is told after those that it has read itself. Nodes that are kept whole are left out: they
take the same whatever is read. A step looks at one key; between two the engine may go on, so the whole is no picture of
one moment.

Not here: what a model makes of it (`dataflow.spark.workload.inner`).
"""

from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import gcd

from dataflow.engine.evictions import Target, dependent_keys, direct_reads
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import InnerNode, Stored
from dataflow.sizing import TEXT_BYTES, tuple_bytes
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.types import Key, NodeId, ViewId

#: Keys, and mentions of keys that others have read, that are told.
MOST = 300_000
#: Rows that are walked from to find what may depend on an inner key.
_LOOKS = 256
#: Multiples of this part of a circle are spread over it evenly, however many they are.
_GOLDEN = 0.618
#: What an inner key takes besides its rows: its slots in an index and in a coverage, and the key that both have.
_KEY_BYTES = 90 + tuple_bytes(1) + TEXT_BYTES

#: A key of a node: of an inner one by its cover, of a view by ``None``.
_Name = tuple[NodeId, Cover | None, Key]


@dataclass(slots=True)
class Needs:
    """Size of a key (one of a view: of its rows, as the policy weighs them), and places of the inner keys that it has
    read itself, and of others that it may depend on."""

    key: Key
    size: int
    reads: list[int]
    keeps: list[int] = field(default_factory=list)


@dataclass(slots=True)
class InnerFootprints:
    """*Maintains*: `inner` are inner keys, with their nodes; `keys` are keys of views."""

    inner: list[tuple[NodeId, Needs]] = field(default_factory=list)
    keys: dict[ViewId, list[Needs]] = field(default_factory=dict)
    _places: dict[_Name, int] = field(default_factory=dict)
    _needs: dict[_Name, Needs] = field(default_factory=dict)
    #: By place, what may depend on an inner key.
    _needed_by: list[list[_Name]] = field(default_factory=list)
    _told: int = 0

    def walk(self, leaves: Mapping[ViewId, Leaf], most: int = MOST) -> Iterator[None]:
        """Looks at one key at each step: at those of all views in turn, until all were or `most` is reached."""
        waiting: dict[Leaf, Iterator[Key]] = {}
        for leaf in leaves.values():
            if not leaf.full:
                self.keys[leaf.view_id] = []
                waiting[leaf] = _scattered(list(leaf.coverage))
                yield
        while waiting and self._told < most:
            for leaf, keys in list(waiting.items()):
                key = next(keys, None)
                if key is None:
                    del waiting[leaf]
                    continue
                yield from self._look(leaf, key)
        for place, names in enumerate(self._needed_by):
            self._keep(place, names)
            yield

    def _look(self, leaf: Leaf, key: Key) -> Generator[None, None, None]:
        if key in leaf.coverage.keys:
            needs = self._needs[leaf.id, None, key] = Needs(key, leaf.coverage.keys[key], [])
            needs.reads += yield from self._read_by(leaf, leaf.coverage.columns, key)
            self.keys[leaf.view_id].append(needs)
        yield

    def _read_by(self, node: Stored, columns: Cover, key: Key) -> Generator[None, None, list[int]]:
        """The places of the keys that this one has read itself."""
        places = []
        for target in dict.fromkeys(direct_reads(node, columns, key)):
            if _may_go(target):
                place = yield from self._place(target)
                places.append(place)
        self._told += 1 + len(places)
        return places

    def _place(self, target: Target) -> Generator[None, None, int]:
        node, columns, key = target
        name = (node.id, columns, key)
        place = self._places.get(name)
        if place is None:
            reads = yield from self._read_by(node, columns, key)
            place = self._places[name] = len(self.inner)
            needs = self._needs[name] = Needs(key, _size(node, columns, key), reads)
            self.inner.append((node.id, needs))
            self._needed_by.append([_name(found) for found in dependent_keys(node, columns, key, _LOOKS)])
            yield
        return place

    def _keep(self, place: int, names: list[_Name]) -> None:
        for name in dict.fromkeys(names):
            needs = self._needs.get(name)
            if needs is not None and place not in needs.reads:
                needs.keeps.append(place)


def _scattered(keys: Sequence[Key]) -> Iterator[Key]:
    """Each once, the first few from everywhere: those that were filled first may be read most."""
    step = max(1, int(len(keys) * _GOLDEN))
    while gcd(step, len(keys)) > 1:
        step += 1
    return (keys[number * step % len(keys)] for number in range(len(keys)))


def _name(target: Target) -> _Name:
    node, columns, key = target
    return node.id, None if isinstance(node, Leaf) else columns, key


def _may_go(target: Target) -> bool:
    node, columns, key = target
    return bool(columns) and node.holds(columns, key)


def _size(node: Stored, cover: Cover, key: Key) -> int:
    """About: its rows, its entry in the index that it is looked up in, and its rows' part of the other indexes."""
    assert isinstance(node, InnerNode)
    columns = cover.columns if isinstance(cover, OrderedCover) else cover
    indexes = node.materialization.indexes
    rows = list(indexes[columns].get(key))
    others = sum(index.state_bytes() for by, index in indexes.items() if by != columns)
    beside = len(rows) * others // max(1, node.materialization.row_count)
    return _KEY_BYTES + node.materialization.bytes_of(rows) + beside
