"""Changes of the log's open transaction and of prepared ones. Pure.

*Invariant*: an overflown group has no rows.

Not here: the beginning and end of groups (`assembler`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from cdc.change import UNKNOWN, TableChange, TableLayout
from cdc.mysql.bindings import Bindings
from cdc.mysql.cascades import Part
from cdc.row_images import RowImages

#: Format, global transaction id, branch.
Xid = tuple[int, bytes, bytes]


@dataclass(slots=True)
class EventGroup:
    """Changes of one transaction so far."""

    #: The group ends with its first statement.
    standalone: bool
    #: The transaction may be prepared and committed later; `unread` has tables whose rows were skipped.
    is_xa: bool
    changes: dict[str, TableChange] = field(default_factory=dict)
    #: Rows of the tables with partial row images; their changes have none.
    images: dict[str, RowImages] = field(default_factory=dict)
    rows: int = 0
    bytes: int = 0
    #: The transaction exceeds a limit; its further rows are not decoded.
    overflown: bool = False
    unread: set[tuple[str, str]] = field(default_factory=set)

    def change_of(self, name: str, layouts: Mapping[str, TableLayout]) -> TableChange:
        """Return the change of a followed table."""
        change = self.changes.get(name)
        if change is None:
            change = self.changes[name] = TableChange(overflow=self.overflown, layout=layouts[name])
        return change

    def imply(self, name: str, part: Part, layouts: Mapping[str, TableLayout]) -> None:
        """Note that foreign keys may have changed the rows of a followed table that agree with these values."""
        change = self.change_of(name, layouts)
        if not part:
            change.drop_rows()
        elif not change.overflow:
            change.implied.append(tuple([part.get(i, UNKNOWN) for i in range(len(layouts[name].columns))]))
            self.rows += 1

    def count(self, rows: int, size: int) -> None:
        """Add to the numbers of rows and bytes."""
        self.rows += rows
        self.bytes += size

    def overflow(self) -> None:
        """Discard the rows of all touched tables: any of their rows may have changed."""
        self.overflown = True
        self.images.clear()
        for change in self.changes.values():
            change.drop_rows()

    def net_changes(self) -> dict[str, TableChange]:
        """Return the tables' changes, without those that cancel out."""
        for name, images in self.images.items():
            change = self.changes.get(name)
            if change is not None and not change.overflow:
                images.fill(change)
        for change in self.changes.values():
            if change.truncated and (change.partial or change.removed or change.implied):
                change.drop_rows()
        return {name: change for name, change in self.changes.items() if change.settle()}


class PreparedTransactions:
    """Transactions between XA PREPARE and XA COMMIT, with at most `limit_rows` rows together."""

    def __init__(self, limit_rows: int) -> None:
        self._limit_rows = limit_rows
        self._groups: dict[Xid, EventGroup] = {}

    def add(self, xid: Xid, group: EventGroup) -> None:
        """Store a prepared transaction; its rows are dropped beyond the limit."""
        self._groups[xid] = group
        if sum(held.rows for held in self._groups.values() if not held.overflown) > self._limit_rows:
            group.overflow()

    def take(self, xid: Xid) -> EventGroup | None:
        """Remove and return a prepared transaction; None if it was prepared before the stream began."""
        return self._groups.pop(xid, None)


def at_commit(group: EventGroup, bindings: Bindings, end: int) -> EventGroup:
    """Return a prepared transaction as of its commit: tables that were read by other layouts, or skipped, overflow."""
    for name in list(_no_longer_followed(group, bindings, end)):
        del group.changes[name]
    for name, change in group.changes.items():
        layout, read_by = bindings.layouts[name], change.layout
        assert read_by is not None
        if (layout, layout.since) != (read_by, read_by.since):
            change.drop_rows()
    for key in group.unread:
        name = bindings.name_of(key)
        if name in bindings.layouts and bindings.layouts[name].since < end:
            group.change_of(name, bindings.layouts).drop_rows()
    for name in list(_skipped_descendants(group, bindings, end)):
        group.change_of(name, bindings.layouts).drop_rows()
    return group


def _no_longer_followed(group: EventGroup, bindings: Bindings, end: int) -> Iterator[str]:
    for name in group.changes:
        layout = bindings.layouts.get(name)
        if layout is None or layout.since >= end:
            yield name


def _skipped_descendants(group: EventGroup, bindings: Bindings, end: int) -> Iterator[str]:
    """Yield tables that foreign keys may have changed and that were not followed when the transaction was prepared."""
    changed = {*group.changes, *map(bindings.name_of, group.unread)}
    for name, layout in bindings.layouts.items():
        if name not in group.changes and layout.since < end and changed & {c.ancestor for c in layout.cascades}:
            yield name
