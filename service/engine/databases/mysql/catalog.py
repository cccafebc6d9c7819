"""Catalog of a MariaDB or MySQL server: tables, types, keys, views, and the stream's row layouts.

*Invariants*: columns did not change while the rest was read. A key or NOT NULL is reported only if the server enforces
it for every row. Foreign keys are not reported to plans: ``SET foreign_key_checks = 0``, available to every session and
used by every restored dump, leaves rows without parents.

Not here: whether a table can be followed (`checks`); the meaning of types (`types`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from cdc.change import TableLayout
from cdc.mysql.names import qualified_name
from dataflow.schema import Catalog, Column, Spread, Table, UpstreamView
from service.engine.databases.mysql.collations import load_collations
from service.engine.databases.mysql.connect import Flavour
from service.engine.databases.mysql.foreign_keys import ForeignKey, cascades_of, load_cascading, load_foreign_keys
from service.engine.databases.mysql.log_place import log_end
from service.engine.databases.mysql.sql_text import named, quoted, unqualified
from service.engine.databases.mysql.types import Collations, ColumnRow, column_kind, sql_type, text_type
from service.engine.databases.mysql.wire import ServerReply, Wire
from service.engine.upstream.results import UpstreamError

SYSTEM_SCHEMAS = ("mysql", "information_schema", "performance_schema", "sys")

# SQLAlchemy's `Inspector` runs SHOW CREATE TABLE for each table, where one round trip reads all tables here, and omits
# cardinalities and MariaDB's JSON type.
_DATABASES = "SELECT schema_name FROM information_schema.schemata"
_TABLES = "SELECT table_schema, table_name, table_type, table_rows FROM information_schema.tables WHERE {}"
_COLUMNS = """
SELECT table_schema, table_name, column_name, data_type, column_type, character_maximum_length, numeric_precision,
       numeric_scale, datetime_precision, character_set_name, collation_name, is_nullable, extra,
       column_default IS NOT NULL
FROM information_schema.columns WHERE {} ORDER BY table_schema, table_name, ordinal_position
"""
#: MariaDB's JSON type is text with this check constraint.
_JSON = """
SELECT constraint_schema, table_name, constraint_name FROM information_schema.check_constraints
WHERE {} AND level = 'Column' AND check_clause = CONCAT('json_valid(`', REPLACE(constraint_name, '`', '``'), '`)')
"""
_INDEXES = """
SELECT table_schema, table_name, index_name, non_unique, column_name, sub_part, cardinality, index_type
FROM information_schema.statistics WHERE {}
ORDER BY table_schema, table_name, index_name <> 'PRIMARY', index_name, seq_in_index
"""
_UNIQUE = """
SELECT table_schema, table_name, index_name, column_name, sub_part FROM information_schema.statistics
WHERE {} AND non_unique = 0 ORDER BY table_schema, table_name, index_name <> 'PRIMARY', index_name, seq_in_index
"""
_VIEWS = "SELECT table_schema, table_name, view_definition FROM information_schema.views WHERE {}"
_SESSION = "SELECT DATABASE(), @@collation_connection, @@GLOBAL.binlog_row_image"
#: Ends of the names of types whose values binlog_row_image = NOBLOB omits.
_LARGE = ("blob", "text", "json")
#: Index types that support equality and prefix searches.
_PLAIN_INDEXES = frozenset({"BTREE", "HASH"})
_ATTEMPTS = 5
#: Name before a dot.
_QUALIFIER = re.compile(r"""(?:`((?:[^`]|``)+)`|"([^"]+)"|([\w$]+))\s*\.""")

Named = tuple[str, str]


async def load_catalog(wire: Wire, dialect: str, texts: Iterable[str] = ()) -> Catalog:
    """Loads the readable tables and views of the connection's database and of the databases that the texts, or views
    that they name, refer to. Raises ServerError, ConnectionBroken, UpstreamError."""
    databases = ", ".join(map(quoted, await _databases(wire, texts))) or "NULL"
    among = f"table_schema IN ({databases})"
    columns_query, tables_query, indexes_query, views_query = (
        query.format(among) for query in (_COLUMNS, _TABLES, _INDEXES, _VIEWS)
    )
    constraints = [_JSON.format(f"constraint_schema IN ({databases})")] if dialect == "mariadb" else []
    for _ in range(_ATTEMPTS):
        replies = await wire.query_all(
            [columns_query, _SESSION, tables_query, indexes_query, views_query, *constraints, columns_query]
        )
        columns, session, tables, indexes, views, *json, again = map(_texts, replies)
        if columns == again:
            break
    else:
        raise UpstreamError("failed", "Columns cannot be read, since tables are altered continuously.")
    constrained = frozenset(json[0]) if json else frozenset()
    rows = _column_rows(columns, constrained)
    database, connection_collation, row_image = session[0]
    used = {row.collation for found in rows.values() for row in found if row.collation}
    collations = await load_collations(wire, {*used, connection_collation})
    cascading = await load_cascading(wire, databases)
    shapes = {
        (schema, name): _Shape(qualified_name(schema, name), rows.get((schema, name), ()), collations, count)
        for schema, name, kind, count in tables
        if kind != "SYSTEM VIEW"
    }
    for schema, name, index, *part in indexes:
        if (schema, name) in shapes:
            shapes[schema, name].add_index_part(index, *part)
    definitions = {(schema, name): definition for schema, name, definition in views}
    found = {
        shape.name: shape.table(row_image.upper(), cascades=key in cascading)
        for key, shape in shapes.items()
        if key not in definitions
    }
    known_views = {
        shapes[key].name: UpstreamView(shapes[key].name, definition, shapes[key].columns)
        for key, definition in definitions.items()
        if key in shapes
    }
    text = text_type(connection_collation, collations)
    return Catalog(found, (database,), known_views, text=text, dialect=dialect)


async def _databases(wire: Wire, texts: Iterable[str]) -> list[str]:
    """Returns the databases to load. A word before a dot counts as a database if one of that name exists."""
    session, schemata = map(_texts, await wire.query_all([_SESSION, _DATABASES]))
    by_name: dict[str, set[str]] = {}
    for (schema,) in schemata:
        if schema.lower() not in SYSTEM_SCHEMAS:
            by_name.setdefault(schema.lower(), set()).add(schema)
    found: set[str] = set()
    new = {session[0][0]} | _named(texts, by_name)
    while new:
        found |= new
        views = _texts(await wire.query(_VIEWS.format(f"table_schema IN ({', '.join(map(quoted, sorted(new)))})")))
        new = _named((definition for _, _, definition in views), by_name) - found
    return sorted(found)


def _named(texts: Iterable[str], by_name: Mapping[str, set[str]]) -> set[str]:
    """Returns databases named in the texts, in any case, with or without quotes."""
    words = {"".join(found).replace("``", "`").lower() for text in texts for found in _QUALIFIER.findall(text)}
    return set[str]().union(*(by_name[word] for word in words & by_name.keys()))


