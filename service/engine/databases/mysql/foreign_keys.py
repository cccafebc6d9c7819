"""Foreign keys that change rows of their own tables (CASCADE, SET NULL), as cascades of the stream's layouts.

InnoDB carries them out below the server, so the binary log has the change of the referenced row only (MySQL manual,
"InnoDB and MySQL Replication"). A change follows the keys from table to table: known of a row are the columns of the
key by which it was reached, so the columns that the next key references may be unknown.

Not here: cascades in the stream (`cdc.mysql.cascades`), whether tables with them can be followed (`checks`).
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from cdc.cascade import AncestorColumn, AncestorValue, Cascade, KnownPart
from cdc.column_type import ColumnType
from cdc.mysql.names import qualified_name
from service.engine.databases.mysql.sql_text import named
from service.engine.databases.mysql.types import ColumnRow, column_kind
from service.engine.databases.mysql.wire import Wire

_RULES = """
SELECT constraint_schema, table_name, constraint_name, update_rule, delete_rule
FROM information_schema.referential_constraints WHERE {}
"""
_COLUMNS = """
SELECT table_schema, table_name, constraint_name, column_name,
       referenced_table_schema, referenced_table_name, referenced_column_name
FROM information_schema.key_column_usage WHERE {} AND referenced_table_name IS NOT NULL
ORDER BY table_schema, table_name, constraint_name, ordinal_position
"""
#: Rules that change no row. SET DEFAULT, which InnoDB refuses, counts as one that changes rows to anything.
_PASSIVE = frozenset({"RESTRICT", "NO ACTION"})

Named = tuple[str, str]
Columns = Mapping[Named, Sequence[ColumnRow]]
_Values = dict[str, AncestorValue | None]


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """Foreign key of which a rule changes rows."""

    name: str
    table: Named
    parent: Named
    #: Pairs of a column and the one that it references.
    columns: tuple[tuple[str, str], ...]
    on_update: str
    on_delete: str

    @property
    def rules(self) -> str:
        """The rules that change rows, as in a definition."""
        rules = (("UPDATE", self.on_update), ("DELETE", self.on_delete))
        return " and ".join(f"ON {event} {rule}" for event, rule in rules if rule not in _PASSIVE)


@dataclass(frozen=True, slots=True)
class _Event:
    """Change of a table's row: columns that were updated, none if the row was removed, and known values."""

    table: Named
    updated: frozenset[str]
    before: tuple[tuple[str, AncestorValue | None], ...]
    after: tuple[tuple[str, AncestorValue | None], ...] = ()


async def load_cascading(wire: Wire, databases: str) -> set[Named]:
    """Loads the tables in databases, given as a list of texts, that have foreign keys which change rows."""
    reply = await wire.query(_RULES.format(f"constraint_schema IN ({databases})"))
    rows = [tuple(map(_text, row)) for row in reply.rows]
    return {(schema, table) for schema, table, _, *rules in rows if not _PASSIVE.issuperset(rules)}


async def load_foreign_keys(wire: Wire, tables: Iterable[Named]) -> list[ForeignKey]:
    """Loads the foreign keys that change rows, of these tables and of the tables that they lead to."""
    keys: list[ForeignKey] = []
    seen: set[Named] = set()
    new = set(tables)
    while new:
        seen |= new
        found = await _load(wire, sorted(new))
        keys += found
        new = {key.parent for key in found} - seen
    return keys


async def _load(wire: Wire, tables: list[Named]) -> list[ForeignKey]:
    replies = await wire.query_all([_RULES.format(named(tables, "constraint_schema")), _COLUMNS.format(named(tables))])
    rules, columns = ([tuple(map(_text, row)) for row in reply.rows] for reply in replies)
    found: dict[tuple[str, str, str], list[list[str]]] = {}
    for schema, table, name, *rest in columns:
        found.setdefault((schema, table, name), []).append(rest)
    keys: list[ForeignKey] = []
    for schema, table, name, update, delete in rules:
        parts = found.get((schema, table, name), ())
        if parts and not {update, delete} <= _PASSIVE:
            _, parent_schema, parent, _ = parts[0]
            pairs = tuple((column, referenced) for column, _, _, referenced in parts)
            keys.append(ForeignKey(name, (schema, table), (parent_schema, parent), pairs, update, delete))
    return keys


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def leading_to(table: Named, keys: Iterable[ForeignKey]) -> list[ForeignKey]:
    """Returns the keys over which changes reach a table, its own first."""
    keys = list(keys)
    found: dict[ForeignKey, None] = {}
    new = [key for key in keys if key.table == table]
    while new:
        found.update(dict.fromkeys(new))
        parents = {key.parent for key in new}
        new = [key for key in keys if key.table in parents and key not in found]
    return list(found)


