"""Row events: the rows that they add to and remove from a table. Pure.

MySQL source documentation, "Rows_event": the table, bitmaps of the columns in the row images, and the rows, those of an
update in pairs. MariaDB writes version 1, and may compress the rows.

*Invariant*: an event with partial row images adds nothing.

Not here: the format of rows (`rows`), meaning of partial images (`partial_images`), transactions (`assembler`).
"""

from collections.abc import Iterator

from cdc.change import ChangedRow, TableChange
from cdc.mysql import events
from cdc.mysql.rows import RowReader

WRITES = frozenset(
    {
        events.WRITE_ROWS_V1,
        events.WRITE_ROWS_V2,
        events.WRITE_ROWS_COMPRESSED_V1,
        events.WRITE_ROWS_COMPRESSED_V2,
    }
)
UPDATES = frozenset(
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
#: Old row and new row; None if there is none.
RowImage = tuple[ChangedRow | None, ChangedRow | None]
#: All types of row events.
ROW_EVENTS = WRITES | UPDATES | _DELETES


def read_rows(kind: int, data: bytes, at: int, stop: int, reader: RowReader, change: TableChange) -> int | None:
    """Add an event's rows, from `at` (after table and flags) on, to `change`.

    Returns their number, or None if the row images are partial.
    """
    masks, at = _masks(kind, data, at, reader)
    if kind == events.PARTIAL_UPDATE_ROWS or not all(map(reader.is_full, masks)):
        return None
    if kind in _COMPRESSED:
        data = events.decompress(data, at, stop)
        at, stop = 0, len(data)
    if kind in UPDATES:
        return _read_pairs(data, at, stop, reader, change)
    read, bag = reader.read, change.added if kind in WRITES else change.removed
    before = len(bag)
    while at < stop:
        row, at = read(data, at)
        bag.append(row)
    _check_end(at, stop)
    return len(bag) - before


def read_images(kind: int, data: bytes, at: int, stop: int, reader: RowReader) -> Iterator[RowImage]:
    """Yield an event's old and new rows, whole or partial. Raises IndexError for parts of documents."""
    if kind == events.PARTIAL_UPDATE_ROWS:
        raise IndexError("parts of documents")
    masks, at = _masks(kind, data, at, reader)
    if kind in _COMPRESSED:
        data = events.decompress(data, at, stop)
        at, stop = 0, len(data)
    first, last = (reader.reader_of(mask) for mask in (masks[0], masks[-1]))
    while at < stop:
        row, at = first(data, at)
        if kind in WRITES:
            yield None, row
        elif kind in _DELETES:
            yield row, None
        else:
            new, at = last(data, at)
            yield row, new
    _check_end(at, stop)


def _masks(kind: int, data: bytes, at: int, reader: RowReader) -> tuple[list[int], int]:
    """Return the bitmaps of the columns in each image, and their end."""
    if kind in _SECOND_VERSION:
        at += int.from_bytes(data[at : at + 2], "little")
    count, at = events.packed_number(data, at)
    size = reader.mask_bytes
    if (count + 7) // 8 != size:
        raise IndexError(f"rows of {count} columns")
    end = at + (2 * size if kind in UPDATES else size)
    return [int.from_bytes(data[i : i + size], "little") for i in range(at, end, size)], end


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