async def load_layouts(wire: Wire, tables: Iterable[str], flavour: Flavour) -> dict[str, TableLayout]:
    """Loads binary-log layouts of these tables, by the names of `load_catalog`; missing tables are left out.

    The stream itself reports altered and dropped tables, so a layout is identified by its columns only.
    """
    names = [unqualified(table) for table in tables]
    for _ in range(_ATTEMPTS):
        foreign_keys = await load_foreign_keys(wire, names)
        ancestors = [key.parent for key in foreign_keys]
        columns = await load_columns(wire, [*names, *ancestors], flavour.dialect)
        layouts = await _layouts(wire, names, columns, foreign_keys, flavour)
        # Statements before the layouts' positions are not applied to them.
        again = await load_foreign_keys(wire, names)
        if again == foreign_keys and (
            not again or columns == await load_columns(wire, [*names, *ancestors], flavour.dialect)
        ):
            return layouts
    raise UpstreamError("failed", "Foreign keys cannot be read, since tables are altered continuously.")


async def _layouts(
    wire: Wire,
    names: list[Named],
    columns: Mapping[Named, list[ColumnRow]],
    foreign_keys: list[ForeignKey],
    flavour: Flavour,
) -> dict[str, TableLayout]:
    keys: dict[Named, dict[str, list[str]]] = {}
    for schema, name, key, column, prefix in _texts(await wire.query(_UNIQUE.format(named(names)))):
        # An index of a column's prefix is over no column.
        keys.setdefault((schema, name), {}).setdefault(key, []).append("" if prefix else column)
    # A separate statement after the others: everything seen by the first one is older.
    since = await log_end(wire, flavour)
    return {
        qualified_name(schema, name): TableLayout(
            tuple(row.name for row in found),
            column_types=tuple(map(column_kind, found)),
            unique_keys=frozenset(keys.get((schema, name), ())),
            key=_image_key(found, keys.get((schema, name), {}).values()),
            generated=tuple(i for i, row in enumerate(found) if row.generated),
            cascades=cascades_of((schema, name), foreign_keys, columns),
            since=since,
        )
        for schema, name in names
        if (found := columns.get((schema, name))) is not None
    }


