"""What a transaction of the log has done so far, and what prepared ones will have done. Pure.

*Invariant*: a group that has overflown holds no rows.

Not here: when a group begins and ends (`assembler`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cdc.change import TableChange, TableLayout
from cdc.mysql.bindings import Bindings

#: Format, global part, branch.
Xid = tuple[int, bytes, bytes]


@dataclass(slots=True)
class EventGroup:
    """One transaction's changes so far."""

    #: Ends by itself, with its first statement.
    standalone: bool
    #: May be prepared now and committed later: remembers whose rows went by unread.
    is_xa: bool
    changes: dict[str, TableChange] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    #: Too many rows to hold: later ones are not even looked at.
    overflown: bool = False
    unread: set[tuple[str, str]] = field(default_factory=set)

    def change_of(self, name: str, layouts: Mapping[str, TableLayout]) -> TableChange:
        """The change of a followed table."""
        change = self.changes.get(name)
        if change is None:
            change = self.changes[name] = TableChange(overflow=self.overflown, layout=layouts[name])
        return change

    def count(self, rows: int, size: int) -> None:
        """So much was added."""
        self.rows += rows
        self.bytes += size

    def overflow(self) -> None:
        """Anything may have changed in the tables that it has touched."""
        self.overflown = True
        for change in self.changes.values():
            change.overflown()


class PreparedTransactions:
    """Transactions between XA PREPARE and XA COMMIT, which is when they count; together at most `limit_rows`."""

    def __init__(self, limit_rows: int) -> None:
        self._limit_rows = limit_rows
        self._groups: dict[Xid, EventGroup] = {}

    def add(self, xid: Xid, group: EventGroup) -> None:
        """It may be committed later."""
        self._groups[xid] = group
        if sum(held.rows for held in self._groups.values() if not held.overflown) > self._limit_rows:
            group.overflow()

    def take(self, xid: Xid) -> EventGroup | None:
        """It is committed now, or rolled back; None if it was prepared before the stream began."""
        return self._groups.pop(xid, None)


def at_commit(group: EventGroup, bindings: Bindings, end: int) -> EventGroup:
    """A prepared transaction that is committed now: what was read by other layouts, or not read, may be anything."""
    for name in list(_no_longer_followed(group, bindings, end)):
        del group.changes[name]
    for name, change in group.changes.items():
        layout, read_by = bindings.layouts[name], change.layout
        assert read_by is not None
        if (layout, layout.since) != (read_by, read_by.since):
            change.overflown()
    for key in group.unread:
        name = bindings.name_of(key)
        if name in bindings.layouts and bindings.layouts[name].since < end:
            group.change_of(name, bindings.layouts).overflown()
    return group


def _no_longer_followed(group: EventGroup, bindings: Bindings, end: int) -> Iterator[str]:
    for name in group.changes:
        layout = bindings.layouts.get(name)
        if layout is None or layout.since >= end:
            yield name
