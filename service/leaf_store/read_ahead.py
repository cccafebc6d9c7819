"""Reading of large keys in slices, so that an answer of many rows does not delay other requests.

*Theory*: the rows of a large key take milliseconds, in which the event loop answers nobody else. No transaction may
stay open while other requests are served, so each slice is read in a transaction of its own, after the last row of
the previous one. The rows are used only if the entry is found unchanged afterwards: an entry contains its rows'
content hash, so they are its rows, whatever was committed meanwhile. This also holds for rows of an earlier request.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import islice

from service.leaf_store.layout import COUNT_SLICE, INLINE, PART, PLAIN, ROWS_SLICE
from service.leaf_store.scan import NotCoveredError, covered_rows
from service.leaf_store.transaction import LeafTransaction

#: Entry and rows without brackets, by the entry's name.
Ahead = Mapping[bytes, tuple[bytes, bytes]]
NOTHING: Ahead = {}
#: Rows of a slice: a fraction of a millisecond.
SLICE_ROWS = 1000
#: Maximum rows that are not read ahead.
AT_ONCE_ROWS = 2 * SLICE_ROWS
#: Maximum bytes of rows that a process caches, the latest ones.
KEPT_BYTES = 16 << 20


def rows_behind(entry: bytes) -> int:
    """Return the number of rows of an entry that are not inside it."""
    return 0 if entry[0] == INLINE else int.from_bytes(entry[ROWS_SLICE], "big")


class AtOnce:
    """The budget of rows that one request may still read at once."""

    __slots__ = ("_left",)

    def __init__(self) -> None:
        self._left = AT_ONCE_ROWS

    def take(self, entry: bytes) -> None:
        """Count the rows of an entry. Raises NotCoveredError if they exceed the budget."""
        self._left -= rows_behind(entry)
        if self._left < 0:
            raise NotCoveredError


class ReadAhead:
    """Reads rows ahead, one key at a time: other requests wait for at most one slice.

    *State*: `_kept` has rows by the name of their entry, in order of their latest use.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._kept: OrderedDict[bytes, tuple[bytes, bytes]] = OrderedDict()
        self._kept_bytes = 0

    async def read(self, begin: Callable[[], LeafTransaction], names: Sequence[bytes]) -> Ahead:
        """Return the rows of these entries if they are many together; an entry that changes meanwhile is left out."""
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
    """Return all rows of an entry; None: it has changed."""
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
    """Return the rows of the `records` after `last` (empty: from the first), and the last name."""
    with txn.cursor() as cursor:
        cursor.set_key(last or name)
        following = cursor.iternext(keys=False, values=True)
        next(following)
        return list(islice(following, records)), cursor.key()


def _special(txn: LeafTransaction, name: bytes, entry: bytes, last: bytes, records: int) -> tuple[list[bytes], bytes]:
    """Do as `_plain`; the place of a record is its suffix, of which its name may have only the beginning."""
    found = list(islice(covered_rows(txn, name, entry, (last and last + b"\0", None)), records))
    return [json for _, json, copies in found for _ in range(copies)], found[-1][0]
