"""Answers that a view allows to be served for some seconds after they went stale, while they are run again.

Such an answer is one that this worker gave before: exact at the version that it had then, at an age that counts from
then on. Where nothing was kept, or it is too old, a read waits as any other.

*Maintains*: `_bytes` is about what `_kept` takes, and no more than `max_bytes`; those that nobody asked for go first.

Not here: when a read may be answered so (`service.engine.reads.misses`).
"""

from collections import OrderedDict

from dataflow.types import Position, ViewId
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.request import Values

#: A read: the view, so that one that was replaced has none, its parameters' values, and which page.
Asked = tuple[ViewId, Values, PageWindow | None]
#: What an answer takes beside its rows.
_ENTRY_BYTES = 700


class StaleAnswers:
    """The last answer of each read, with its position and the time at which it was all there was."""

    def __init__(self, max_bytes: int = 32 << 20) -> None:
        self._max_bytes = max_bytes
        self._kept: OrderedDict[Asked, tuple[StoredAnswer, Position, int]] = OrderedDict()
        self._bytes = 0

    def keep(self, asked: Asked, answer: StoredAnswer, position: Position, at_ms: int) -> None:
        """An answer that was exact at `position`; an older one does not replace a newer."""
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

    def find(self, asked: Asked, since: Position, since_ms: int) -> tuple[StoredAnswer, Position, int] | None:
        """What was kept, if it is of a version and a time not before these."""
        kept = self._kept.get(asked)
        if kept is None or kept[1] < since or kept[2] < since_ms:
            return None
        self._kept.move_to_end(asked)
        return kept

    def __len__(self) -> int:
        return len(self._kept)


def _size(asked: Asked, answer: StoredAnswer) -> int:
    _, values, _ = asked
    return _ENTRY_BYTES + len(answer.rows) + sum(len(str(value)) for value in values)
