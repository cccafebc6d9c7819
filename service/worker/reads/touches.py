"""Sample of the keys that a worker's clients read, for the engine's eviction policy.

*Theory*: sampling may add almost nothing to the cost of a hit, and a report must stay small for any number of hits.
Hits are counted by entry name, which the read path has at hand; keys are computed only for reported ones. When the
counts reach their bound, every second one is dropped, and from then on about every second hit is skipped, and so on:
each hit of a period has the same chance at any time. A period begins with the sampling rate at the end of the
previous one.

*Invariants*: at most `MAX_TOUCHES` hits are counted at any time. Every reported key was read.

Not here: keys of entries (`Arguments.key_of`); their use (`dataflow.eviction`).
"""

from collections.abc import Iterator, Sequence
from random import Random

from dataflow.engine.limits import Limits, key_bytes
from dataflow.types import Key, ViewId
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.request import Values, request_of

#: Some milliseconds of the worker's time for each report, and at most some 200 kB.
MAX_TOUCHES = 8192
#: Larger keys are never stored, so they cannot be evicted; nor are the keys of a fully materialized view.
_MAX_KEY_BYTES = Limits().key_bytes
#: The name of an entry, or the key itself if it is at hand.
Touched = bytes | tuple[ViewId, Key]


class Touches:
    """Hits of one worker since they were last taken.

    *State*: of about `_stride` hits one is counted in `_seen`; `_skip` are skipped before the next one; `_room` more
    fit. `_stride` is 2 to the number of halvings.
    """

    def __init__(self, most: int = MAX_TOUCHES, random: Random | None = None) -> None:
        self._seen: dict[Touched, int] = {}
        self._stride = 1
        self._skip = 0
        self._most = self._room = most
        self._random = (random or Random()).random

    def note(self, name: bytes) -> None:
        """Count a read of an entry."""
        if self._skip:
            self._skip -= 1
        else:
            self._count(name)

    def note_all(self, names: Sequence[bytes]) -> None:
        """Count reads of several entries, in one request."""
        n, at = len(names), self._skip
        while at < n:
            self._count(names[at])
            at += 1 + self._skip
        self._skip = at - n

    def note_read(self, info: ViewInfo, values: Values) -> None:
        """Count a hit of a read, of one key or of lists and ranges, for all its keys."""
        if self._skip:
            self._skip -= 1
            return
        for key in request_of(info, values).keys:
            if key_bytes(key) <= _MAX_KEY_BYTES:
                self._count((info.id, key))

    def take(self) -> list[tuple[Touched, int]]:
        """Return the keys since the last call, with their counted hits."""
        seen, self._seen = self._seen, {}
        if self._room > self._most // 2:
            self._stride = max(1, self._stride // 2)
            self._skip = 0
        self._room = self._most
        return list(seen.items())

    def _count(self, touched: Touched) -> None:
        if not self._room:
            self._seen = dict(_every_second(self._seen))
            self._room = self._most - sum(self._seen.values())
            self._stride *= 2
        self._room -= 1
        self._seen[touched] = self._seen.get(touched, 0) + 1
        if self._stride > 1:
            # On average one of `_stride`, never in step with periodic readers.
            self._skip = int(self._random() * (2 * self._stride - 1))


def _every_second(seen: dict[Touched, int]) -> Iterator[tuple[Touched, int]]:
    """Halve the counts: drop every second hit."""
    rest = 0
    for touched, times in seen.items():
        rest += times
        if kept := rest // 2:
            yield touched, kept
        rest %= 2
