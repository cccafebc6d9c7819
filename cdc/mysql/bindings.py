"""Bindings of the log's table maps to layouts of followed tables, and effects of statements on them. Pure.

A table map is bound to the layout of its table and a reader of its rows, or is unbound. Rows that do not match the
layout produce a `SchemaNotice`, never a guess.

*Invariants*: layouts change only between transactions. A layout is valid from its `since` on: older rows are skipped,
and a later statement may invalidate it.

Not here: transactions (`assembler`), whether a table map matches a layout (`compatibility`).
"""

from collections import deque
from collections.abc import Iterator, Mapping
from typing import assert_never

from cdc.cascade import Cascade
from cdc.change import SchemaNotice, TableChange, TableLayout
from cdc.mysql.cascades import TableCascades
from cdc.mysql.compatibility import changed_columns, order_of
from cdc.mysql.names import qualified_name, quote_name
from cdc.mysql.rows import RowReader, row_reader
from cdc.mysql.table_effects import EffectKind, TableEffect, TableName
from cdc.mysql.table_map import TableMap

#: Effects on a table after which foreign keys that lead to it may be others.
_MOVES_KEYS = frozenset({EffectKind.REPLACE, EffectKind.ALTER, EffectKind.SHIFT, EffectKind.UNKNOWN})
#: Effects of statements remembered for layouts that were read before them and are installed later.
REMEMBERED = 1000


class Binding:
    """Conversion of the rows of one table map.

    *State*: `change` is the open transaction's change of the table, None if it has none yet. A table that is not
    followed has an overflown change that is never delivered, so its rows are not decoded.
    """

    __slots__ = ("cascades", "change", "key", "name", "reader")

    def __init__(
        self, key: tuple[str, str], name: str, reader: RowReader | None, cascades: TableCascades | None = None
    ) -> None:
        self.key = key
        self.name = name
        self.reader = reader
        #: Changes of followed tables that those of this table imply.
        self.cascades = cascades
        self.change: TableChange | None = TableChange(overflow=True) if reader is None else None


