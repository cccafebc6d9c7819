"""Decoding of the binary log's rows into rows of a layout. Pure; one `RowReader` for each table map.

A row is a bitmap of its NULLs, followed by the other values in the order of the table's columns. A partial row image
lacks some of the columns; its bitmap has one bit for each of the others.

*Invariant*: reading consumes exactly one row; a row has one value for each column of the layout.

Optimized: one call for each value.

Not here: row events (`row_events`).
"""

from collections.abc import Callable, Sequence
from operator import itemgetter

from cdc.change import UNKNOWN, ChangedRow, TableLayout
from cdc.column_type import ColumnType
from cdc.mysql.column_values import column_reader, column_skipper
from cdc.mysql.decimals import Column
from cdc.mysql.table_map import TableMap

Values = list[str | None]
#: Reads a row at an offset; returns it and its end.
ReadRow = Callable[[bytes, int], tuple[ChangedRow, int]]


class RowReader:
    """Reader of one table map's rows as rows of a layout."""

    __slots__ = ("_count", "_null_bytes", "_pick", "_readers", "full", "generated", "key", "mask_bytes", "read")

    def __init__(
        self,
        readers: Sequence[Column],
        order: list[int | None],
        key: tuple[int, ...] = (),
        generated: tuple[int, ...] = (),
    ) -> None:
        #: Positions in rows of the key that partial images identify rows by (empty: none), and of generated columns.
        self.key = key
        self.generated = generated
        self._readers = tuple(readers)
        self._count = len(readers)
        self._null_bytes = (self._count + 7) // 8
        self._pick = _picker(order, self._count)
        #: Bytes of a bitmap of columns, and the bitmap of all columns. (Bits after the last column are ignored.)
        self.mask_bytes = self._null_bytes
        self.full = (1 << self._count) - 1
        self.read: ReadRow = self._whole_row()

    def _whole_row(self) -> ReadRow:
        readers, null_bytes, pick = self._readers, self._null_bytes, self._pick
        no_nulls = bytes(null_bytes)
        unused = -1 << self._count

        def read(data: bytes, at: int) -> tuple[ChangedRow, int]:
            nulls = data[at : at + null_bytes]
            at += null_bytes
            values: Values = []
            append = values.append
            if nulls == no_nulls:
                for column in readers:
                    value, at = column(data, at)
                    append(value)
                return pick(values), at
            bits = int.from_bytes(nulls, "little") & ~unused
            for column in readers:
                if bits & 1:
                    append(None)
                else:
                    value, at = column(data, at)
                    append(value)
                bits >>= 1
            return pick(values), at

        return read

    def reader_of(self, mask: int) -> ReadRow:
        """Return the reader of partial rows, which have the columns of a bitmap; the others are UNKNOWN."""
        present = [(i, column) for i, column in enumerate(self._readers) if mask >> i & 1]
        null_bytes, count, pick = (len(present) + 7) // 8, self._count, self._pick

        def read(data: bytes, at: int) -> tuple[ChangedRow, int]:
            bits = int.from_bytes(data[at : at + null_bytes], "little")
            at += null_bytes
            values: Values = [UNKNOWN] * count
            for i, column in present:
                if bits & 1:
                    values[i] = None
                else:
                    values[i], at = column(data, at)
                bits >>= 1
            return pick(values), at

        return read

    def is_full(self, mask: int) -> bool:
        """Return whether a bitmap has all columns."""
        return mask & self.full == self.full


def row_reader(layout: TableLayout, table: TableMap, order: list[int | None]) -> RowReader | str:
    """Return the reader of `table`'s rows as rows of `layout`, or the name of a column with an unknown format."""
    kinds: list[ColumnType | None] = [None] * len(table.columns)
    names = list(table.names) or [f"number {i + 1}" for i in range(len(table.columns))]
    for column, kind, i in zip(layout.columns, layout.column_types, order, strict=True):
        if i is not None:
            kinds[i], names[i] = kind, column
    readers: list[Column] = []
    for field, wanted, name in zip(table.columns, kinds, names, strict=True):
        reader = column_skipper(field) if wanted is None else column_reader(field, wanted)
        if reader is None:
            return name
        readers.append(reader)
    key = () if None in [order[i] for i in layout.key] else layout.key
    return RowReader(readers, order, key, layout.generated)


def _picker(order: list[int | None], count: int) -> Callable[[Values], ChangedRow]:
    """Return the conversion of values in the server's order to a row: value ``order[i]`` (or None) is column i."""
    if order == list(range(count)):
        return tuple
    if None not in order and len(order) > 1:
        return itemgetter(*order)
    return lambda values: tuple(None if i is None else values[i] for i in order)
