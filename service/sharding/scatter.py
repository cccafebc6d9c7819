"""What a request asks for, in parts for the shards that answer them, and the answers back in the order of the request.

Not here: which shard that is (`service.worker.shards.placement`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")
U = TypeVar("U")


@dataclass(slots=True)
class ShardPart(Generic[T]):
    """What one shard is asked for, and where each of it stands in the request."""

    shard: int
    items: list[T] = field(default_factory=list)
    places: list[int] = field(default_factory=list)


def split(items: Iterable[T], shards: Iterable[int]) -> list[ShardPart[T]]:
    """The parts, each of one shard, in the order in which these are first named."""
    parts: dict[int, ShardPart[T]] = {}
    for place, (item, shard) in enumerate(zip(items, shards, strict=True)):
        part = parts.get(shard)
        if part is None:
            part = parts[shard] = ShardPart(shard)
        part.items.append(item)
        part.places.append(place)
    return list(parts.values())


def joined(parts: Sequence[ShardPart[T]], answers: Sequence[Sequence[U]]) -> list[U]:
    """The answers of all parts, each part's in the order of its items, as the request has them."""
    placed = {
        place: answer
        for part, of_part in zip(parts, answers, strict=True)
        for place, answer in zip(part.places, of_part, strict=True)
    }
    return [placed[place] for place in range(len(placed))]
