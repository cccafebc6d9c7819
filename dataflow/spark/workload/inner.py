"""Inner keys that keys of views need, and may share: rows of joined tables, say.

*Theory*: an inner key comes with the first key that reads it and stays while anything materialized depends on it, so
few keys of views can hold much of what is inside, and what filling one costs depends on what the others hold. Which
inner keys each needs was measured (`InnerKeys`); a replay counts who does (`Holding`).

A service tells of some keys only where it has many, and a log has some that have gone since: such a key is taken to
lead where another one of its view does. What nothing but that one leads to it has the like of, for itself.

*Invariants*: all keys of a sample together take inside what was measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dataflow.spark.workload.sample import Floats, Ints, ReadSample

#: Places of inner keys: what a key has read itself, and what else it may depend on.
Needs = tuple[Sequence[int], Sequence[int]]
#: `dataflow.engine.ranking.ROW_COST`.
ROW_COST = 0.01
#: Likewise: what a fill costs that needs no lookup.
LEAST_COST = 0.1
_NOTHING: Needs = ((), ())


@dataclass(frozen=True, slots=True)
class InnerKeys:
    """Inner keys: of which node, what they take, which of them each needs (those that it has read come first), and what
    each adds to a lookup (`costs`; negative: it is derived from what others have looked up). Keys of views (name,
    texts), with bytes of their rows, and what they need. `table_share`: how much of what they take is tables by
    key."""

    node: Sequence[int]
    sizes: Sequence[float]
    needs: Sequence[Needs]
    keys: Sequence[tuple[str, Sequence[str | None]]]
    key_bytes: Floats
    key_needs: Sequence[Needs]
    costs: Sequence[float]
    table_share: float

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> "InnerKeys":
        """From what a service says. Raises LookupError, TypeError or ValueError if that is something else."""
        nodes, inner = document["nodes"], document["inner"]
        node = np.array([int(each[0]) for each in inner], dtype=np.int64)
        shares = _shares(node, np.array([float(each[1]) for each in inner]), len(nodes))
        keys = [(name, *key) for name, view in document["views"].items() for key in view["keys"]]
        numbers = np.array([max(1, int(each["covered_keys"])) for each in nodes])
        rows = np.array([int(each["rows"]) for each in nodes]) / numbers
        looked_up = np.array([bool(each["looked_up"]) for each in nodes])
        return cls(
            node.tolist(),
            (shares * (np.array([float(each["state_bytes"]) for each in nodes]) / numbers)[node]).tolist(),
            [(_checked(each[2], place), _checked(each[3], len(inner))) for place, each in enumerate(inner)],
            [(name, tuple(texts)) for name, texts, *_ in keys],
            np.array([float(key[2]) for key in keys]),
            [(_checked(key[3], len(inner)), _checked(key[4], len(inner))) for key in keys],
            np.where(looked_up[node], ROW_COST * (1 + shares * rows[node]), -1.0).tolist(),
            sum(int(n["table_bytes"]) for n in nodes) / max(1, sum(int(n["state_bytes"]) for n in nodes)),
        )


def _shares(node: Ints, sizes: Floats, nodes: int) -> Floats:
    """Each size by the mean of its node. How large inner keys are is estimated; what a node takes was measured."""
    counts = np.bincount(node, minlength=nodes)
    means = np.bincount(node, weights=sizes, minlength=nodes) / np.maximum(1, counts)
    return np.asarray(sizes / np.maximum(1.0, means)[node], dtype=np.float64)


def _checked(places: Sequence[int], end: int) -> Sequence[int]:
    if not all(0 <= place < end for place in places):
        raise ValueError("an inner key that is not there")
    return places


@dataclass(frozen=True, slots=True)
class Inner:
    """Own bytes of the sample's keys, and the inner keys that each needs; None: unknown. Inner keys are as in
    `InnerKeys`."""

    outside: Floats
    of_key: Sequence[Needs | None]
    node: Sequence[int]
    sizes: Sequence[float]
    needs: Sequence[Needs]
    costs: Sequence[float]
    table_share: float


class Holding:
    """*Maintains*: what of inner keys is held, and how much of what is held depends on each. One goes when nothing
    does. `bytes`: what they take; `freed`: what those took that have gone."""

    def __init__(self, inner: Inner) -> None:
        self._inner = inner
        self._held = bytearray(len(inner.sizes))
        self._needed = [0] * len(inner.sizes)
        self.bytes = self.freed = 0.0

    def hold(self, key: int) -> float:
        """A key is held now: what that takes more inside."""
        held, needed, inner, added = self._held, self._needed, self._inner, 0.0
        todo = [inner.of_key[key] or _NOTHING]
        while todo:
            reads, keeps = todo.pop()
            for place in keeps:
                needed[place] += 1
            for place in reads:
                needed[place] += 1
                if not held[place]:
                    held[place] = 1
                    added += inner.sizes[place]
                    todo.append(inner.needs[place])
        self.bytes += added
        return added

    def let_go(self, key: int) -> float:
        """A key that was held is not any more: what that frees inside."""
        held, needed, inner, freed = self._held, self._needed, self._inner, 0.0
        todo = [inner.of_key[key] or _NOTHING]
        while todo:
            for places in todo.pop():
                for place in places:
                    needed[place] -= 1
                    if not needed[place] and held[place]:
                        held[place] = 0
                        freed += inner.sizes[place]
                        todo.append(inner.needs[place])
        self.bytes -= freed
        self.freed += freed
        return freed

    def churn_bytes(self) -> float:
        """Additional bytes of hash tables after removals. A dictionary grows to three times its entries or more when it
        is full. One that is only added to has one and a half to three places for each entry, then; once places of
        removed entries have filled it up, three to six: twice as many."""
        return self._inner.table_share * min(self.bytes, self.freed)

    def lacks(self, key: int) -> bool | None:
        """Return whether something that a key reads is missing. None: it reads nothing inside, as far as is known."""
        reads, _ = self._inner.of_key[key] or _NOTHING
        return not all(map(self._held.__getitem__, reads)) if reads else None

    def cost(self, keys: Iterable[int]) -> tuple[float, int]:
        """Cost of filling all that some keys lack, one lookup for each node, and the number of inner keys that are
        looked up."""
        inner, cost, number = self._inner, 0.0, 0
        nodes: set[int] = set()
        seen: set[int] = set()
        todo = [place for key in keys for place in (inner.of_key[key] or _NOTHING)[0]]
        while todo:
            place = todo.pop()
            if self._held[place] or place in seen:
                continue
            seen.add(place)
            todo += inner.needs[place][0]
            node = inner.node[place]
            if inner.costs[place] >= 0:
                cost += inner.costs[place] + (node not in nodes)
                nodes.add(node)
                number += 1
        return cost, number


@dataclass(frozen=True, slots=True)
class FootprintPlaces:
    """Footprints of a sample's keys: the place of each key's own, or of another key's of its view; negative: unknown.
    `own`: whether it is its own."""

    place: Ints
    own: NDArray[np.bool_]

    @classmethod
    def of(cls, footprints: InnerKeys, hashes: Ints, sample: ReadSample) -> "FootprintPlaces":
        """`hashes` are those of the footprints' keys."""
        place_of = {hash_: place for place, hash_ in enumerate(hashes.tolist())}
        by_view: dict[str, list[int]] = {}
        for place, (view, _) in enumerate(footprints.keys):
            by_view.setdefault(view, []).append(place)
        keys = sample.keys
        others = [by_view.get(sample.views[view], [-1]) for view in keys.view.tolist()]
        found = [place_of.get(hash_, -1) for hash_ in keys.hash.tolist()]
        own = np.array(found, dtype=np.int64) >= 0
        like = [of_view[hash_ % len(of_view)] for of_view, hash_ in zip(others, keys.hash.tolist(), strict=True)]
        return cls(np.where(own, found, like).astype(np.int64), own)


