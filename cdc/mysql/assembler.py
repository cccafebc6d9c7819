"""Assembly of the binary log's events into transactions. Pure: events in, transactions out.

A transaction is a group of events: a GTID (MySQL: and BEGIN), table maps and rows, and an end: XID for transactional
storage engines, COMMIT for others, XA PREPARE for a transaction that commits later. A statement that defines tables is
a group of its own.

*Invariants*: rows are laid out as in the table's layout; rows that a transaction both adds and removes are in neither
bag; a transaction above the limits of rows or bytes has no rows. `position` is between two groups and never decreases.

Optimized: one call for each event, row and value.

Not here: the connection (`stream`), the followed tables (`bindings`).
"""

import re
from collections.abc import Iterable, Mapping
from struct import error
from typing import assert_never
from zlib import error as zlib_error

from cdc.change import CommittedTransaction, SchemaNotice, StreamLost, TableChange, TableLayout
from cdc.gtid import mariadb_id, source_of, transaction_id
from cdc.mysql import events
from cdc.mysql.bindings import Binding, Bindings
from cdc.mysql.cascades import Part
from cdc.mysql.groups import EventGroup, PreparedTransactions, at_commit
from cdc.mysql.partial_images import apply_images, images_of
from cdc.mysql.position import OFFSET_BITS, position_of
from cdc.mysql.row_events import ROW_EVENTS, read_images, read_rows
from cdc.mysql.statements import statement_of
from cdc.mysql.table_effects import EffectKind, TableEffect
from cdc.mysql.table_map import read_table_map

#: Maximum bytes of a transaction's row events; beyond it its rows are dropped.
MAX_TRANSACTION_BYTES = 1 << 28
#: Maximum number of cached table maps; beyond it the cache is emptied.
MAX_TABLE_MAPS = 10_000

_BEGINNINGS = frozenset({events.GTID, events.ANONYMOUS_GTID})
_SAY_NOTHING = frozenset(
    {
        events.STOP,
        events.INTVAR,
        events.RAND,
        events.USER_VAR,
        events.BEGIN_LOAD_QUERY,
        events.IGNORABLE,
        events.ROWS_QUERY,
        events.PREVIOUS_GTIDS,
        events.TRANSACTION_CONTEXT,
        events.VIEW_CHANGE,
        events.ANNOTATE_ROWS,
        events.BINLOG_CHECKPOINT,
        events.MARIADB_GTID_LIST,
        events.START_ENCRYPTION,
    }
)

#: Table id of an event that only ends a statement.
_NO_TABLE = 0xFFFFFF
#: Flag of an artificial event, whose position is meaningless.
_ARTIFICIAL = 0x20
_FILE_MASK = -1 << OFFSET_BITS
_WRAP = 1 << 32

_XA = re.compile(r"XA\s+(\w+)\s+X'([0-9a-f]*)'(?:,X'([0-9a-f]*)')?(?:,(\d+))?", re.IGNORECASE)

FORMAT_STATEMENT = "SET GLOBAL binlog_format = 'ROW';"


class MalformedLog(ValueError):
    """The bytes violate the format of the binary log."""


