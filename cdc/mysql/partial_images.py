"""Partial row images (`binlog_row_image` MINIMAL, NOBLOB, FULL_NODUP): the change that they make to a table. Pure.

A new row lacks values that an UPDATE did not set. It also lacks those that a REPLACE or LOAD DATA … REPLACE reset to
their defaults (MariaDB 10.11 logs a replaced row as an update with the named columns only), and virtual columns that
changed with others. The former name a key, or number it themselves. So a new row without any column of its key shares
the missing values with the old row, except for generated ones; in any other, missing values may be anything.

*Invariant*: an image that does not identify its row is not applied.

Not here: decoding (`row_events`), merging of images (`cdc.row_images`).
"""

from collections.abc import Iterable

from cdc.change import UNKNOWN, ChangedRow, TableChange
from cdc.mysql.row_events import RowImage
from cdc.mysql.rows import RowReader
from cdc.row_images import RowImages


def images_of(change: TableChange, key: tuple[int, ...]) -> RowImages | None:
    """Return a table's images by its key, with the rows of its change so far; None if these are inconsistent."""
    images = RowImages(key)
    change.settle()
    rows = [images.delete(row) for row in change.removed] + [images.insert(row) for row in change.added]
    change.removed, change.added = [], []
    return images if key and all(rows) else None


def apply_images(images: RowImages, found: Iterable[RowImage], reader: RowReader) -> int | None:
    """Apply an event's images; return their number, or None if they do not identify their rows."""
    count = 0
    for old, row in found:
        if row is None:
            applied = old is not None and images.delete(old)
        elif old is None:
            applied = images.insert(row)
        else:
            applied = _updated(images, old, row, reader)
        if not applied:
            return None
        count += 1 if old is None or row is None else 2
    return count


def _updated(images: RowImages, old: ChangedRow, row: ChangedRow, reader: RowReader) -> bool:
    if UNKNOWN in row:
        # Old rows with all columns: FULL_NODUP, which compares values.
        compared = UNKNOWN not in old and len(reader.key) < len(old)
        if not compared and any(row[i] is not UNKNOWN for i in reader.key):
            return images.replace(old, row)
        if any(row[i] is UNKNOWN for i in reader.generated):
            uncertain = reader.generated
            shared = [old[i] if v is UNKNOWN and i not in uncertain else v for i, v in enumerate(row)]
            return images.replace(old, tuple(shared))
    return images.update(old, row)