class Bindings:
    """The followed tables.

    *State*: `notices` and `redefined`, not taken yet; `_old`, position from which a table no longer matches its layout;
    `_shifted`, position from which its columns may have another order.
    """

    def __init__(self, charsets: Mapping[int, str], fold_names: bool) -> None:
        """Follow no table yet. `charsets` by ids of collations; `fold_names`: table names are case insensitive."""
        self._charsets = charsets
        self._fold = fold_names
        self.layouts: dict[str, TableLayout] = {}
        self._since: dict[str, int] = {}
        #: By name of an ancestor (`_folded`), the cascades of its changes with the tables whose rows they change.
        self._cascades: dict[str, list[tuple[str, Cascade]]] = {}
        self._next: dict[str, TableLayout] | None = None
        self._old: dict[str, int] = {}
        self._shifted: dict[str, int] = {}
        self._recent: deque[tuple[int, TableEffect]] = deque(maxlen=REMEMBERED)
        self._noticed: dict[str, SchemaNotice] = {}
        self.notices: list[SchemaNotice] = []
        #: Names of relations that statements redefined (`Batch.redefined`).
        self.redefined: list[str] = []

    # ── Layouts ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def follow(self, layouts: Mapping[str, TableLayout]) -> None:
        """Read the rows of these tables, from the next transaction on."""
        since = {name: layout.since for name, layout in layouts.items()}
        if layouts == self.layouts and since == self._since:
            self._next = None
        else:
            self._next = dict(layouts)

    def install_layouts(self) -> bool:
        """Install the layouts of the last `follow`, between transactions; return whether to bind table maps again."""
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
        self._cascades = {}
        for name, layout in layouts.items():
            for cascade in layout.cascades:
                self._cascades.setdefault(self._folded(cascade.ancestor), []).append((name, cascade))
        for position, effect in self._recent:
            concerned = set(self._concerned(effect, position))
            uncertain = dict(self._uncertain(effect, position))
            for name in changed:
                if name in concerned:
                    self._redefine(name, effect, position)
                if name in uncertain:
                    self._replaced(name, position, _cascade_reason(name, uncertain[name]))
        return True

    def _at(self, name: str) -> int:
        return self._since.get(name, 0)

    # ── Rows ─────────────────────────────────────────────────────────────────────────────────────────────────────────

    def bind(self, table: TableMap, position: int) -> Binding:
        """Return the binding of a table map in the transaction that begins at `position`."""
        key = (table.database, table.table)
        name = self.name_of(key)
        layout = self.layouts.get(name)
        reader = None
        if layout is not None and position >= layout.since and name not in self._old:
            reader = self._fit(name, layout, table)
        cascades = [
            (other, cascade)
            for other, cascade in self._cascades.get(self._folded(name), ())
            if position >= self._since[other] and other not in self._old
        ]
        return Binding(key, name, reader, TableCascades(cascades, table, self._charsets) if cascades else None)

    def is_early(self, binding: Binding, position: int) -> bool:
        """Return whether the table map lacks a reader or cascades because a layout is valid from a later position."""
        cascades = self._cascades.get(self._folded(binding.name), ())
        is_read = binding.reader is None and position < self._at(binding.name)
        return is_read or any(position < self._since[name] for name, _ in cascades)

    def name_of(self, key: tuple[str, str]) -> str:
        """Return the table's qualified name, in the spelling under which it is followed."""
        name = qualified_name(*key)
        if self._fold and name not in self.layouts:
            return next((known for known in self.layouts if known.lower() == name.lower()), name)
        return name

    def _fit(self, name: str, layout: TableLayout, table: TableMap) -> RowReader | None:
        if name in self._shifted and not table.names:
            reason = f"{name} was altered, and the binary log lacks its column names. Run: {METADATA_STATEMENT}"
            self.notice(SchemaNotice(name, reason))
            return None
        order = order_of(layout, table)
        changed = changed_columns(layout, table, order, self._charsets)
        if changed and not table.names and None in order:
            self.notice(SchemaNotice(name, f"{name} has fewer columns than before."))
            return None
        if changed:
            columns = ", ".join(changed)
            self.notice(SchemaNotice(name, f"Columns of {name} were dropped, renamed or altered: {columns}.", changed))
            order = [None if c in changed else i for c, i in zip(layout.columns, order, strict=True)]
        reader = row_reader(layout, table, order)
        if isinstance(reader, str):
            reason = (
                f"Values of column {reader} of {name} have an unknown storage format. "
                f"If the format is obsolete, run: ALTER TABLE {name} FORCE;"
            )
            self.notice(SchemaNotice(name, reason))
            return None
        return reader

    # ── Statements ───────────────────────────────────────────────────────────────────────────────────────────────────

    def redefine(self, effect: TableEffect, position: int) -> bool:
        """Apply the effect of a statement that ends at `position`; return whether to bind table maps again."""
        match effect.kind:
            case EffectKind.TRUNCATE | EffectKind.REWRITE:
                return False
            case EffectKind.REPLACE | EffectKind.VIEW | EffectKind.UNKNOWN:
                self.redefined.append(_relation_name(effect.table))
            case EffectKind.ALTER | EffectKind.SHIFT | EffectKind.UNIQUE:
                pass
            case _:
                assert_never(effect.kind)
        self._recent.append((position, effect))
        concerned = list(self._concerned(effect, position))
        for name in concerned:
            self._redefine(name, effect, position)
        uncertain = dict(self._uncertain(effect, position))
        for name, ancestor in uncertain.items():
            self._replaced(name, position, _cascade_reason(name, ancestor))
        return bool(concerned or uncertain)

    def _concerned(self, effect: TableEffect, position: int) -> Iterator[str]:
        """Return followed tables that the effect concerns and whose layouts are older."""
        database, table = effect.table
        if database is not None and table is not None:
            names = [self.name_of((database, table))]
        else:
            names = [name for name in self.layouts if self._is_of(self._folded(name), effect.table)]
        yield from (name for name in names if name in self.layouts and self._since[name] < position)

    def _is_of(self, name: str, relation: TableName) -> bool:
        """Return whether a folded name is that of a relation, or of one of its database's."""
        of = self._folded(_relation_name(relation))
        return name.startswith(of) if relation[1] is None else name == of

    def _uncertain(self, effect: TableEffect, position: int) -> Iterator[tuple[str, str]]:
        """Yield followed tables with older layouts whose cascades may be others after the effect on an ancestor, each
        with the ancestor."""
        if effect.kind not in _MOVES_KEYS:
            return
        altered = {column.lower() for column in effect.columns}
        for ancestor, cascades in self._cascades.items():
            if self._is_of(ancestor, effect.table):
                for name, cascade in cascades:
                    columns = {column.name.lower() for column in cascade.columns}
                    if self._since[name] < position and (not altered or altered & columns):
                        yield name, cascade.ancestor

    def _folded(self, name: str) -> str:
        return name.lower() if self._fold else name

    def concerned(self, effect: TableEffect, position: int) -> list[str]:
        """Return followed tables that the effect of a statement that ends at `position` concerns."""
        return list(self._concerned(effect, position))

    def _redefine(self, name: str, effect: TableEffect, position: int) -> None:
        match effect.kind:
            case EffectKind.SHIFT:
                self._shifted[name] = position
            case EffectKind.UNIQUE:
                lost = {key.lower() for key in effect.columns} & {key.lower() for key in self.layouts[name].unique_keys}
                if lost:
                    self.notice(SchemaNotice(name, f"{name} lost a unique key."))
            case EffectKind.REPLACE:
                self._replaced(name, position, f"{name} was dropped, renamed or created again.")
            case EffectKind.UNKNOWN:
                self._replaced(name, position, f"A statement that may concern {name} is not understood.")
            case EffectKind.ALTER | EffectKind.VIEW:
                if effect.columns:
                    self._columns_altered(name, effect.columns)
                else:
                    self._replaced(name, position, f"{name} was altered.")
            case EffectKind.TRUNCATE | EffectKind.REWRITE:
                raise AssertionError("these concern rows only")
            case _:
                assert_never(effect.kind)

    def _replaced(self, name: str, position: int, reason: str) -> None:
        self._old[name] = position
        self.notice(SchemaNotice(name, reason))

    def _columns_altered(self, name: str, altered: tuple[str, ...]) -> None:
        lowered = {column.lower() for column in altered}
        columns = tuple(column for column in self.layouts[name].columns if column.lower() in lowered)
        if columns:
            listed = ", ".join(columns)
            self.notice(SchemaNotice(name, f"Columns of {name} were dropped, renamed or altered: {listed}.", columns))

    # ── Notices ──────────────────────────────────────────────────────────────────────────────────────────────────────

    def notice(self, notice: SchemaNotice) -> None:
        """Add a notice, unless it repeats the table's last one."""
        if self._noticed.get(notice.table) != notice:
            self._noticed[notice.table] = notice
            self.notices.append(notice)

    def take_notices(self) -> list[SchemaNotice]:
        """Return the notices since the last call."""
        notices, self.notices = self.notices, []
        return notices


def _cascade_reason(name: str, ancestor: str) -> str:
    return f"{ancestor}, to which foreign keys of {name} lead, was altered."


def _relation_name(relation: TableName) -> str:
    """Return a relation's name; a database's ends with a dot, that of all relations is empty."""
    database, name = relation
    if database is None:
        return ""
    return f"{quote_name(database)}." if name is None else qualified_name(database, name)


#: Makes table maps name their columns.
METADATA_STATEMENT = "SET GLOBAL binlog_row_metadata = 'FULL';"
