"""Decoder of pgoutput (protocol version 1, text values). Pure: bytes in, transactions out.

PostgreSQL manual, "Logical Replication Message Formats". A committed transaction arrives as Begin, changes and Commit
without interruption; a Relation message precedes a table's first change, and follows each change of the table.

*Invariants*: rows are in the order of the table's layout, whatever the order of the server's columns; rows that a
transaction both adds and removes are in neither bag; changes of a table without full replica identity are `partial`; a
transaction above the limits of rows or bytes has no rows, nor has a table whose identity it alters between changes.
Layouts change only between transactions.

Optimized: one call for each message, one loop for each row, no object for each value (300,000 rows of 5 columns/s).

Not here: the connection and keepalives (`stream`), snapshots (`position`), Relation messages (`relations`).
"""

from collections.abc import Callable, Mapping
from operator import itemgetter
from struct import Struct, error
from typing import Any

from cdc.change import (
    UNKNOWN,
    ChangedRow,
    CommittedTransaction,
    Partition,
    SchemaNotice,
    TableChange,
    TableLayout,
)
from cdc.postgres.position import CommitRecord, format_lsn, widen
from cdc.postgres.relations import Relation, changed_columns, misfit, read_relation, read_text
from cdc.row_images import RowImages

_U32 = Struct("!I").unpack_from
_U16 = Struct("!H").unpack_from
_BEGIN = Struct("!QqI").unpack_from
_COMMIT = Struct("!BQQq").unpack_from
_TRUNCATE = Struct("!IB").unpack_from
_MESSAGE_SIZE = Struct("!I").unpack_from

_INSERT, _UPDATE, _DELETE, _TRUNCATED = b"IUDT"
_BEGIN_KIND, _COMMIT_KIND, _RELATION = b"BCR"
_ROW_KINDS = frozenset(b"IUD")
_IGNORED = frozenset(b"YO")  # Type names and origins do not concern rows.
_MESSAGE = ord("M")
_OLD, _OLD_KEY, _NEW = b"OKN"
_TEXT, _NULL = b"tn"

#: Prefix of the logical message in a transaction that alters the schema
#: (`service.engine.databases.postgres.schema_marks`).
SCHEMA_MARK = "upquery.ddl"
#: More values than a table can have columns.
_UNKNOWN_ROW: "Values" = [UNKNOWN] * 2000
#: Maximum bytes of a transaction's messages; beyond it its rows are dropped.
MAX_TRANSACTION_BYTES = 1 << 28

#: Texts, None, and UNKNOWN in a row that is known in part.
Values = list[Any]
#: Table that has a relation's rows, with the relation if it is a partition of the table.
_Home = tuple[str, TableLayout, Partition | None]


class MalformedStream(ValueError):
    """The bytes violate the protocol."""


class _Binding:
    """Conversion of one relation's rows to one layout. A relation can be a followed table and a partition of others.

    *State*: `change` is the open transaction's change of the table, None if it has none yet. A relation that is not
    followed has an overflown change that is never delivered, so its rows are not parsed.
    """

    __slots__ = ("also", "change", "identity", "layout", "missing", "name", "pick")

    def __init__(
        self,
        name: str,
        pick: Callable[[Values], ChangedRow],
        missing: bool,
        layout: TableLayout | None = None,
        identity: tuple[int, ...] | None = None,
    ) -> None:
        self.name = name
        #: Positions of the replica identity in a row; None if old rows are whole.
        self.identity = identity
        self.layout = layout
        #: Converts values in the server's order to a row; with `missing`, one None follows the values.
        self.pick = pick
        self.missing = missing
        self.change: TableChange | None = None
        #: The same relation's conversion to another layout.
        self.also: _Binding | None = None


