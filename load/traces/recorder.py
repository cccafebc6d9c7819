"""Recording of the reads of visits, made on a side or on none.

*Invariants*: a visit does what it would do without being recorded.
"""

from array import array
from collections.abc import Mapping, Sequence

from load.driver.visit import HttpCall, HttpReply, Visit
from load.site import SiteView
from load.traces.requests import keys_read
from load.traces.trace import Trace, TracedKey

#: What a key takes besides its rows: its place in indexes, coverage and leaf store.
KEY_BYTES = 500


class Recorder:
    """Keys as they are read. `costs`: of a key of each view (`costs_of`); 1.0 for others."""

    def __init__(self, costs: Mapping[str, float] | None = None) -> None:
        self._costs = costs or {}
        self._numbers: dict[tuple[str, str], int] = {}
        self._bytes: list[int] = []
        self._reads = array("L")

    def __len__(self) -> int:
        return len(self._reads)

    def note(self, view: str, key: str, answer_bytes: int) -> None:
        """A key was read. Its weight is that of its largest answer."""
        number = self._numbers.setdefault((view, key), len(self._numbers))
        if number == len(self._bytes):
            self._bytes.append(answer_bytes)
        self._bytes[number] = max(self._bytes[number], answer_bytes)
        self._reads.append(number)

    def recorded(self, visit: Visit) -> Visit:
        """The visit, what it reads noted."""
        try:
            calls = next(visit)
            while True:
                replies = yield calls
                self._note_all(calls, replies)
                calls = visit.send(replies)
        except StopIteration:
            return

    def _note_all(self, calls: Sequence[HttpCall], replies: Sequence[HttpReply]) -> None:
        for call, reply in zip(calls, replies, strict=True):
            for read in keys_read(call, reply):
                self.note(*read)

    def trace(self, name: str, about: str) -> Trace:
        keys = [
            TracedKey(view, key, KEY_BYTES + size, self._costs.get(view, 1.0))
            for (view, key), size in zip(self._numbers, self._bytes, strict=True)
        ]
        return Trace(name, about, keys, self._reads)


def costs_of(views: Sequence[SiteView]) -> dict[str, float]:
    """About what a key of each view costs: a lookup for its first table and for each that it joins."""
    return {view.name: 1.0 + view.sql.upper().count(" JOIN ") for view in views}
