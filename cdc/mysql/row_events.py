"""Row events: the rows that they add to and remove from a table. Pure.

MySQL source documentation, "Rows_event": the table, bitmaps of the columns in the row images, and the rows, those of an
update in pairs. MariaDB writes version 1, and may compress the rows.

*Invariant*: an event with incomplete row images adds nothing.

Not here: the format of rows (`rows`), transactions (`assembler`).
"""

from cdc.change import TableChange
from cdc.mysql import events
from cdc.mysql.rows import RowReader

_WRITES = frozenset(
    {
        events.WRITE_ROWS_V1,
        events.WRITE_ROWS_V2,
        events.WRITE_ROWS_COMPRESSED_V1,
        events.WRITE_ROWS_COMPRESSED_V2,
    }
)
_UPDATES = frozenset(
    {
        events.UPDATE_ROWS_V1,
        events.UPDATE_ROWS_V2,
        events.UPDATE_ROWS_COMPRESSED_V1,
        events.UPDATE_ROWS_COMPRESSED_V2,
        events.PARTIAL_UPDATE_ROWS,
    }
)
_DELETES = frozenset(
    {
        events.DELETE_ROWS_V1,
        events.DELETE_ROWS_V2,
        events.DELETE_ROWS_COMPRESSED_V1,
        events.DELETE_ROWS_COMPRESSED_V2,
    }
)
_COMPRESSED = frozenset(
    {
        events.WRITE_ROWS_COMPRESSED_V1,
        events.UPDATE_ROWS_COMPRESSED_V1,
        events.DELETE_ROWS_COMPRESSED_V1,
        events.WRITE_ROWS_COMPRESSED_V2,
        events.UPDATE_ROWS_COMPRESSED_V2,
        events.DELETE_ROWS_COMPRESSED_V2,
    }
)
#: Events whose header is followed by extra data with its length.
_SECOND_VERSION = frozenset(
    {
        events.WRITE_ROWS_V2,
        events.UPDATE_ROWS_V2,
        events.DELETE_ROWS_V2,
        events.PARTIAL_UPDATE_ROWS,
        events.WRITE_ROWS_COMPRESSED_V2,
        events.UPDATE_ROWS_COMPRESSED_V2,
        events.DELETE_ROWS_COMPRESSED_V2,
    }
)
#: All types of row events.
ROW_EVENTS = _WRITES | _UPDATES | _DELETES


def read_rows(kind: int, data: bytes, at: int, stop: int, reader: RowReader, change: TableChange) -> int | None:
    """Add an event's rows, from `at` (after table and flags) on, to `change`.

    Returns their number, or None if the row images are incomplete.
    """
    if kind in _SECOND_VERSION:
        at += int.from_bytes(data[at : at + 2], "little")
    count, at = events.packed_number(data, at)
    mask_bytes = reader.mask_bytes
    if (count + 7) // 8 != mask_bytes:
        raise IndexError(f"rows of {count} columns")
    whole = reader.is_full(int.from_bytes(data[at : at + mask_bytes], "little"))
    at += mask_bytes
    if kind in _UPDATES:
        whole = whole and reader.is_full(int.from_bytes(data[at : at + mask_bytes], "little"))
        at += mask_bytes
    if not whole or kind == events.PARTIAL_UPDATE_ROWS:
        return None
    if kind in _COMPRESSED:
        data = events.decompress(data, at, stop)
        at, stop = 0, len(data)
    if kind in _UPDATES:
        return _read_pairs(data, at, stop, reader, change)
    read, bag = reader.read, change.added if kind in _WRITES else change.removed
    before = len(bag)
    while at < stop:
        row, at = read(data, at)
        bag.append(row)
    _check_end(at, stop)
    return len(bag) - before


def _read_pairs(data: bytes, at: int, stop: int, reader: RowReader, change: TableChange) -> int:
    read, removed, added = reader.read, change.removed, change.added
    before = len(added)
    while at < stop:
        row, at = read(data, at)
        removed.append(row)
        row, at = read(data, at)
        added.append(row)
    _check_end(at, stop)
    return 2 * (len(added) - before)


def _check_end(at: int, stop: int) -> None:
    if at != stop:
        raise IndexError("a row exceeds its event")
