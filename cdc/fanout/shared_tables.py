"""Tables of a shared stream: the layouts that they are decoded by, and the receivers of their rows. Pure.

*Theory*: a table is decoded by one layout, and its rows go to all receivers with an equal one. Of equal layouts the
oldest is used, since its receiver needs rows from then on. A receiver that joins later also gets the earlier notices on
the table. An unequal layout *displaces* the current one: its receivers lose the table, and must follow it anew. So does
an equal layout that was read after a notice: the table may match again, which the decoder has to check. For that the
decoder must first see the table removed, then added.

*Invariants*: a receiver that has a table has the layout by which it is decoded. A receiver loses a table only with a
notice, or because it no longer follows it.

Not here: calls of the decoder (`hub`), the meaning of notices (`cdc.change.SchemaNotice`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cdc.change import SchemaNotice, TableLayout

R = TypeVar("R")

#: Notices, each with its receiver.
Addressed = list[tuple[R, SchemaNotice]]


@dataclass(slots=True)
class _NoticeLog(Generic[R]):
    """Notices on a layout, at a position, and the receivers that got them, with the `since` of their layouts.

    `passed` is a later position of the stream: a layout that is read there or later includes what caused the notices.
    """

    notices: list[SchemaNotice]
    layout: TableLayout
    sent: dict[R, int]
    position: int
    passed: int | None = None

    @property
    def fatal(self) -> bool:
        """True if the table's rows are no longer delivered."""
        return not all(notice.columns for notice in self.notices)

    def has_reached(self, receiver: R, layout: TableLayout) -> bool:
        """Return whether the receiver read the layout after the notices, or need not get them."""
        if self.fatal and self.passed is not None and layout.since >= self.passed:
            return True
        return self.sent.get(receiver) not in (None, layout.since)


class SharedTables(Generic[R]):
    """The tables of one hub.

    *State*: `decoded`, the layouts for the decoder; `_had`, by receiver, its own layouts of the tables that it has;
    `_leaving`, tables removed from `decoded` since the decoder's last look; `_last`, each table's last decoded layout.
    """

    def __init__(self) -> None:
        self.decoded: dict[str, TableLayout] = {}
        self._had: dict[R, dict[str, TableLayout]] = {}
        self._leaving: set[str] = set()
        self._last: dict[str, TableLayout] = {}
        self._noticed: dict[str, _NoticeLog[R]] = {}

    def restart(self) -> None:
        """Note that a new decoder, without layouts, takes over."""
        self._leaving.clear()
        self._last = dict(self.decoded)
        self._noticed.clear()

    def looked(self) -> None:
        """Note that the decoder has seen `decoded`."""
        self._leaving.clear()

    def tables(self, receiver: R) -> frozenset[str]:
        """Return the tables whose rows the receiver gets."""
        return frozenset(self._had[receiver])

    def forget(self, receiver: R) -> None:
        for name in list(self._had.pop(receiver, ())):
            self._drop_unused(name)
        for noticed in self._noticed.values():
            noticed.sent.pop(receiver, None)

    def displace(self, receiver: R, layouts: Mapping[str, TableLayout]) -> Addressed[R]:
        """Remove tables that the receiver does not request, and those of others that its layouts displace."""
        had = self._had.setdefault(receiver, {})
        for name in [n for n, layout in had.items() if not _same(layouts.get(n), layout)]:
            del had[name]
            self._drop_unused(name)
        notices: Addressed[R] = []
        for name, layout in layouts.items():
            if name not in had and not self._fits(receiver, name, layout):
                notice = SchemaNotice(name, f"{name} was altered: it is followed anew.")
                notices += [(holder, notice) for holder in self._lost(name)]
        return notices

    def is_ready(self, layouts: Mapping[str, TableLayout]) -> bool:
        """Return whether the decoder has seen the removal of all tables that these layouts displace."""
        return self._leaving.isdisjoint(layouts)

    def assign(self, receiver: R, layouts: Mapping[str, TableLayout]) -> Addressed[R]:
        """Give the receiver these tables, except those with a fatal notice. Requires `displace` and `is_ready`."""
        had = self._had[receiver]
        notices: Addressed[R] = []
        for name, layout in layouts.items():
            if name in had:
                continue
            noticed = self._noticed.get(name)
            if noticed is not None and noticed.layout == layout and not noticed.has_reached(receiver, layout):
                # The layout may have been read before the notices.
                noticed.sent[receiver] = layout.since
                notices += [(receiver, notice) for notice in noticed.notices]
                if noticed.fatal:
                    continue
            else:
                self._noticed.pop(name, None)
            had[name] = layout
            decoded = self.decoded.get(name)
            if decoded is None or layout.since < decoded.since:
                # A receiver that continues needs rows from before the others read the layout.
                decoded = self.decoded[name] = layout
            self._last[name] = decoded
        return notices

    def advance(self, position: int) -> None:
        """Note the stream's position. (A notice may belong to a later position, of a transaction decoded in part.)"""
        for noticed in self._noticed.values():
            if noticed.passed is None and position > noticed.position:
                noticed.passed = position

    def record(self, notice: SchemaNotice, position: int) -> None:
        """Record a notice of the decoder, which the batch carries to all receivers of the table."""
        name = notice.table
        # Within a transaction the decoder may still issue notices on a removed table.
        layout = self._last.get(name)
        if layout is None:
            return
        noticed = self._noticed.get(name)
        before = noticed.notices if noticed is not None and noticed.layout == layout else []
        sent = {holder: self._had[holder][name].since for holder in self._holders(name)}
        self._noticed[name] = _NoticeLog([*before, notice], layout, sent, position)
        if not notice.columns:
            self._lost(name)

    def _fits(self, receiver: R, name: str, layout: TableLayout) -> bool:
        decoded, noticed = self.decoded.get(name), self._noticed.get(name)
        return decoded is None or (decoded == layout and (noticed is None or not noticed.has_reached(receiver, layout)))

    def _holders(self, name: str) -> list[R]:
        return [receiver for receiver, had in self._had.items() if name in had]

    def _lost(self, name: str) -> list[R]:
        """Remove the table from all its receivers; return them."""
        holders = self._holders(name)
        for holder in holders:
            del self._had[holder][name]
        self._drop_unused(name)
        return holders

    def _drop_unused(self, name: str) -> None:
        if name in self.decoded and not self._holders(name):
            del self.decoded[name]
            self._leaving.add(name)


def _same(layout: TableLayout | None, other: TableLayout) -> bool:
    """Compare layouts and their `since`: a layout that was read again means that the table is followed anew."""
    return layout is not None and (layout, layout.since) == (other, other.since)