def _image_key(rows: Sequence[ColumnRow], keys: Iterable[Sequence[str]]) -> tuple[int, ...]:
    """Returns the key that partial row images identify rows by: the primary key, or the first unique key without NULLs.
    Empty if there is none, or a statement may replace a row without naming a column of it, which the log does not
    distinguish from an update."""
    ordinals = {row.name: i for i, row in enumerate(rows)}
    for names in keys:
        key = tuple(sorted(ordinals[name] for name in names if name in ordinals))
        if len(key) == len(names) and not any(rows[i].nullable for i in key):
            usable = not any(rows[i].generated for i in key) and not all(rows[i].has_default for i in key)
            return key if usable else ()
    return ()


async def load_columns(wire: Wire, tables: Iterable[Named], dialect: str) -> dict[Named, list[ColumnRow]]:
    """Loads the columns of these tables and views, by database and name. Raises ServerError, ConnectionBroken."""
    names = list(tables)
    json_query = [_JSON.format(named(names, "constraint_schema"))] if dialect == "mariadb" else []
    replies = await wire.query_all([_COLUMNS.format(named(names)), *json_query])
    columns, *json = map(_texts, replies)
    return _column_rows(columns, frozenset(json[0]) if json else frozenset())


def _texts(reply: ServerReply) -> list[tuple[str, ...]]:
    """Returns rows of texts, with "" for NULL. (MySQL returns some texts of its catalog as bytes.)"""
    return [tuple(v.decode() if isinstance(v, bytes) else v or "" for v in row) for row in reply.rows]


def _column_rows(columns: Iterable[Sequence[str]], json: frozenset[tuple[str, ...]]) -> dict[Named, list[ColumnRow]]:
    """Groups columns by table, in their order."""
    found: dict[Named, list[ColumnRow]] = {}
    for schema, table, name, data_type, column_type, *rest in columns:
        length, precision, scale, fraction, charset, collation, nullable, extra, default = rest
        row = ColumnRow(
            name,
            data_type.lower(),
            column_type,
            _number(length),
            _number(precision),
            _number(scale),
            _number(fraction),
            charset,
            collation,
            nullable == "YES",
            extra.upper(),
            default == "1",
            (schema, table, name) in json,
        )
        found.setdefault((schema, table), []).append(row)
    return found


def _number(text: str) -> int:
    return int(text or 0)


@dataclass(slots=True)
class _Index:
    unique: bool
    kind: str
    #: Leading columns by ordinal, up to the first part that is not a whole column.
    columns: list[int] = field(default_factory=list)
    whole: bool = True


class _Shape:
    """Table under construction."""

    def __init__(self, name: str, rows: Sequence[ColumnRow], collations: Collations, count: str) -> None:
        self.name = name
        self.columns = tuple(Column(row.name, sql_type(row, collations), not row.nullable) for row in rows)
        self._ordinals = {row.name: i for i, row in enumerate(rows)}
        #: Columns that old rows in the log have with NOBLOB.
        self._small = {i for i, row in enumerate(rows) if not (row.json or row.data_type.endswith(_LARGE))}
        self._rows = float(count) if count else -1.0
        self._indexes: dict[str, _Index] = {}
        self._spreads: dict[int, Spread] = {}

    def add_index_part(self, name: str, non_unique: str, column: str, prefix: str, cardinality: str, kind: str) -> None:
        """Adds the next column of an index; a part without a name is an expression. Parts are added in the index's
        order."""
        index = self._indexes.setdefault(name, _Index(non_unique == "0", kind))
        if prefix or column not in self._ordinals:
            index.whole = False
        if not index.whole:
            return
        index.columns.append(self._ordinals[column])
        if len(index.columns) == 1 and kind in _PLAIN_INDEXES and _number(cardinality) and self._rows > 0:
            # The server has no statistics of the most common value.
            mean = max(1.0, self._rows / float(cardinality))
            known = self._spreads.get(index.columns[0])
            if known is None or mean < known.mean:
                self._spreads[index.columns[0]] = Spread(mean, mean)

    def table(self, row_image: str, *, cascades: bool) -> Table:
        """Returns the finished table. `row_image`: ``binlog_row_image``; without a key it makes no difference."""
        keys: dict[tuple[int, ...], None] = {}
        for index in self._indexes.values():
            if index.unique and index.whole and all(self.columns[i].not_null for i in index.columns):
                keys[tuple(index.columns)] = None
        indexes = tuple(tuple(i.columns) for i in self._indexes.values() if i.columns and i.kind in _PLAIN_INDEXES)
        identity: tuple[int, ...] | None = None
        if keys and row_image in ("MINIMAL", "NOBLOB"):
            identity = tuple(sorted({*next(iter(keys)), *(self._small if row_image == "NOBLOB" else ())}))
        return Table(self.name, self.columns, tuple(keys), indexes, self._rows, self._spreads, identity, cascades)


__all__ = ["SYSTEM_SCHEMAS", "load_catalog", "load_columns", "load_layouts"]
