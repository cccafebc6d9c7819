"""Which tables a shared stream decodes, by which layouts, and who gets their rows.

*Theory*: a table's rows go to all whose layout of it is the one that is decoded by. Equal layouts are one, of which the
oldest counts, since whoever has it needs rows from then on. What the stream says of a table (some columns cannot be
told, say) is said to whoever comes to share it, too. An unequal layout *displaces* the one that is decoded by: those
who had it lose the table, and must follow it anew. So does one that was read after the stream had said something: it
may be that it fits again, and a decoder has to look anew for that. It has to see that a table has gone before it may
see it again.

*Invariants*: a receiver that has a table has it by the layout that is decoded by. A receiver loses a table only if it
is told, or no longer wants it.

Not here: when the decoder looks (`hub`), what notices mean (`cdc.change.SchemaNotice`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from cdc.change import SchemaNotice, TableLayout

R = TypeVar("R")

#: Whom to tell what.
Addressed = list[tuple[R, SchemaNotice]]


@dataclass(slots=True)
class _NoticeLog(Generic[R]):
    """What was said of a layout, where in the stream, and to whom, with the moment of theirs. `passed` is where the
    stream was after that: whoever reads the layout there or later sees what it was said of."""

    notices: list[SchemaNotice]
    layout: TableLayout
    told: dict[R, int]
    position: int
    passed: int | None = None

    @property
    def fatal(self) -> bool:
        """Whether no rows come any more."""
        return not all(notice.columns for notice in self.notices)

    def is_known_to(self, receiver: R, layout: TableLayout) -> bool:
        """Whether the receiver has read the layout after it was told, or after it need be."""
        if self.fatal and self.passed is not None and layout.since >= self.passed:
            return True
        return self.told.get(receiver) not in (None, layout.since)


class SharedTables(Generic[R]):
    """*State*: `decoded`, what the decoder is to follow; `_had`, by receiver, its own layouts of the tables it has;
    `_leaving`, tables that have gone from `decoded` since the decoder looked; `_last`, how each was decoded last."""

    def __init__(self) -> None:
        self.decoded: dict[str, TableLayout] = {}
        self._had: dict[R, dict[str, TableLayout]] = {}
        self._leaving: set[str] = set()
        self._last: dict[str, TableLayout] = {}
        self._spoilt: dict[str, _NoticeLog[R]] = {}

    def restart(self) -> None:
        """Another decoder, which knows of nothing."""
        self._leaving.clear()
        self._last = dict(self.decoded)
        self._spoilt.clear()

    def looked(self) -> None:
        """The decoder has seen `decoded`."""
        self._leaving.clear()

    def tables(self, receiver: R) -> frozenset[str]:
        """Whose rows the receiver gets."""
        return frozenset(self._had[receiver])

    def forget(self, receiver: R) -> None:
        """The receiver has gone."""
        for name in list(self._had.pop(receiver, ())):
            self._decode_no_more(name)
        for spoilt in self._spoilt.values():
            spoilt.told.pop(receiver, None)

    def make_way(self, receiver: R, layouts: Mapping[str, TableLayout]) -> Addressed[R]:
        """Takes away what the receiver does not follow (any more), and from others what its layouts displace."""
        had = self._had.setdefault(receiver, {})
        for name in [n for n, layout in had.items() if not _same(layouts.get(n), layout)]:
            del had[name]
            self._decode_no_more(name)
        told: Addressed[R] = []
        for name, layout in layouts.items():
            if name not in had and not self._fits(receiver, name, layout):
                notice = SchemaNotice(name, f"{name} has been altered: it is followed anew.")
                told += [(holder, notice) for holder in self._lost(name)]
        return told

    def is_ready(self, layouts: Mapping[str, TableLayout]) -> bool:
        """Whether the decoder has looked since what these displaced has gone."""
        return self._leaving.isdisjoint(layouts)

    def take(self, receiver: R, layouts: Mapping[str, TableLayout]) -> Addressed[R]:
        """The receiver has all of these from now on, but for what it is told. After `make_way`, and when ready."""
        had = self._had[receiver]
        told: Addressed[R] = []
        for name, layout in layouts.items():
            if name in had:
                continue
            spoilt = self._spoilt.get(name)
            if spoilt is not None and spoilt.layout == layout and not spoilt.is_known_to(receiver, layout):
                # It was read before that was said, perhaps.
                spoilt.told[receiver] = layout.since
                told += [(receiver, notice) for notice in spoilt.notices]
                if spoilt.fatal:
                    continue
            else:
                self._spoilt.pop(name, None)
            had[name] = layout
            self._last[name] = self.decoded.setdefault(name, layout)
        return told

    def advance(self, position: int) -> None:
        """The stream is there. (What is said of a transaction that is read in part lies behind where the stream is.)"""
        for spoilt in self._spoilt.values():
            if spoilt.passed is None and position > spoilt.position:
                spoilt.passed = position

    def say(self, notice: SchemaNotice, position: int) -> None:
        """The decoder has found something out, and all who have the table are told."""
        name = notice.table
        # A decoder that has not finished a transaction may still find something out about what has gone.
        layout = self._last.get(name)
        if layout is None:
            return
        spoilt = self._spoilt.get(name)
        before = spoilt.notices if spoilt is not None and spoilt.layout == layout else []
        told = {holder: self._had[holder][name].since for holder in self._holders(name)}
        self._spoilt[name] = _NoticeLog([*before, notice], layout, told, position)
        if not notice.columns:
            self._lost(name)

    def _fits(self, receiver: R, name: str, layout: TableLayout) -> bool:
        decoded, spoilt = self.decoded.get(name), self._spoilt.get(name)
        return decoded is None or (decoded == layout and (spoilt is None or not spoilt.is_known_to(receiver, layout)))

    def _holders(self, name: str) -> list[R]:
        return [receiver for receiver, had in self._had.items() if name in had]

    def _lost(self, name: str) -> list[R]:
        """All who had the table, who do not any more."""
        holders = self._holders(name)
        for holder in holders:
            del self._had[holder][name]
        self._decode_no_more(name)
        return holders

    def _decode_no_more(self, name: str) -> None:
        if name in self.decoded and not self._holders(name):
            del self.decoded[name]
            self._leaving.add(name)


def _same(layout: TableLayout | None, other: TableLayout) -> bool:
    """Also of the same moment: a layout that was read again stands for a table that is followed anew."""
    return layout is not None and (layout, layout.since) == (other, other.since)
