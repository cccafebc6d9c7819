"""Net changes of one table by one transaction, of whose old rows the stream carries a part.

PostgreSQL sends of an old row only the columns of its replica identity, and only if one of them changed (REPLICA
IDENTITY DEFAULT and USING INDEX; PostgreSQL manual, "Logical Replication Message Formats"); of a new row all values but
unchanged TOASTed ones. MariaDB and MySQL may log of an old row only the primary key, and of a new row only the values
that were set (`mysql.partial_images`).

*Invariants*: an identity is unique and not NULL at each moment, so at most one row has it. The images of one row within
the transaction are merged: as it was before the transaction, and as it is after it.

Not here: decoding (`postgres.pgoutput`, `mysql.rows`), rows that the stream carries whole (`change.TableChange`).
"""

from cdc.change import UNKNOWN, ChangedRow, PartialChange, TableChange


class RowImages:
    """Merged images of a table's rows.

    *State*: `_entries`, before and after image of each touched row, None for a row that did or does not exist; `_at`,
    the entry of each identity that exists now or was deleted last.
    """

    __slots__ = ("_at", "_entries", "identity")

    def __init__(self, identity: tuple[int, ...]) -> None:
        """`identity`: positions of the identity's columns in the rows, ascending."""
        self.identity = identity
        self._entries: list[list[ChangedRow | None]] = []
        self._at: dict[ChangedRow, list[ChangedRow | None]] = {}

    def insert(self, row: ChangedRow) -> bool:
        """Note an inserted row. Return False, as all do, if that contradicts earlier images.

        Unknown values of an inserted row are any values, not those of a deleted row with its identity.
        """
        key = self._key(row)
        if UNKNOWN in key:
            return False
        entry = self._at.get(key)
        if entry is not None and entry[1] is not None:
            return False
        if entry is None or UNKNOWN in row:
            self._add(key, None, row)
        else:
            entry[1] = row
        return True

    def update(self, old: ChangedRow | None, row: ChangedRow) -> bool:
        """Note an updated row. `old` has the old values that are known, None if none of the identity's changed."""
        before = row if old is None else old
        if old is not None:
            row = _completed(row, old)
        key, key_after = self._key(before), self._key(row)
        if UNKNOWN in key or UNKNOWN in key_after:
            return False
        entry = self._at.pop(key, None)
        if entry is None:
            self._add(key_after, self.identified(row) if old is None else old, row)
            return True
        if entry[1] is None:
            return False
        entry[1] = _completed(row, entry[1])
        self._at[key_after] = entry
        return True

    def delete(self, old: ChangedRow) -> bool:
        """Note a deleted row, given the values that are known, among them those of its identity."""
        key = self._key(old)
        if UNKNOWN in key:
            return False
        entry = self._at.get(key)
        if entry is None:
            self._add(key, old, None)
        elif entry[1] is None:
            return False
        else:
            entry[1] = None
        return True

    def replace(self, old: ChangedRow, row: ChangedRow) -> bool:
        """Note a row that took another's place: its unknown values need not be those of the old row."""
        return self.delete(old) and self.insert(row)

    def clear(self) -> None:
        """Forget all images: the table was truncated."""
        self._entries.clear()
        self._at.clear()

    def fill(self, change: TableChange) -> None:
        """Set the rows of a change. They are whole if nothing of them is unknown."""
        added, partial = self.net()
        if any(image is not None and UNKNOWN in image for images in partial for image in images):
            change.removed, change.added, change.partial = [], added, partial
        else:
            change.removed = [before for before, _ in partial if before is not None]
            change.added = added + [after for _, after in partial if after is not None]
            change.partial = []

    def net(self) -> tuple[list[ChangedRow], list[PartialChange]]:
        """Return the rows that are new, and the changes of rows that existed before the transaction."""
        added: list[ChangedRow] = []
        partial: list[PartialChange] = []
        for before, after in self._entries:
            if before is not None or (after is not None and UNKNOWN in after):
                partial.append((before, after))
            elif after is not None:
                added.append(after)
        return added, partial

    def identified(self, row: ChangedRow) -> ChangedRow:
        """Return the row with the values of its identity only."""
        identity = self.identity
        return tuple([value if i in identity else UNKNOWN for i, value in enumerate(row)])

    def _add(self, key: ChangedRow, before: ChangedRow | None, after: ChangedRow | None) -> None:
        entry = [before, after]
        self._entries.append(entry)
        self._at[key] = entry

    def _key(self, row: ChangedRow) -> ChangedRow:
        return tuple([row[i] for i in self.identity])


def _completed(row: ChangedRow, old: ChangedRow) -> ChangedRow:
    """Return a new row with the old row's values where its own are unknown."""
    if UNKNOWN not in row:
        return row
    return tuple([old[i] if value is UNKNOWN else value for i, value in enumerate(row)])