def inner_of(footprints: InnerKeys, places: FootprintPlaces, scale: Floats, outside: Floats, inside: Floats) -> Inner:
    """Assigns inner keys to the keys of a sample, each of which stands for `scale` keys. `outside` and `inside`: bytes
    of each key, with all keys in memory."""
    likened = _Likened(footprints)
    of_key = [
        None if place < 0 else footprints.key_needs[place] if own and times == 1 else likened.to(place, times)
        for place, own, times in zip(places.place.tolist(), places.own.tolist(), scale.tolist(), strict=True)
    ]
    known = places.place >= 0
    total = sum(likened.sizes[place] for place in _union(of_key, likened.needs))
    factor = float(inside[known] @ scale[known]) / total if total else 1.0
    return Inner(
        np.where(known, outside, outside + inside),
        of_key,
        likened.node,
        [factor * size for size in likened.sizes],
        likened.needs,
        likened.costs,
        footprints.table_share,
    )


class _Likened:
    """Inner keys, with copies of those that only one needs for others that are like it."""

    def __init__(self, footprints: InnerKeys) -> None:
        self.node, self.sizes, self.costs = list(footprints.node), list(footprints.sizes), list(footprints.costs)
        self.needs = list(footprints.needs)
        self._key_needs = footprints.key_needs
        self._needed = [0] * len(self.sizes)
        for needs in (*footprints.needs, *footprints.key_needs):
            for place in chain(*needs):
                self._needed[place] += 1

    def to(self, key: int, times: float) -> Needs:
        """Inner keys of so many keys like this one."""
        return self._copies(self._key_needs[key], times)

    def _copies(self, needs: Needs, times: float) -> Needs:
        reads, keeps = needs
        return [self._copy(place, times) for place in reads], [place for place in keeps if self._needed[place] > 1]

    def _copy(self, place: int, times: float) -> int:
        if self._needed[place] > 1:
            return place
        needs = self._copies(self.needs[place], times)
        self.node.append(self.node[place])
        self.sizes.append(times * self.sizes[place])
        self.costs.append(self.costs[place])
        self.needs.append(needs)
        return len(self.sizes) - 1


def _union(of_key: Iterable[Needs | None], needs: Sequence[Needs]) -> set[int]:
    """All inner keys that the given keys reach."""
    found: set[int] = set()
    todo = [place for each in of_key if each is not None for place in each[0]]
    while todo:
        place = todo.pop()
        if place not in found:
            found.add(place)
            todo += needs[place][0]
    return found
