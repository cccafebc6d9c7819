"""Which tables of the log are followed, how their rows are read, and what statements did to them. Pure.

A table map is bound: to the layout of its table and a reader of its rows, or to nothing. What cannot be read as its
layout says is told in a `SchemaNotice`, never guessed at.

*Invariants*: layouts change only between transactions. A layout holds from its `since` on: what is older goes by
unread, what a statement did later makes it old.

Not here: transactions (`assembler`), whether a table map fits a layout (`compatibility`).
"""

from collections import deque
from collections.abc import Iterator, Mapping

from cdc.change import SchemaNotice, TableChange, TableLayout
from cdc.mysql.compatibility import changed_columns, order_of
from cdc.mysql.names import qualified_name, quote_name
from cdc.mysql.rows import RowReader, row_reader
from cdc.mysql.table_effects import EffectKind, TableEffect, TableName
from cdc.mysql.table_map import TableMap

#: Statements remembered for layouts that were read before them and come after.
REMEMBERED = 1000


class Binding:
    """How the rows of one table map are taken.

    *State*: `change` is the open transaction's change of the table, None if it has none yet. What is not followed has a
    change of its own that is never delivered and looks overflown, so that its rows are not even looked at.
    """

    __slots__ = ("change", "key", "name", "reader")

    def __init__(self, key: tuple[str, str], name: str, reader: RowReader | None) -> None:
        self.key = key
        self.name = name
        self.reader = reader
        self.change: TableChange | None = TableChange(overflow=True) if reader is None else None


