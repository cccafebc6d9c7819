"""Split of a request into parts for shards, and the order of the parts' answers.

Not here: the choice of shards (`service.worker.shards.placement`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


@dataclass(slots=True)
class ShardPart(Generic[T]):
    """The items of one shard, and their places in the request."""

    shard: int
    items: list[T] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


def split(items: Iterable[T], shards: Iterable[int]) -> list[ShardPart[T]]:
    """Return the parts, one for each shard, in the order of the shards' first items."""
    parts: dict[int, ShardPart[T]] = {}
    for place, (item, shard) in enumerate(zip(items, shards, strict=True)):
        part = parts.get(shard)
        if part is None:
            part = parts[shard] = ShardPart(shard)
        part.items.append(item)
        part.places.append(place)
    return list(parts.values())


def joined(parts: Sequence[ShardPart[T]], answers: Sequence[Sequence[U]]) -> list[U]:
    """Return the answers of all parts in the order of the request."""
    placed = {
        place: answer
        for part, of_part in zip(parts, answers, strict=True)
        for place, answer in zip(part.places, of_part, strict=True)
    }
    return [placed[place] for place in range(len(placed))]