def cascades_of(table: Named, keys: Iterable[ForeignKey], columns: Columns) -> tuple[Cascade, ...]:
    """Returns the cascades that change rows of a table. A parent without `columns`, or with generated ones that are
    referenced, changes all of them."""
    # Equal keys make equal layouts, whatever other tables they were read with.
    leading = sorted(leading_to(table, keys), key=lambda key: (key.table, key.name))
    return tuple(cascade for key in leading for cascade in _cascades(table, key, leading, columns))


def _cascades(table: Named, key: ForeignKey, keys: Sequence[ForeignKey], columns: Columns) -> Iterator[Cascade]:
    """Yields the cascades that begin with a key."""
    rows = {row.name: (i, row) for i, row in enumerate(columns.get(key.parent, ()))}
    names = [name for _, name in key.columns]
    is_readable = all(name in rows and not rows[name][1].generated for name in names)
    ancestors = tuple(AncestorColumn(n, rows[n][0], column_kind(rows[n][1])) for n in names) if is_readable else ()
    before: _Values = {column.name: AncestorValue(i) for i, column in enumerate(ancestors)}
    after: _Values = {column.name: AncestorValue(i, after=True) for i, column in enumerate(ancestors)}
    for event in (
        _Event(key.parent, frozenset(), _items(before)),
        _Event(key.parent, frozenset(names), _items(before), _items(after)),
    ):
        reached = [found for found in _reached(event, key, keys) if found.table == table]
        parts = dict.fromkeys(part for found in reached for part in _parts(found, ancestors, columns[table]))
        if parts:
            wide = () in parts
            yield Cascade(qualified_name(*key.parent), ancestors, bool(event.updated), ((),) if wide else tuple(parts))


def _reached(event: _Event, first: ForeignKey, keys: Sequence[ForeignKey]) -> list[_Event]:
    """Returns the changes that an ancestor's change causes, over one key of its children first."""
    found: dict[_Event, None] = {}
    new = list(_caused(event, first))
    while new:
        found.update(dict.fromkeys(new))
        new = [more for each in new for key in keys for more in _caused(each, key) if more not in found]
    return list(found)


def _caused(event: _Event, key: ForeignKey) -> Iterator[_Event]:
    """Yields the change of a key's rows by a change of the referenced row."""
    rule = key.on_update if event.updated else key.on_delete
    if event.table != key.parent or rule in _PASSIVE:
        return
    if event.updated and event.updated.isdisjoint(name for _, name in key.columns):
        return
    own = frozenset(column for column, _ in key.columns)
    before = _passed(dict(event.before), key)
    if rule == "SET NULL":
        yield _Event(key.table, own, before, _items(dict.fromkeys(own)))
    elif rule != "CASCADE":
        yield _Event(key.table, own, before)
    elif event.updated:
        yield _Event(key.table, own, before, _passed(dict(event.after), key))
    else:
        yield _Event(key.table, frozenset(), before)


def _passed(values: _Values, key: ForeignKey) -> tuple[tuple[str, AncestorValue | None], ...]:
    return _items({column: values[name] for column, name in key.columns if name in values})


def _items(values: _Values) -> tuple[tuple[str, AncestorValue | None], ...]:
    return tuple(sorted(values.items(), key=lambda item: item[0]))


def _parts(event: _Event, ancestors: Sequence[AncestorColumn], rows: Sequence[ColumnRow]) -> Iterator[KnownPart]:
    """Yields the known values of a row before and after a change, by position."""
    for values in (event.before, event.after) if event.updated else (event.before,):
        known = dict(values)
        yield tuple(
            (i, source)
            for i, row in enumerate(rows)
            if row.name in known
            for source in [known[row.name]]
            if source is None or _prints_equally(ancestors[source.column].type, column_kind(row))
        )


def _prints_equally(parent: ColumnType, child: ColumnType) -> bool:
    """Return whether values that a foreign key calls equal are equal as texts, or by the collation that both have."""
    if parent.name == child.name == "varchar":
        return parent.charset == child.charset
    return parent == child