class Bindings:
    """The followed tables.

    *State*: `notices` and `redefined`, what was found out and nobody has taken yet; `_old`, since when a table's rows
    are not those of its layout; `_shifted`, since when its columns may be elsewhere.
    """

    def __init__(self, charsets: Mapping[int, str], fold_names: bool) -> None:
        """`charsets` by the ids of their collations. `fold_names`: the server's table names have no case."""
        self._charsets = charsets
        self._fold = fold_names
        self.layouts: dict[str, TableLayout] = {}
        self._since: dict[str, int] = {}
        self._next: dict[str, TableLayout] | None = None
        self._old: dict[str, int] = {}
        self._shifted: dict[str, int] = {}
        self._recent: deque[tuple[int, TableEffect]] = deque(maxlen=REMEMBERED)
        self._noticed: dict[str, SchemaNotice] = {}
        self.notices: list[SchemaNotice] = []
        #: Names of relations that statements defined anew (`cdc.change.Batch`).
        self.redefined: list[str] = []

    # ── Layouts ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self, layouts: Mapping[str, TableLayout]) -> None:
        """Read these tables' rows, from the next transaction on."""
        since = {name: layout.since for name, layout in layouts.items()}
        if layouts == self.layouts and since == self._since:
            self._next = None
        else:
            self._next = dict(layouts)

    def renewed(self) -> bool:
        """Between two transactions: take what was last asked for. Whether table maps must be bound anew."""
        if self._next is None:
            return False
        layouts, self._next = self._next, None
        changed = [n for n, layout in layouts.items() if (layout, layout.since) != (self.layouts.get(n), self._at(n))]
        for name in {*changed, *(self.layouts.keys() - layouts.keys())}:
            self._noticed.pop(name, None)
            self._old.pop(name, None)
            self._shifted.pop(name, None)
        self.layouts = layouts
        self._since = {name: layout.since for name, layout in layouts.items()}
        for name in changed:
            for position, effect in self._recent:
                if name in self._concerned(effect, position):
                    self._redefine(name, effect, position)
        return True

    def _at(self, name: str) -> int:
        return self._since.get(name, 0)

    # ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def bind(self, table: TableMap, position: int) -> Binding:
        """How to take the table's rows in the transaction that begins at `position`."""
        key = (table.database, table.table)
        name = self.name_of(key)
        layout = self.layouts.get(name)
        if layout is None or position < layout.since or name in self._old:
            return Binding(key, name, None)
        return Binding(key, name, self._fit(name, layout, table))

    def is_passing(self, binding: Binding, position: int) -> bool:
        """Whether it is bound to nothing only because its layout is younger."""
        return binding.reader is None and position < self._at(binding.name)

    def name_of(self, key: tuple[str, str]) -> str:
        """The name under which a table is followed, if it is."""
        name = qualified_name(*key)
        if self._fold and name not in self.layouts:
            return next((known for known in self.layouts if known.lower() == name.lower()), name)
        return name

    def _fit(self, name: str, layout: TableLayout, table: TableMap) -> RowReader | None:
        if name in self._shifted and not table.names:
            reason = f"{name} was altered, and the binary log does not say how. Run: {METADATA_STATEMENT}"
            self.notice(SchemaNotice(name, reason))
            return None
        order = order_of(layout, table)
        changed = changed_columns(layout, table, order, self._charsets)
        if changed and not table.names and None in order:
            self.notice(SchemaNotice(name, f"{name} has fewer columns than it had."))
            return None
        if changed:
            columns = ", ".join(changed)
            self.notice(SchemaNotice(name, f"Columns of {name} were dropped, renamed or altered: {columns}.", changed))
            order = [None if c in changed else i for c, i in zip(layout.columns, order, strict=True)]
        reader = row_reader(layout, table, order)
        if isinstance(reader, str):
            reason = (
                f"Values of column {reader} of {name} are stored in a way that is not known. "
                f"If it is an old one, this renews it: ALTER TABLE {name} FORCE;"
            )
            self.notice(SchemaNotice(name, reason))
            return None
        return reader

    # ── Statements ───────────────────────────────────────────────────────────────────────────────────────────────────

    def redefine(self, effect: TableEffect, position: int) -> bool:
        """A statement that ends at `position` did that. Whether table maps must be bound anew."""
        if effect.kind in (EffectKind.TRUNCATE, EffectKind.REWRITE):
            return False
        if effect.kind in (EffectKind.REPLACE, EffectKind.VIEW, EffectKind.UNKNOWN):
            self.redefined.append(_written(effect.table))
        self._recent.append((position, effect))
        concerned = list(self._concerned(effect, position))
        for name in concerned:
            self._redefine(name, effect, position)
        return bool(concerned)

    def _concerned(self, effect: TableEffect, position: int) -> Iterator[str]:
        """Followed tables that the statement was about, and whose layouts are from before."""
        database, table = effect.table
        if database is not None and table is not None:
            names = [self.name_of((database, table))]
        else:
            prefix = "" if database is None else self._folded(f"{quote_name(database)}.")
            names = [name for name in self.layouts if self._folded(name).startswith(prefix)]
        yield from (name for name in names if name in self.layouts and self._since[name] < position)

    def _folded(self, name: str) -> str:
        return name.lower() if self._fold else name

    def concerned(self, effect: TableEffect, position: int) -> list[str]:
        """Followed tables that a statement which ends at `position` was about."""
        return list(self._concerned(effect, position))

    def _redefine(self, name: str, effect: TableEffect, position: int) -> None:
        if effect.kind is EffectKind.SHIFT:
            self._shifted[name] = position
        elif effect.kind is EffectKind.UNIQUE:
            lost = {key.lower() for key in effect.columns} & {key.lower() for key in self.layouts[name].unique_keys}
            if lost:
                self.notice(SchemaNotice(name, f"{name} lost a unique key."))
        elif effect.kind is EffectKind.REPLACE:
            self._old[name] = position
            self.notice(SchemaNotice(name, f"{name} was dropped, renamed or created anew."))
        elif effect.kind is EffectKind.UNKNOWN:
            self._old[name] = position
            self.notice(SchemaNotice(name, f"A statement that may concern {name} is not understood."))
        elif not effect.columns:
            self._old[name] = position
            self.notice(SchemaNotice(name, f"{name} was altered."))
        else:
            altered = {column.lower() for column in effect.columns}
            columns = tuple(column for column in self.layouts[name].columns if column.lower() in altered)
            if columns:
                listed = ", ".join(columns)
                reason = f"Columns of {name} were dropped, renamed or altered: {listed}."
                self.notice(SchemaNotice(name, reason, columns))

    # ── Notices ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def notice(self, notice: SchemaNotice) -> None:
        """Tell of it, once until the table is followed anew."""
        if self._noticed.get(notice.table) != notice:
            self._noticed[notice.table] = notice
            self.notices.append(notice)

    def take_notices(self) -> list[SchemaNotice]:
        """What was found out since the last call."""
        notices, self.notices = self.notices, []
        return notices


def _written(relation: TableName) -> str:
    """A relation's name; that of a database ends with a dot, that of all is empty."""
    database, name = relation
    if database is None:
        return ""
    return f"{quote_name(database)}." if name is None else qualified_name(database, name)


#: Makes table maps name their columns.
METADATA_STATEMENT = "SET GLOBAL binlog_row_metadata = 'FULL';"
