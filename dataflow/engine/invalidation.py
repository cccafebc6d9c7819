"""Invalidation of refreshed views: the cached keys whose answers a change of one table may have changed.

*Invariants*: an invalidator names a key too many rather than one too few. The view is a function of the table's rows
that pass the filter, without the columns that it does not read; rows that are equal in the columns that it reads cancel
each other out.
"""

from collections.abc import Iterable

from dataflow.engine.events import TableDelta
from dataflow.errors import contained
from dataflow.evaluate import compile_predicate
from dataflow.plan.refresh import RefreshView, TableRead
from dataflow.state.coverage import Coverage
from dataflow.types import UNKNOWN, Key, Row, columns_of


class Invalidator:
    """One `TableRead` of a view, compiled."""

    __slots__ = ("_columns", "_key_columns", "_passes", "_positions")

    def __init__(self, read: TableRead) -> None:
        self._columns = tuple(sorted(read.columns))
        self._passes = None if read.predicate is None else compile_predicate(read.predicate)
        self._positions = tuple(position for _, position in read.keys)
        self._key_columns = tuple(column for column, _ in read.keys)

    def keys(self, delta: TableDelta, among: Coverage) -> Iterable[Key]:
        """The keys of `among` that a change of the table may concern."""
        if delta.truncated or delta.overflow:
            return list(among)
        rows = [row for row in self._changed(delta) if self._may_pass(row)]
        found: dict[Key, None] = {}
        images = (*self._partly_changed(delta), *delta.implied)
        for positions, part in dict.fromkeys(map(self._known_part, images)):
            if None not in part:
                found.update(dict.fromkeys(among.agreeing(positions, part)))
        if not rows or not self._positions:
            return list(among) if rows else found
        for part in dict.fromkeys(columns_of(row, self._key_columns) for row in rows):
            if None not in part:
                found.update(dict.fromkeys(among.agreeing(self._positions, part)))
        return found

    def _changed(self, delta: TableDelta) -> Iterable[Row]:
        """A row of each kind, in the columns that are read, of which there are more or fewer now."""
        counts: dict[Row, int] = {}
        samples: dict[Row, Row] = {}
        for sign, rows in ((-1, delta.removed), (1, delta.added)):
            for row in rows:
                seen = columns_of(row, self._columns)
                counts[seen] = counts.get(seen, 0) + sign
                samples[seen] = row
        return [samples[seen] for seen, count in counts.items() if count]

    def _partly_changed(self, delta: TableDelta) -> Iterable[Row]:
        """Before and after images of changed rows, but for changes of columns that are not read."""
        for before, after in delta.partial:
            images = [image for image in (before, after) if image is not None]
            seen = [columns_of(image, self._columns) for image in images]
            if len(images) < 2 or UNKNOWN in seen[0] or seen[0] != seen[1]:
                yield from images

    def _known_part(self, image: Row) -> tuple[tuple[int, ...], Key]:
        """Positions in keys at which a row known in part has values, and these."""
        known = [i for i, column in enumerate(self._key_columns) if image[column] is not UNKNOWN]
        return tuple([self._positions[i] for i in known]), tuple([image[self._key_columns[i]] for i in known])

    def _may_pass(self, row: Row) -> bool:
        try:
            return self._passes is None or self._passes(row)
        except Exception as error:
            contained(error)
            return True


def invalidators_of(view: RefreshView) -> dict[str, list[Invalidator]]:
    """The invalidators of a view, by table."""
    by_table: dict[str, list[Invalidator]] = {}
    for read in view.reads:
        by_table.setdefault(read.table, []).append(Invalidator(read))
    return by_table
