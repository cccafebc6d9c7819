"""One version for the answers of several shards: what is exact from one position to another meets where these overlap.

*Theory*: an answer read in one transaction of a leaf store is exact not only at the store's position but at every one
since its entries last changed at which the store has been: at those since transactions were applied one by one, and at
milestones (`dataflow.milestones`; what changed and changed back in between is not seen). Answers of several shards are
the answers of one version if there is a position at which all of them are exact. What was read before stays true of its
own interval: an older answer of one shard may meet a newer one of another.

*Invariants*: positions of different servers are never compared.

Not here: reading, and reading again (`service.worker.shards.reads`).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from dataflow.milestones import is_milestone, milestone_before
from dataflow.types import Position

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Exact(Generic[T]):
    """Answers of one shard, exact from `since` to `until` in the log of `server`: at every position from `one_by_one`
    on, and at milestones."""

    answers: T
    since: Position
    until: Position
    server: str = ""
    one_by_one: Position = 0

    def is_at(self, position: Position, server: str) -> bool:
        """Whether they are the answers at that position."""
        there = position == self.until or position >= self.one_by_one or is_milestone(position)
        return there and self.server == server and self.since <= position <= self.until


@dataclass(frozen=True, slots=True)
class CommonVersion(Generic[T]):
    """What is exact at `position`: of each shard what was read at some time."""

    position: Position
    parts: list[Exact[T]]


def meet(timelines: Sequence[Sequence[Exact[T]]], *, least: Position = 0) -> CommonVersion[T] | None:
    """The newest position, not before `least`, at which something of each timeline is exact; None if there is none.
    Each timeline has what was read of one shard so far."""
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
    """The last that was read of what is exact there."""
    return next((exact for exact in reversed(timeline) if exact.is_at(position, server)), None)


def reached(timelines: Sequence[Sequence[Exact[T]]]) -> Position:
    """A position by which all shards had what their first answers were to wait for."""
    return min(timeline[0].until for timeline in timelines)


def awaited(timelines: Sequence[Sequence[Exact[T]]]) -> Position:
    """The position that shards which are behind have to get to, of those that have not met: before there is any hope,
    the newest change of all; then, the newest position."""
    changed = max(timeline[-1].since for timeline in timelines)
    if any(timeline[-1].until < changed for timeline in timelines):
        return changed
    return max(timeline[-1].until for timeline in timelines)


def late(timelines: Sequence[Sequence[Exact[T]]]) -> list[int]:
    """Which shards have not got there."""
    target = awaited(timelines)
    return [n for n, timeline in enumerate(timelines) if timeline[-1].until < target]
