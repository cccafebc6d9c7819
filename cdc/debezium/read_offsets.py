"""Offsets up to which the topics have been read, now and earlier: from which all events of a transaction come again.

*Theory*: records are read in chunks, each with a number, its *mark*. All events of a transaction are in the chunk of
its first event, or in later ones. So with the offsets from before that chunk, no event of it is left out, in any
partition; events of earlier transactions that come again are duplicates like those of a connector.

Not here: the offsets' topics (`feed`), whether they are still the same (`place`).
"""

from collections.abc import Mapping
from typing import Any

#: Topic and number.
Partition = tuple[str, int]
#: Maximum number of remembered offsets; those of long ago are the sparser, the older they are.
_REMEMBERED = 64


class ReadOffsets:
    """Offsets of all partitions. *State*: `starts`, where their reading began; `last`, the last record read of each."""

    def __init__(self) -> None:
        self.starts: dict[Partition, int] = {}
        self.last: dict[Partition, Any] = {}
        self._next: dict[Partition, int] = {}
        #: Marks, each with the offsets before its chunk.
        self._before: list[tuple[int, dict[Partition, int]]] = []
        self._mark = 0

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Note that these partitions are read from these offsets on."""
        self.starts.update(starts)
        self._next.update(starts)
        for partition in starts:
            self.last.pop(partition, None)

    def begin_chunk(self) -> int:
        """Return the mark of the next chunk."""
        self._mark += 1
        if len(self._before) >= _REMEMBERED:
            self._before = self._before[::2]
        self._before.append((self._mark, dict(self._next)))
        return self._mark

    def end_chunk(self, record: Any) -> None:
        """Note the last record of the chunk: it and all before it in its partition have been read."""
        partition = record.topic, record.partition
        self._next[partition] = record.offset + 1
        self.last[partition] = record

    def before(self, mark: int | None) -> dict[Partition, int]:
        """Return offsets from before the chunk `mark`; None: the present ones."""
        found: dict[Partition, int] = {}
        if mark is None:
            found = self._next
        else:
            for number, offsets in self._before:
                if number <= mark:
                    found = offsets
        return {partition: found.get(partition, start) for partition, start in self.starts.items()}
