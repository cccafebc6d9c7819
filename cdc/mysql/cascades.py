"""Cascades of one table map: rows of followed tables that foreign keys may change when its rows do. Pure.

InnoDB acts on deleted and updated rows only. A REPLACE of a row that others may refer to is logged as a deletion and an
insertion, so an updated row shares the values that its image lacks with the old row. `foreign_key_checks = 0` is
ignored: it only implies too much.

*Invariant*: values that cannot be read imply that any row may have changed.

Not here: which keys act on which tables (`cdc.cascade`), decoding (`row_events`).
"""

from collections.abc import Iterator, Mapping, Sequence

from cdc.cascade import AncestorColumn, Cascade, KnownPart
from cdc.change import UNKNOWN, TableLayout
from cdc.mysql import events
from cdc.mysql.compatibility import changed_columns, order_of
from cdc.mysql.row_events import UPDATES, WRITES, RowImage, read_images
from cdc.mysql.rows import RowReader, row_reader
from cdc.mysql.table_map import TableMap

#: Known values of rows that may have changed, by position in the layout of their table. None of them: any row may have.
Part = dict[int, str | None]


class TableCascades:
    """Cascades of the rows of one table map, each with the name of the table whose rows it changes."""

    __slots__ = ("_at", "_cascades", "_reader")

    def __init__(self, cascades: Sequence[tuple[str, Cascade]], table: TableMap, charsets: Mapping[int, str]) -> None:
        self._cascades = cascades
        columns = sorted({column for _, cascade in cascades for column in cascade.columns}, key=lambda c: c.position)
        #: Positions of columns in the rows of `_reader`.
        self._at = {column: i for i, column in enumerate(columns)}
        self._reader = _reader_of(columns, table, charsets)

    def implied(self, kind: int, data: bytes, at: int, stop: int) -> Iterator[tuple[str, Part]]:
        """Yield the tables whose rows an event, from `at` (after table and flags) on, may have changed, and which."""
        on_update = kind in UPDATES
        acting = [(name, cascade) for name, cascade in self._cascades if cascade.on_update == on_update]
        if kind in WRITES or not acting:
            return
        if self._reader is None or kind == events.PARTIAL_UPDATE_ROWS:
            yield from ((name, {}) for name, _ in acting)
            return
        for image in list(read_images(kind, data, at, stop, self._reader)):
            for name, cascade in acting:
                if not on_update or self._is_updated(cascade, image):
                    for part in cascade.rows:
                        yield name, self._values(cascade, part, image)

    def _is_updated(self, cascade: Cascade, image: RowImage) -> bool:
        """Return whether an image has another value in a referenced column."""
        old, new = image
        assert old is not None
        assert new is not None
        places = [self._at[column] for column in cascade.columns]
        return not places or any(new[i] is not UNKNOWN and new[i] != old[i] for i in places)

    def _values(self, cascade: Cascade, part: KnownPart, image: RowImage) -> Part:
        old, new = image
        values: Part = {}
        for position, source in part:
            value = None
            if source is not None:
                i = self._at[cascade.columns[source.column]]
                assert old is not None
                value = old[i]
                if source.after and new is not None and new[i] is not UNKNOWN:
                    value = new[i]
            if value is not UNKNOWN:
                values[position] = value
        return values


def _reader_of(columns: list[AncestorColumn], table: TableMap, charsets: Mapping[int, str]) -> RowReader | None:
    """Return the reader of these columns, in the order of their positions; None if they cannot be read."""
    layout = TableLayout(tuple(c.name for c in columns), column_types=tuple(c.type for c in columns))
    if table.names:
        order = order_of(layout, table)
    else:
        order = [c.position if c.position < len(table.columns) else None for c in columns]
    if changed_columns(layout, table, order, charsets):
        return None
    reader = row_reader(layout, table, order)
    return None if isinstance(reader, str) else reader