class Decoder:
    """The decoder of one stream.

    *State*: `position`, the stream's position; `last`, the last commit; `rows`, the number of rows in the transaction
    returned last; `altered`, whether that transaction altered the schema; `notices`, notices not taken yet.
    """

    def __init__(
        self, near: int, max_transaction_rows: int, max_transaction_bytes: int = MAX_TRANSACTION_BYTES
    ) -> None:
        #: A recent 64-bit transaction id; ids in the stream have 32 bits.
        self._near = near
        self._max_rows = max_transaction_rows
        self._max_bytes = max_transaction_bytes
        self._layouts: dict[str, TableLayout] = {}
        self._next_layouts: dict[str, TableLayout] | None = None
        self._homes: dict[int, list[_Home]] = {}
        self._relations: dict[int, Relation] = {}
        #: Unfollowed relations that have had a catalog check.
        self._strangers: set[int] = set()
        #: By relation. A Relation message, or a change of layouts, removes those that it may affect.
        self._bindings: dict[int, _Binding] = {}
        #: Relations whose bindings are valid for the open transaction only.
        self._passing: list[int] = []
        self._changes: dict[str, TableChange] = {}
        #: Of these tables, the rows so far of those whose old rows are not whole.
        self._images: dict[str, RowImages] = {}
        self._touched: list[_Binding] = []
        self._noticed: dict[str, SchemaNotice] = {}
        self._xid = 0
        self._commit_lsn = 0
        self._commit_us = 0
        self._open = False
        self._overflown = False
        self._transaction_rows = 0
        self._transaction_bytes = 0
        self._marked = False
        self.rows = 0
        self.altered = False
        self.position = 0
        self.last: CommitRecord | None = None
        self.notices: list[SchemaNotice] = []

    @property
    def in_transaction(self) -> bool:
        """True if a transaction has been decoded in part."""
        return self._open

    def follow(self, layouts: Mapping[str, TableLayout]) -> None:
        """Decode the rows of these tables, from the next transaction on."""
        asked = self._layouts if self._next_layouts is None else self._next_layouts
        if layouts != asked:
            for name in [n for n in self._noticed if layouts.get(n) != asked.get(n)]:
                del self._noticed[name]
            self._next_layouts = dict(layouts)

    def restart(self) -> None:
        """Forget the transaction decoded in part, and all relations: another connection sends them again."""
        self._open = self._overflown = self._marked = False
        self._transaction_rows = self._transaction_bytes = 0
        self._relations.clear()
        self._bindings.clear()
        # The transaction may have marked itself by one of them.
        self._strangers.clear()
        self._changes, self._images = {}, {}
        self._touched, self._passing = [], []

    def advance(self, position: int) -> None:
        """Note that the server has sent everything up to `position`. Ignored within a transaction."""
        if not self._open and position > self.position:
            self.position = position

    def feed(self, data: bytes, at: int = 0) -> CommittedTransaction | None:
        """Decode the message that starts at `at`; return the transaction that a Commit ends. Raises MalformedStream."""
        try:
            return self._feed(data, at)
        except (IndexError, KeyError, error, UnicodeDecodeError) as problem:
            raise MalformedStream(
                f"a pgoutput message of kind {data[at : at + 1]!r} is malformed: {problem}"
            ) from problem

    def _feed(self, data: bytes, at: int) -> CommittedTransaction | None:
        kind = data[at]
        if kind in _ROW_KINDS:
            oid = _U32(data, at + 1)[0]
            binding = self._bindings.get(oid)
            if binding is None:
                binding = self._bind(oid)
            while binding is not None:
                change = binding.change
                if change is None:
                    change = self._touch(binding)
                if not change.overflow:
                    if binding.identity is None:
                        self._row_change(kind, data, at + 5, binding, change)
                    else:
                        self._partial_change(kind, data, at + 5, binding, change)
                    self._transaction_rows += 1
                    self._transaction_bytes += len(data)
                    if self._transaction_rows > self._max_rows or self._transaction_bytes > self._max_bytes:
                        self._overflow()
                binding = binding.also
        elif kind == _BEGIN_KIND:
            self._begin(data, at)
        elif kind == _COMMIT_KIND:
            return self._commit(data, at)
        else:
            self._describe(kind, data, at)
        return None

    def _describe(self, kind: int, data: bytes, at: int) -> None:
        """Decode a message that is neither a row nor a transaction's begin or end."""
        if kind == _RELATION:
            relation = read_relation(data, at + 1)
            self._relations[relation.oid] = relation
            self._bindings.pop(relation.oid, None)
        elif kind == _TRUNCATED:
            self._truncate(data, at + 1)
        elif kind == _MESSAGE:
            self._message(data, at + 1)
        elif kind not in _IGNORED:
            raise MalformedStream(f"unexpected pgoutput message {data[at : at + 1]!r}")

    # ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _row_change(self, kind: int, data: bytes, at: int, binding: _Binding, change: TableChange) -> None:
        """Decode an Insert, Update or Delete; `at` is the offset behind its relation's OID."""
        pick = binding.pick
        if kind == _INSERT:
            values, _ = _read_values(data, at + 1, None)
            if binding.missing:
                values.append(None)
            change.added.append(pick(values))
            return
        if data[at] != _OLD:
            change.drop_rows()
            return
        old, at = _read_values(data, at + 1, None)
        if kind == _UPDATE:
            values, _ = _read_values(data, at + 1, old)
            if binding.missing:
                values.append(None)
            change.added.append(pick(values))
            self._transaction_rows += 1
        if binding.missing:
            old.append(None)
        change.removed.append(pick(old))

    def _partial_change(self, kind: int, data: bytes, at: int, binding: _Binding, change: TableChange) -> None:
        """Decode a change of a table whose old rows are not sent whole."""
        assert binding.identity is not None
        images = self._images.get(binding.name)
        if images is None:
            images = self._images[binding.name] = RowImages(binding.identity)
        elif images.identity != binding.identity:
            # Rows that are known by different columns cannot be merged.
            change.drop_rows()
            return
        old = None
        if data[at] in (_OLD, _OLD_KEY):
            values, at = _read_values(data, at + 1, _UNKNOWN_ROW)
            old = images.identified(self._picked(values, binding))
        if kind == _DELETE:
            consistent = old is not None and images.delete(old)
        else:
            row = self._picked(_read_values(data, at + 1, _UNKNOWN_ROW)[0], binding)
            consistent = images.insert(row) if kind == _INSERT else images.update(old, row)
        if not consistent:
            change.drop_rows()

    @staticmethod
    def _picked(values: Values, binding: _Binding) -> ChangedRow:
        if binding.missing:
            values.append(None)
        return binding.pick(values)

    def _truncate(self, data: bytes, at: int) -> None:
        count, _ = _TRUNCATE(data, at)
        oids = [_U32(data, at + 5 + 4 * i)[0] for i in range(count)]
        for oid in oids:
            binding: _Binding | None = self._bindings.get(oid) or self._bind(oid)
            while binding is not None:
                self._truncate_table(binding, oids)
                binding = binding.also

    def _truncate_table(self, binding: _Binding, oids: list[int]) -> None:
        """Empty the table of a truncated relation. `oids`: relations truncated together."""
        change = binding.change or self._touch(binding)
        if change.overflow:
            return
        self._transaction_rows -= len(change.removed) + len(change.added)
        partitions = () if binding.layout is None else binding.layout.partitions or ()
        if not {partition.table_id for partition in partitions} <= set(oids):
            # The other partitions keep their rows.
            change.drop_rows()
            return
        change.removed.clear()
        change.added.clear()
        if binding.name in self._images:
            self._images[binding.name].clear()
        change.truncated = True

    def _overflow(self) -> None:
        """Drop all rows of the open transaction; its further rows are not parsed."""
        self._overflown = True
        for change in self._changes.values():
            change.drop_rows()

    # ── Transactions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, data: bytes, at: int) -> None:
        if self._next_layouts is not None:
            self._layouts, self._next_layouts = self._next_layouts, None
            self._homes = _homes(self._layouts)
            self._bindings.clear()
        self._commit_lsn, self._commit_us, xid = _BEGIN(data, at + 1)
        self._xid = self._near = widen(xid, self._near)
        self._open = True

    def _message(self, data: bytes, at: int) -> None:
        """Decode a logical message: flags, LSN, prefix, length, content. Other prefixes are ignored."""
        prefix, at = read_text(data, at + 9)
        if prefix != SCHEMA_MARK or not self._open:
            return
        self._marked = True
        size = _MESSAGE_SIZE(data, at)[0]
        unlogged = {int(oid) for oid in data[at + 4 : at + 4 + size].split()}
        for oid in unlogged & self._homes.keys():
            for name, _, _ in self._homes[oid]:
                reason = f"{name} was set to unlogged or logged; its changes may be missing."
                self.notices.append(SchemaNotice(name, reason))

    def _touch(self, binding: _Binding) -> TableChange:
        """Return the open transaction's change of a table, at the binding's first row."""
        change = self._changes.get(binding.name)
        if change is None:
            change = self._changes[binding.name] = TableChange(overflow=self._overflown, layout=binding.layout)
        binding.change = change
        self._touched.append(binding)
        return change

    def _commit(self, data: bytes, at: int) -> CommittedTransaction | None:
        end: int = _COMMIT(data, at + 1)[2]
        if end < self.position:
            raise MalformedStream(f"a transaction ends at {format_lsn(end)}, before {format_lsn(self.position)}")
        self.position = end
        self.last = CommitRecord(self._commit_lsn, self._commit_us, self._xid)
        self._open = False
        self.altered, self._marked = self._marked, False
        changes = self._changes
        if not changes and not self._passing:
            return CommittedTransaction(self._xid, end, {}) if self.altered else None
        for name, images in self._images.items():
            _take_images(changes[name], images)
        for binding in self._touched:
            binding.change = None
        for oid in self._passing:
            self._bindings.pop(oid, None)
        self._changes = {}
        self._images = {}
        self._touched = []
        self._passing = []
        self.rows = self._transaction_rows
        self._transaction_rows = 0
        self._transaction_bytes = 0
        self._overflown = False
        tables = {name: change for name, change in changes.items() if change.settle()}
        return CommittedTransaction(self._xid, end, tables) if tables or self.altered else None

    # ── Relations ────────────────────────────────────────────────────────────────────────────────────────────────────

    def _bind(self, oid: int) -> _Binding:
        relation = self._relations[oid]
        binding = None
        for home in self._homes_of(relation):
            _, layout, _ = home
            found = None
            if self._commit_lsn < max(layout.since, layout.extended):
                self._passing.append(oid)
            # Lookups read the rows of transactions that are older than the layout.
            if self._commit_lsn >= layout.since:
                found = self._fit(relation, *home)
            if found is not None:
                found.also, binding = binding, found
        self._bindings[oid] = binding = binding or _unfollowed(relation.name)
        return binding

    def _homes_of(self, relation: Relation) -> "list[_Home]":
        """Return the layouts that have the relation's OID, or else its name."""
        homes = self._homes.get(relation.oid)
        if homes is not None:
            return homes
        layout = self._layouts.get(relation.name)
        if layout is not None:
            return [(relation.name, layout, None)]
        if relation.oid not in self._strangers and any(_may_hold(each, relation) for each in self._layouts.values()):
            self._strangers.add(relation.oid)
            self._marked = True
        return []

    def _fit(self, relation: Relation, name: str, layout: TableLayout, partition: Partition | None) -> _Binding | None:
        """Bind the relation to the layout; None if its rows do not fit. Adds notices for differences."""
        reason = misfit(relation, name, layout, partition)
        if reason is not None:
            self._notice(SchemaNotice(name, reason))
            return None
        changed = changed_columns(relation, layout, partition)
        early: set[str] = set()
        if layout.former is not None and self._commit_lsn < layout.extended:
            # The transaction may be older than the layout's last columns; lookups read their values.
            early.update(layout.columns[len(layout.former.columns) :])
            early.intersection_update(changed)
            changed = tuple(column for column in changed if column not in early)
        if changed:
            columns = ", ".join(changed)
            self._notice(SchemaNotice(name, f"Columns of {name} were dropped, renamed or altered: {columns}.", changed))
        else:
            self._noticed.pop(name, None)
        at = {column: i for i, column in enumerate(relation.columns) if column not in early}
        order = [at.get(column, len(relation.columns)) for column in layout.columns]
        pick = _picker(order, len(relation.columns))
        identity = None
        if relation.identity is not None:
            identity = tuple([place for place, i in enumerate(order) if i in relation.identity])
            if len(identity) < len(relation.identity):
                self._notice(SchemaNotice(name, f"{name} has another replica identity than it had."))
                return None
        return _Binding(name, pick, len(relation.columns) in order, layout, identity)

    def _notice(self, notice: SchemaNotice) -> None:
        if self._noticed.get(notice.table) != notice:
            self._noticed[notice.table] = notice
            self.notices.append(notice)

    def take_notices(self) -> list[SchemaNotice]:
        """Return the notices since the last call."""
        notices, self.notices = self.notices, []
        return notices