class BinlogAssembler:
    """The assembler of one stream.

    *State*: `position`, the stream's position; `rows`, the number of rows in the transaction returned last; `_group`,
    the open transaction; `_prepared`, transactions after XA PREPARE, by XID.
    """

    def __init__(
        self,
        file: str,
        offset: int,
        max_transaction_rows: int,
        max_transaction_bytes: int = MAX_TRANSACTION_BYTES,
        charsets: Mapping[int, str] | None = None,
        fold_names: bool = False,
        mariadb: bool = True,
        file_time: int | None = None,
    ) -> None:
        """Begin at a position. `mariadb`: a transaction's id is its position; MySQL's is its global id. `file_time`:
        required time of the file's first event."""
        self._mariadb = mariadb
        self._max_rows = max_transaction_rows
        self._max_bytes = max_transaction_bytes
        self._charsets = charsets or {}
        self._bindings = Bindings(self._charsets, fold_names)
        #: By table id: the bytes of the table map, and its binding.
        self._tables: dict[int, tuple[bytes, Binding]] = {}
        self._passing: list[int] = []
        self._touched: list[Binding] = []
        self._group: EventGroup | None = None
        self._prepared = PreparedTransactions(max_transaction_rows)
        self._checksums = False
        #: Time of the first event of `file`, compared after a reconnection. None until that event has been read.
        self.file_time = file_time
        #: Whether the first event of `file`, or of a connection within it, has been read.
        self.opened = False
        self._reconnected = file_time is not None
        self._end = position_of(file, offset)
        self.position = self._end
        self.file = file
        self.rows = 0
        #: Number of heartbeats: the server had nothing to send.
        self.heartbeats = 0
        #: Id (`cdc.gtid`) of the last transaction of each domain (MariaDB) or source (MySQL).
        self.last: dict[int, int] = {}
        #: Ids of the transactions that have ended since `take_passed`.
        self._passed: list[int] = []
        self._gtid: tuple[int, int] | None = None

    @property
    def offset(self) -> int:
        """The stream's offset in `file`."""
        return self.position & ~_FILE_MASK

    def follow(self, layouts: Mapping[str, TableLayout]) -> None:
        """Read the rows of these tables, from the next transaction on."""
        self._bindings.follow(layouts)
        if self._group is None:
            self._install_layouts()

    def take_notices(self) -> list[SchemaNotice]:
        """Return the notices since the last call."""
        return self._bindings.take_notices() if self._bindings.notices else []

    def take_redefined(self) -> list[str]:
        """Return the relations that statements redefined since the last call (`Batch.redefined`)."""
        redefined, self._bindings.redefined = self._bindings.redefined, []
        return redefined

    def take_passed(self) -> list[int]:
        """Return the global ids of all transactions that have ended since the last call."""
        passed, self._passed = self._passed, []
        return passed

    def reconnected(self) -> None:
        """Prepare for events of a new connection, from `position` on: those of the open transaction come again."""
        self._checksums = False
        self._reconnected = True
        self._forget_group()
        self._tables.clear()
        self._end = self.position

    def feed(self, data: bytes, at: int, end: int) -> CommittedTransaction | None:
        """Take the event between two offsets; return the transaction that it ends, if it has changes.

        Raises MalformedLog, and StreamLost if changes cannot be derived from the log.
        """
        try:
            return self._feed(data, at, end)
        except (LookupError, ValueError, OverflowError, error, zlib_error) as problem:
            kind = data[at + 4] if end > at + 4 else None
            raise MalformedLog(f"an event of type {kind} is malformed: {problem!r}") from problem

    def _feed(self, data: bytes, at: int, end: int) -> CommittedTransaction | None:
        time, kind, server, size, log_pos, flags = events.HEADER.unpack_from(data, at)
        if size != end - at:
            raise IndexError(f"{end - at} bytes instead of {size}")
        at += events.HEADER_BYTES
        stop = end - 4 if self._checksums else end
        if log_pos and not flags & _ARTIFICIAL:
            self._move(log_pos)
        if kind in ROW_EVENTS:
            self._row_event(kind, data, at, stop)
        elif kind == events.TABLE_MAP:
            self._table_map(data, at, stop)
        elif kind == events.XID:
            return self._finish()
        elif kind == events.MARIADB_GTID:
            domain, number, said = events.read_mariadb_gtid(data, at)
            self._begin(standalone=bool(said & events.STANDALONE), is_xa=bool(said & events.PREPARES_XA))
            self._gtid = domain, mariadb_id(domain, server, number)
        else:
            return self._other(kind, data, at, stop, flags, time)
        return None

    def _other(self, kind: int, data: bytes, at: int, stop: int, flags: int, time: int) -> CommittedTransaction | None:
        """Handle the less frequent kinds of events."""
        if kind == events.QUERY:
            return self._query(events.read_query(data, at, stop, self._charsets))
        if kind == events.QUERY_COMPRESSED:
            return self._query(events.read_compressed_query(data, at, stop, self._charsets))
        if kind in _BEGINNINGS:
            self._begin(standalone=True, is_xa=False)
            if kind == events.GTID:
                uuid, number = events.read_mysql_gtid(data, at)
                source = source_of(uuid)
                self._gtid = source, transaction_id(source, number)
        elif kind == events.ROTATE:
            self._rotate(*events.read_rotate(data, at, stop))
        elif kind == events.FORMAT_DESCRIPTION:
            self._opened(time, events.read_checksum(data, stop + 4 if self._checksums else stop))
        elif kind == events.XA_PREPARE:
            return self._xa_prepare(events.read_xa_prepare(data, at))
        elif kind == events.EXECUTE_LOAD_QUERY:
            self._changes_by_statement(str(data[at:stop], "utf-8", "replace"))
        elif kind in (events.HEARTBEAT, events.HEARTBEAT_V2):
            self.heartbeats += 1
        elif kind not in _SAY_NOTHING and not flags & events.MAY_BE_IGNORED:
            self._refuse(kind)
        if self._group is None:
            self.position = max(self.position, self._end)
        return None

    def _opened(self, time: int, checksums: bool) -> None:
        """Handle the first event of a file, or of a connection within a file; it has the file's creation time."""
        if self._reconnected and self.file_time not in (None, time):
            raise StreamLost(f"The file {self.file} of the binary log was replaced by another file.", retryable=True)
        self._reconnected = False
        self.file_time = time
        self.opened = True
        self._checksums = checksums
        self._forget_group()
        self._tables.clear()

    # ── Places ───────────────────────────────────────────────────────────────────────────────────────────────────────

    def _move(self, log_pos: int) -> None:
        """Note the end of an event, of which `log_pos` has the lower 32 bits."""
        end = self._end
        offset = end & ~_FILE_MASK
        moved = (offset & -_WRAP) | log_pos
        if moved < offset - _WRAP // 2:
            moved += _WRAP
        if moved > offset:
            self._end = (end & _FILE_MASK) | moved

    def _rotate(self, offset: int, name: bytes) -> None:
        """Handle a rotation to another file, or to the current one at the start of a connection."""
        stem, _, number = self.file.rpartition(".")
        for candidate in (name, name[:-4]):
            found_stem, _, found = candidate.decode("utf-8", "replace").rpartition(".")
            if found_stem == stem and found.isdecimal() and len(found) - len(number) in (0, 1):
                break
        else:
            raise IndexError(f"a rotation to {name!r}")
        file = f"{stem}.{found}"
        if file != self.file:
            self._forget_group()
            self.file = file
            self.file_time = None
            self._end = position_of(file, offset)

    # ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _table_map(self, data: bytes, at: int, stop: int) -> None:
        table_id = int.from_bytes(data[at : at + 6], "little")
        said = data[at:stop]
        known = self._tables.get(table_id)
        if known is None or known[0] != said:
            if len(self._tables) > MAX_TABLE_MAPS:
                self._tables.clear()
            binding = self._bindings.bind(read_table_map(data, at, stop), self.position)
            self._tables[table_id] = said, binding
            if self._bindings.is_early(binding, self.position):
                self._passing.append(table_id)
        else:
            binding = known[1]
        group = self._group
        if group is not None and group.is_xa and binding.reader is None:
            group.unread.add(binding.key)

    def _row_event(self, kind: int, data: bytes, at: int, stop: int) -> None:
        table_id = int.from_bytes(data[at : at + 6], "little")
        if table_id == _NO_TABLE and table_id not in self._tables:
            return
        binding = self._tables[table_id][1]
        if binding.cascades is not None:
            self._cascade(binding.cascades.implied(kind, data, at + 8, stop))
        change = binding.change
        if change is None:
            change = self._touch(binding)
        reader = binding.reader
        group = self._group
        if change.overflow or reader is None or group is None:
            return
        images = group.images.get(binding.name)
        rows = read_rows(kind, data, at + 8, stop, reader, change) if images is None else None
        if rows is None:
            images = images or images_of(change, reader.key)
            if images is not None and kind != events.PARTIAL_UPDATE_ROWS:
                group.images[binding.name] = images
                rows = apply_images(images, read_images(kind, data, at + 8, stop, reader), reader)
        if rows is None:
            # The transaction may have changed any row of the table.
            change.drop_rows()
            return
        group.count(rows, stop - at)
        self._limit(group)

    def _cascade(self, implied: Iterable[tuple[str, Part]]) -> None:
        group = self._group
        if group is None:
            raise IndexError("rows outside of a transaction")
        for name, part in implied:
            group.imply(name, part, self._bindings.layouts)
        self._limit(group)

    def _limit(self, group: EventGroup) -> None:
        if group.rows > self._max_rows or group.bytes > self._max_bytes:
            group.overflow()

    def _touch(self, binding: Binding) -> TableChange:
        """Return the open transaction's change of a table, at the binding's first row."""
        group = self._group
        if group is None:
            raise IndexError("rows outside of a transaction")
        change = binding.change = group.change_of(binding.name, self._bindings.layouts)
        self._touched.append(binding)
        return change

    # ── Transactions ─────────────────────────────────────────────────────────────────────────────────────────────────

    def _begin(self, standalone: bool, is_xa: bool) -> None:
        self._group = EventGroup(standalone=standalone, is_xa=is_xa)

    def _install_layouts(self) -> None:
        if self._bindings.install_layouts():
            self._tables.clear()

    def _forget_group(self) -> None:
        """Discard the open transaction: its events come again, or it was never committed."""
        self._end_group()
        self._gtid = None

    def _end_group(self) -> None:
        self._group = None
        for binding in self._touched:
            binding.change = None
        self._touched.clear()
        for table_id in self._passing:
            self._tables.pop(table_id, None)
        self._passing.clear()

    def _finish(self) -> CommittedTransaction | None:
        """End the open group as committed; return its transaction, if it has changes."""
        group = self._group
        end = self.position = self._end
        self._end_group()
        identity = end
        if self._gtid is not None:
            domain, transaction = self._gtid
            self.last[domain] = transaction
            self._passed.append(transaction)
            self._gtid = None
            identity = end if self._mariadb else transaction
        self._install_layouts()
        if group is None or not group.changes:
            return None
        self.rows = group.rows
        tables = group.net_changes()
        return CommittedTransaction(identity, end, tables) if tables else None

    # ── Statements ───────────────────────────────────────────────────────────────────────────────────────────────────

    def _query(self, query: events.QueryEvent) -> CommittedTransaction | None:
        words = query.text[:40].split(None, 2)
        verb = words[0].upper() if words else ""
        group = self._group
        if verb == "BEGIN":
            if group is None:
                self._begin(standalone=False, is_xa=False)
            else:
                group.standalone = False
            return None
        if verb == "COMMIT":
            return self._finish()
        if verb == "ROLLBACK":
            return self._rollback(partly=len(words) > 1)
        if verb == "XA":
            return self._xa(query.text)
        if verb not in ("SAVEPOINT", "RELEASE"):
            self._opened_group()
            self._statement(query)
        return self._finish() if self._group is not None and self._group.standalone else None

    def _rollback(self, partly: bool) -> CommittedTransaction | None:
        """Handle ROLLBACK, which is logged only if changes of non-transactional tables remain."""
        if self._group is not None:
            self._group.overflow()
        return None if partly else self._finish()

    def _statement(self, query: events.QueryEvent) -> None:
        statement = statement_of(query)
        for effect in statement.effects:
            self._effect(effect)
        if statement.changes_rows:
            self._changes_by_statement(query.text)

    def _effect(self, effect: TableEffect) -> None:
        for name in self._bindings.concerned(effect, self._end):
            match effect.kind:
                case EffectKind.TRUNCATE:
                    change = self._change_of(name)
                    if not change.overflow:
                        change.removed, change.added, change.truncated = [], [], True
                        self._opened_group().images.pop(name, None)
                case EffectKind.REWRITE:
                    self._change_of(name).drop_rows()
                case (
                    EffectKind.REPLACE
                    | EffectKind.ALTER
                    | EffectKind.SHIFT
                    | EffectKind.UNIQUE
                    | EffectKind.VIEW
                    | EffectKind.UNKNOWN
                ):
                    pass  # They concern the layout only.
                case _:
                    assert_never(effect.kind)
        if self._bindings.redefine(effect, self._end):
            self._tables.clear()

    def _change_of(self, name: str) -> TableChange:
        """Return the open transaction's change of a followed table."""
        return self._opened_group().change_of(name, self._bindings.layouts)

    def _opened_group(self) -> EventGroup:
        if self._group is None:
            self._begin(standalone=True, is_xa=False)
        assert self._group is not None
        return self._group

    def _changes_by_statement(self, text: str) -> None:
        """Handle a statement that changed rows, which are not in the log.

        A statement that names a followed table ends the stream. Any other may have changed every followed table, by
        triggers, views or procedures.
        """
        lowered = text.lower()
        for name in self._bindings.layouts:
            table = name.rpartition(".")[2].strip("`").lower()
            if table in lowered and re.search(rf"(?<![\w$]){re.escape(table)}(?![\w$])", lowered):
                raise StreamLost(
                    f"A change of {name} is in the binary log as a statement, not as rows.",
                    retryable=True,
                    hint=f"Run: {FORMAT_STATEMENT} and let no session set another format.",
                )
        for name, layout in self._bindings.layouts.items():
            if layout.since < self._end:
                self._change_of(name).drop_rows()

    def _refuse(self, kind: int) -> None:
        if kind == events.TRANSACTION_PAYLOAD:
            raise StreamLost(
                "Transactions are compressed in the binary log.",
                retryable=False,
                hint="Run: SET GLOBAL binlog_transaction_compression = OFF; and let no session set it.",
            )
        if kind == events.GTID_TAGGED:
            raise StreamLost("Tagged global transaction ids are not supported.", retryable=False)
        if kind == events.INCIDENT:
            raise StreamLost("The server reports that changes are missing in its binary log.", retryable=True)
        raise StreamLost(f"The binary log has an event of the unknown type {kind}.", retryable=False)

    # ── XA ───────────────────────────────────────────────────────────────────────────────────────────────────────────

    def _xa(self, text: str) -> CommittedTransaction | None:
        said = _XA.match(text)
        verb = said[1].upper() if said else ""
        if said is None or verb in ("START", "BEGIN", "END"):
            if self._group is not None and verb != "END":
                self._group.standalone, self._group.is_xa = False, True
            return None
        xid = int(said[4] or 1), bytes.fromhex(said[2]), bytes.fromhex(said[3] or "")
        prepared = self._prepared.take(xid)
        if verb == "COMMIT":
            if prepared is None:
                raise StreamLost(
                    "An XA transaction was committed that had been prepared before the stream began.", retryable=True
                )
            self._group = at_commit(prepared, self._bindings, self._end)
        return self._finish()

    def _xa_prepare(self, said: events.XaPrepareEvent) -> CommittedTransaction | None:
        """Handle the end of an XA transaction's changes: prepared, or committed in one phase."""
        group = self._group
        if said.one_phase or group is None:
            return self._finish()
        self._prepared.add(said.xid, group)
        self._group = None
        self._finish()
        return None
