"""Previous answers, which a view allows to be served for some seconds while they are recomputed.

Such an answer was returned by this worker before: exact at the version of that time, with an age counted from then.
Without one, or if it is too old, a read waits as any other.

*Maintains*: `_bytes` is the approximate size of `_kept`, at most `max_bytes`; the least recently used are dropped
first.

Not here: the conditions for stale answers (`service.engine.reads.misses`).
"""

from collections import OrderedDict

from dataflow.types import Position, ViewId
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.request import Values

#: Identity of a read: the view's id, which changes if it is replaced, its parameters' values, and the page.
ReadKey = tuple[ViewId, Values, PageWindow | None]
#: Approximate bytes of an answer besides its rows.
_ENTRY_BYTES = 700


class StaleAnswers:
    """The last answer of each read, with its position and time."""

    def __init__(self, max_bytes: int = 32 << 20) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[ReadKey, tuple[StoredAnswer, Position, int]] = OrderedDict()
        self._bytes = 0

    def keep(self, asked: ReadKey, answer: StoredAnswer, position: Position, at_ms: int) -> None:
        """Store an answer that was exact at `position`; an older one does not replace a newer one."""
        old = self._kept.pop(asked, None)
        if old is not None:
            self._bytes -= _size(asked, old[0])
            if old[1] > position:
                answer, position, at_ms = old
        self._kept[asked] = (answer, position, at_ms)
        self._bytes += _size(asked, answer)
        while self._bytes > self._max_bytes:
            gone, (other, _, _) = self._kept.popitem(last=False)
            self._bytes -= _size(gone, other)

    def find(self, asked: ReadKey, since: Position, since_ms: int) -> tuple[StoredAnswer, Position, int] | None:
        """Return the stored answer, if its version and time are not before these."""
        kept = self._kept.get(asked)
        if kept is None or kept[1] < since or kept[2] < since_ms:
            return None
        self._kept.move_to_end(asked)
        return kept

    def __len__(self) -> int:
        return len(self._kept)


def _size(asked: ReadKey, answer: StoredAnswer) -> int:
    _, values, _ = asked
    return _ENTRY_BYTES + len(answer.rows) + sum(len(str(value)) for value in values)