def _read_values(data: bytes, at: int, old: Values | None) -> tuple[Values, int]:
    """Return the values of a TupleData, and its end. Unchanged TOAST values are not sent: they come from `old`."""
    values: Values = []
    append = values.append
    count = _U16(data, at)[0]
    at += 2
    for _ in range(count):
        kind = data[at]
        if kind == _TEXT:
            start = at + 5
            at = start + _U32(data, at + 1)[0]
            append(data[start:at].decode())
        elif kind == _NULL:
            append(None)
            at += 1
        elif old is not None:
            append(old[len(values)])
            at += 1
        else:
            raise MalformedStream(f"a row has a value of kind {chr(kind)!r} where a complete value is required")
    if at > len(data):
        raise MalformedStream("a row ends before its last value")
    return values, at


def _picker(order: list[int], count: int) -> Callable[[Values], ChangedRow]:
    """Return the conversion of values in the server's order to a row: value ``order[i]`` is column i."""
    if order == list(range(count)):
        return tuple
    if len(order) > 1:
        return itemgetter(*order)
    return lambda values: tuple(values[i] for i in order)


def _take_images(change: TableChange, images: RowImages) -> None:
    """Move a table's merged images into its change. Rows of another identity's time do not mix with them."""
    if change.overflow:
        return
    if change.removed or change.added:
        change.drop_rows()
    else:
        images.fill(change)


def _homes(layouts: Mapping[str, TableLayout]) -> "dict[int, list[_Home]]":
    """Return the layouts by the OIDs of their tables and partitions."""
    homes: dict[int, list[_Home]] = {}
    for name, layout in layouts.items():
        if layout.table_id:
            homes.setdefault(layout.table_id, []).append((name, layout, None))
        for partition in layout.partitions or ():
            homes.setdefault(partition.table_id, []).append((name, layout, partition))
    return homes


def _may_hold(layout: TableLayout, relation: Relation) -> bool:
    """Return whether an unknown relation may be a new partition of the layout's table."""
    return layout.partitions is not None and not changed_columns(relation, layout, Partition(0, relation.columns))


def _unfollowed(name: str) -> _Binding:
    binding = _Binding(name, tuple, missing=False)
    binding.change = TableChange(overflow=True)
    return binding
