"""Rows of whole keys, read ahead in slices, so that an answer of many rows does not keep others waiting.

*Theory*: the rows of a large key take milliseconds, in which an event loop answers nobody else. No transaction may be
open while others have their turn, so each slice is read in one of its own, from behind the last row on. What was read
counts only for who finds the same entry afterwards: an entry has its rows' content hash, so whatever was committed
meanwhile, they are its rows. So are those of an earlier request.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from service.leaf_store.layout import COUNT_SLICE, INLINE, PART, PLAIN, ROWS_SLICE
from service.leaf_store.scan import NotCoveredError, covered_rows
from service.leaf_store.transaction import LeafTransaction

#: By the name of an entry: the entry, and its rows without the brackets.
Ahead = Mapping[bytes, tuple[bytes, bytes]]
NOTHING: Ahead = {}
#: Rows of a slice: a fraction of a millisecond.
SLICE_ROWS = 1000
#: More rows than these are read ahead.
AT_ONCE_ROWS = 2 * SLICE_ROWS
#: Of the rows that were read ahead last, a process keeps so much.
KEPT_BYTES = 16 << 20


def rows_behind(entry: bytes) -> int:
    """How many rows an entry has, but for one that is in it."""
    return 0 if entry[0] == INLINE else int.from_bytes(entry[ROWS_SLICE], "big")


class AtOnce:
    """The rows that one request may still read at once."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = AT_ONCE_ROWS

    def take(self, entry: bytes) -> None:
        """Count those of an entry. NotCoveredError: they are too many."""
        self._left -= rows_behind(entry)
        if self._left < 0:
            raise NotCoveredError


class ReadAhead:
    """Reads rows ahead, of one key at a time: however many want large keys, others wait for one slice.

    *State*: `_kept` has rows by the name of their entry, those last that were wanted last.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[bytes, tuple[bytes, bytes]] = OrderedDict()
        self._kept_bytes = 0

    async def read(self, begin: Callable[[], LeafTransaction], names: Sequence[bytes]) -> Ahead:
        """The rows of these entries, if they are many together; of entries that change meanwhile, nothing."""
        with begin() as txn:
            entries = [txn.get(name) for name in names]
        large = [
            (name, entry)
            for name, entry in zip(names, entries, strict=True)
            if entry is not None and entry[0] not in (INLINE, PART)
        ]
        if sum(rows_behind(entry) for _, entry in large) <= AT_ONCE_ROWS:
            return NOTHING
        found: dict[bytes, tuple[bytes, bytes]] = {}
        for name, entry in large:
            async with self._turn:
                rows = await self._rows(begin, name, entry)
            if rows is not None:
                found[name] = (entry, rows)
        return found

    async def _rows(self, begin: Callable[[], LeafTransaction], name: bytes, entry: bytes) -> bytes | None:
        kept_entry, rows = self._kept.get(name, (b"", None))
        if kept_entry != entry:
            rows = await _rows_of(begin, name, entry)
        self._keep(name, entry, rows)
        return rows

    def _keep(self, name: bytes, entry: bytes, rows: bytes | None) -> None:
        self._kept_bytes -= len(self._kept.pop(name, (b"", b""))[1])
        if rows is not None and len(rows) <= KEPT_BYTES:
            self._kept[name] = (entry, rows)
            self._kept_bytes += len(rows)
        while self._kept_bytes > KEPT_BYTES:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1][1])


async def _rows_of(begin: Callable[[], LeafTransaction], name: bytes, entry: bytes) -> bytes | None:
    """All rows of an entry; None: it has changed."""
    rows: list[bytes] = []
    left, last = int.from_bytes(entry[COUNT_SLICE], "big"), b""
    while left:
        with begin() as txn:
            if txn.get(name) != entry:
                return None
            some = min(left, SLICE_ROWS)
            values, last = (_plain if entry[0] == PLAIN else _special)(txn, name, entry, last, some)
        rows += values
        left -= some
        await asyncio.sleep(0)
    return b",".join(rows)


def _plain(txn: LeafTransaction, name: bytes, _: bytes, last: bytes, records: int) -> tuple[list[bytes], bytes]:
    """The rows of so many records behind one, the first if that is empty, and where they end."""
    with txn.cursor() as cursor:
        cursor.set_key(last or name)
        following = cursor.iternext(keys=False, values=True)
        next(following)
        return list(islice(following, records)), cursor.key()


def _special(txn: LeafTransaction, name: bytes, entry: bytes, last: bytes, records: int) -> tuple[list[bytes], bytes]:
    """As `_plain`. The place of a record is its suffix, which its name may have only the beginning of."""
    found = list(islice(covered_rows(txn, name, entry, (last and last + b"\0", None)), records))
    return [json for _, json, copies in found for _ in range(copies)], found[-1][0]
