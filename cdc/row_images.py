"""Net changes of one table by one transaction, of whose old rows the stream carries only the identity.

PostgreSQL sends of an old row only the columns of its replica identity, and only if one of them changed (REPLICA
IDENTITY DEFAULT and USING INDEX; PostgreSQL manual, "Logical Replication Message Formats"); of a new row all values but
unchanged TOASTed ones.

*Invariants*: an identity is unique and not NULL at each moment, so at most one row has it. The images of one row within
the transaction are merged: as it was before the transaction, and as it is after it.

Not here: decoding (`postgres.pgoutput`), rows that the stream carries whole (`change.TableChange`).
"""

from cdc.change import UNKNOWN, ChangedRow, PartialChange


class RowImages:
    """Merged images of a table's rows.

    *State*: `_entries`, before and after image of each touched row, None for a row that did or does not exist; `_at`,
    the entry of each identity that exists now or was deleted last.
    """

    __slots__ = ("_at", "_entries", "_identity")

    def __init__(self, identity: tuple[int, ...]) -> None:
        """`identity`: positions of the identity's columns in the rows, ascending."""
        self._identity = identity
        self._entries: list[list[ChangedRow | None]] = []
        self._at: dict[ChangedRow, list[ChangedRow | None]] = {}

    def insert(self, row: ChangedRow) -> bool:
        """Note an inserted row. Return False, as all do, if that contradicts earlier images."""
        key = self._key(row)
        entry = self._at.get(key)
        if entry is None:
            self._add(key, None, row)
        elif entry[1] is None:
            entry[1] = row
        else:
            return False
        return True

    def update(self, old: ChangedRow | None, row: ChangedRow) -> bool:
        """Note an updated row. `old` has the old values of the identity, None if they did not change."""
        source = row if old is None else old
        before, after = self._key(source), self._key(row)
        if UNKNOWN in before or UNKNOWN in after:
            return False
        entry = self._at.pop(before, None)
        if entry is None:
            self._add(after, self._pattern(source), row)
            return True
        if entry[1] is None:
            return False
        if UNKNOWN in row:
            row = tuple([value if value is not UNKNOWN else entry[1][i] for i, value in enumerate(row)])
        entry[1] = row
        self._at[after] = entry
        return True

    def delete(self, old: ChangedRow) -> bool:
        """Note a deleted row, given the values of its identity."""
        key = self._key(old)
        if UNKNOWN in key:
            return False
        entry = self._at.get(key)
        if entry is None:
            self._add(key, self._pattern(old), None)
        else:
            entry[1] = None
        return True

    def clear(self) -> None:
        """Forget all images: the table was truncated."""
        self._entries.clear()
        self._at.clear()

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

    def _add(self, key: ChangedRow, before: ChangedRow | None, after: ChangedRow | None) -> None:
        entry = [before, after]
        self._entries.append(entry)
        self._at[key] = entry

    def _key(self, row: ChangedRow) -> ChangedRow:
        return tuple([row[i] for i in self._identity])

    def _pattern(self, row: ChangedRow) -> ChangedRow:
        identity = self._identity
        return tuple([value if i in identity else UNKNOWN for i, value in enumerate(row)])
