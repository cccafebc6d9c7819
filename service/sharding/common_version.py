"""A common version of the answers of several shards, found where their intervals of exactness overlap.

*Theory*: an answer read in one transaction of a leaf store is exact at the store's position and at every earlier
position that the store was at since its entries last changed: at all positions since transactions were applied one
by one, and before that at milestones (`dataflow.milestones`; a change that was reverted in between is not seen).
Answers of several shards have one version if all are exact at one position. Earlier answers stay exact in their own
intervals, so an older answer of one shard may be combined with a newer one of another.

*Invariants*: positions of different servers are never compared.

Not here: the reads and their repetition (`service.worker.shards.reads`, `service.gateway.batches`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dataflow.milestones import is_milestone, milestone_before
from dataflow.types import Position

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Exact(Generic[T]):
    """Answers of one shard, exact from `since` to `until` in the log of `server`: at every position from
    `one_by_one` on, and at milestones."""

    answers: T
    since: Position
    until: Position
    server: str = ""
    one_by_one: Position = 0

    def is_at(self, position: Position, server: str) -> bool:
        """Return whether the answers are exact at that position."""
        there = position == self.until or position >= self.one_by_one or is_milestone(position)
        return there and self.server == server and self.since <= position <= self.until


@dataclass(frozen=True, slots=True)
class CommonVersion(Generic[T]):
    """Answers that are exact at `position`, one part for each shard."""

    position: Position
    parts: list[Exact[T]]


def meet(timelines: Sequence[Sequence[Exact[T]]], *, least: Position = 0) -> CommonVersion[T] | None:
    """Return the newest position from `least` on at which an answer of each timeline is exact, with these answers;
    None if there is none. A timeline has the answers read from one shard so far."""
    ends = [(exact.until, exact.server) for timeline in timelines for exact in timeline]
    before = [(milestone_before(position), server) for position, server in ends]
    for position, server in sorted({*ends, *before}, reverse=True):
        if position < least:
            return None
        parts = [_at(timeline, position, server) for timeline in timelines]
        found = [part for part in parts if part is not None]
        if len(found) == len(parts):
            return CommonVersion(position, found)
    return None


def _at(timeline: Sequence[Exact[T]], position: Position, server: str) -> Exact[T] | None:
    """Return the newest answers of a timeline that are exact at that position."""
    return next((exact for exact in reversed(timeline) if exact.is_at(position, server)), None)


def reached(timelines: Sequence[Sequence[Exact[T]]]) -> Position:
    """Return a position that all shards had reached at their first answers."""
    return min(timeline[0].until for timeline in timelines)


def awaited(timelines: Sequence[Sequence[Exact[T]]]) -> Position:
    """Return the position that lagging shards have to reach for a common version: the newest change of all, or, if
    all have reached that, the newest position."""
    changed = max(timeline[-1].since for timeline in timelines)
    if any(timeline[-1].until < changed for timeline in timelines):
        return changed
    return max(timeline[-1].until for timeline in timelines)


def late(timelines: Sequence[Sequence[Exact[T]]]) -> list[int]:
    """Return the shards that have not reached the awaited position."""
    target = awaited(timelines)
    return [n for n, timeline in enumerate(timelines) if timeline[-1].until < target]
