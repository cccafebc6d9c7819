"""Which keys a worker's readers read: a sample, for the engine's eviction policy.

*Theory*: a hit may cost next to nothing more, and a report must stay small however many hits there were. Hits are
counted by what the read path has at hand, an entry's name; what key that is, is worked out for those that are reported.
When too many have been counted, every second one is dropped, and from then on about every second one is not counted;
and so on: each hit of a period has the same chance whenever it came. A period begins as sparsely as the last one ended.

*Invariants*: at most `MAX_TOUCHES` hits are counted at any time. What is reported was read.

Not here: what key an entry has (`Arguments.key_of`); what is made of it (`dataflow.eviction`).
"""

from collections.abc import Iterator, Sequence
from random import Random

from dataflow.engine.limits import Limits, key_bytes
from dataflow.types import Key, ViewId
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.request import Values, request_of

#: Some milliseconds of the worker's time for each report, and at most some 200 kB of it.
MAX_TOUCHES = 8192
#: Larger keys are not held, so that none of them can be evicted; a view that is held as a whole answers for them too.
_MAX_KEY_BYTES = Limits().key_bytes
#: The name of an entry, or the key itself where that is at hand.
Touched = bytes | tuple[ViewId, Key]


class Touches:
    """Hits of one worker since they were last taken.

    *State*: of about `_stride` hits one is counted in `_seen`; `_skip` are passed over before the next one; `_room` may
    be counted before it is too many. `_stride` is 2 to the number of halvings.
    """

    def __init__(self, most: int = MAX_TOUCHES, random: Random | None = None) -> None:
        self._seen: dict[Touched, int] = {}
        self._stride = 1
        self._skip = 0
        self._most = self._room = most
        self._random = (random or Random()).random

    def note(self, name: bytes) -> None:
        """The key of an entry was read."""
        if self._skip:
            self._skip -= 1
        else:
            self._count(name)

    def note_all(self, names: Sequence[bytes]) -> None:
        """The keys of several entries were read, in one request."""
        n, at = len(names), self._skip
        while at < n:
            self._count(names[at])
            at += 1 + self._skip
        self._skip = at - n

    def note_read(self, info: ViewInfo, values: Values) -> None:
        """A read, of one key or of lists and ranges, was a hit: of all its keys."""
        if self._skip:
            self._skip -= 1
            return
        for key in request_of(info, values).keys:
            if key_bytes(key) <= _MAX_KEY_BYTES:
                self._count((info.id, key))

    def take(self) -> list[tuple[Touched, int]]:
        """What was read since the last time, with how many of the counted hits it had."""
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
            # On average one of `_stride`, never in step with readers that come in turns.
            self._skip = int(self._random() * (2 * self._stride - 1))


def _every_second(seen: dict[Touched, int]) -> Iterator[tuple[Touched, int]]:
    """What is left when every second hit goes."""
    rest = 0
    for touched, times in seen.items():
        rest += times
        if kept := rest // 2:
            yield touched, kept
        rest %= 2
