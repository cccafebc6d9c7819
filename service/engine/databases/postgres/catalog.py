"""Catalog of a PostgreSQL database: tables, types, keys, and the stream's row layouts.

*Invariants*: a catalog is read at one snapshot; a key or NOT NULL is reported only if the upstream enforces it for
every row. Foreign keys are not reported: `session_replication_role`, disabled triggers and logical replication admit
rows without parents, without a trace.

Not here: whether a table can be followed (`checks`); what its types mean (`dataflow.types`).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from psycopg import AsyncConnection

from cdc.change import Partition, TableLayout
from cdc.postgres.names import qualified_name
from cdc.postgres.position import parse_lsn
from dataflow.schema import Catalog, Column, Spread, SqlType, Table, UpstreamView
from dataflow.types.registry import OF_POSTGRES
from service.engine.databases.postgres.collations import DEFAULT_COLLATION, PostgresCollation, load_collations
from service.engine.databases.postgres.partitions import LEAVES
from service.engine.databases.postgres.source_types import load_kinds

#: What ``atttypmod`` is counted from.
_MODIFIER_BASE = 4

#: Values of ``pg_class.relreplident`` (PostgreSQL manual, 53.11); any other is no identity.
_FULL_IDENTITY, _DEFAULT_IDENTITY, _INDEX_IDENTITY = "fdi"

_USER_SCHEMA = "n.nspname NOT LIKE 'pg\\_%' AND n.nspname <> 'information_schema'"
_RELKINDS = "('r', 'p', 'f', 'm', 'v')"

# SQLAlchemy's `Inspector` omits estimated rows and statistics, OIDs of types and collations, ``attnum``, unvalidated
# NOT NULL, deferrability of unique indexes, and transaction ids of catalog rows.

#: With the definitions of views. (The definition of a materialized view describes its last refresh only.) Of the old
#: rows of a partitioned table, as much is known as is logged of each partition.
_TABLES = f"""
SELECT c.oid, n.nspname, c.relname,
       CASE WHEN c.relkind = 'p' THEN (SELECT coalesce(sum(greatest(l.reltuples, 0)), 0) FROM {LEAVES} l)
            ELSE c.reltuples END,
       CASE WHEN c.relkind = 'p' THEN (SELECT CASE WHEN bool_and(l.relreplident = 'f') THEN 'f' ELSE 'd' END
                                       FROM {LEAVES} l) ELSE c.relreplident::text END,
       CASE WHEN c.relkind = 'v' THEN pg_catalog.pg_get_viewdef(c.oid) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN {_RELKINDS} AND {_USER_SCHEMA}
ORDER BY n.nspname, c.relname
"""

_COLUMNS = f"""
SELECT a.attrelid, a.attname, a.attnum, a.atttypid, a.attcollation, a.atttypmod,
       a.attnotnull AND NOT EXISTS (
           SELECT FROM pg_catalog.pg_constraint k
           WHERE k.conrelid = a.attrelid AND k.contype = 'n' AND NOT k.convalidated AND k.conkey = ARRAY[a.attnum])
FROM pg_catalog.pg_attribute a
     JOIN pg_catalog.pg_class c ON c.oid = a.attrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.relkind IN {_RELKINDS} AND {_USER_SCHEMA} AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

#: Types by OID; enums with their labels.
_TYPES = """
SELECT t.oid, n.nspname, t.typname, t.typtype::text, t.typbasetype, t.typcategory = 'A' AND t.typlen = -1, t.typelem,
       (SELECT array_agg(e.enumlabel::text ORDER BY e.enumsortorder)
        FROM pg_catalog.pg_enum e WHERE e.enumtypid = t.oid)
FROM pg_catalog.pg_type t JOIN pg_catalog.pg_namespace n ON n.oid = t.typnamespace
WHERE t.oid = ANY (%(oids)s::oid[]) AND t.typtype <> 'p'
"""

_INDEXES = f"""
SELECT i.indrelid, i.indkey::int2[], i.indnkeyatts, i.indisprimary AND i.indimmediate, i.indisreplident,
       i.indisunique AND i.indimmediate AND NOT i.indisexclusion, i.indpred IS NULL, m.amname IN ('btree', 'hash')
FROM pg_catalog.pg_index i
     JOIN pg_catalog.pg_class x ON x.oid = i.indexrelid JOIN pg_catalog.pg_am m ON m.oid = x.relam
     JOIN pg_catalog.pg_class c ON c.oid = i.indrelid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE {_USER_SCHEMA} AND i.indisvalid AND i.indisready
ORDER BY i.indrelid, NOT i.indisprimary, i.indexrelid
"""

#: From ``pg_stats`` (PostgreSQL manual, 53.27): the number of distinct values of a column (negative: as a fraction of
#: the rows), and the frequency of the most common one. Unreadable columns and tables never analyzed have no entry.
_STATISTICS = f"""
SELECT c.oid, a.attnum, s.n_distinct, s.null_frac, s.most_common_freqs[1]
FROM pg_catalog.pg_stats s
     JOIN pg_catalog.pg_namespace n ON n.nspname = s.schemaname
     JOIN pg_catalog.pg_class c ON c.relnamespace = n.oid AND c.relname = s.tablename
     JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attname = s.attname
WHERE {_USER_SCHEMA} AND s.n_distinct <> 0 AND s.inherited = (c.relkind = 'p')
"""

#: Numbers of the columns of table c's replica identity; none if old rows are whole or not logged.
IDENTITY = """ARRAY(
    SELECT k.number::int
    FROM pg_catalog.pg_index i, LATERAL unnest(i.indkey::int2[]) WITH ORDINALITY AS k (number, at)
    WHERE i.indrelid = c.oid AND k.at <= i.indnkeyatts AND CASE c.relreplident
        WHEN 'd' THEN i.indisprimary AND i.indimmediate WHEN 'i' THEN i.indisreplident END)"""
#: A catalog row's ``xmin`` changes whenever the row does. A publication may drop operations, or a table, and add them
#: again between two checks: then its row, or the table's membership row, has a new ``xmin``; likewise a partition that
#: is detached and attached again.
_LAYOUTS = f"""
WITH RECURSIVE followed AS (
    SELECT w.name, c.oid FROM unnest(%(tables)s::text[]) AS w (name)
           JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(w.name)
), parts (whole, part) AS (
    SELECT DISTINCT a.atttypid, a.atttypid FROM followed f JOIN pg_catalog.pg_attribute a ON a.attrelid = f.oid
    WHERE a.attnum > 0 AND a.atttypid >= 16384
    UNION
    SELECT p.whole, n.part FROM parts p JOIN pg_catalog.pg_type t ON t.oid = p.part, LATERAL (
        VALUES (t.typelem), (t.typbasetype)
        UNION ALL SELECT a.atttypid FROM pg_catalog.pg_attribute a
        WHERE a.attrelid = t.typrelid AND a.attnum > 0 AND NOT a.attisdropped
        UNION ALL SELECT r.rngsubtype FROM pg_catalog.pg_range r WHERE t.oid IN (r.rngtypid, r.rngmultitypid)
    ) AS n (part) WHERE n.part >= 16384
), made (whole, mark) AS (
    SELECT p.whole, pg_catalog.string_agg(m.mark, ' ' ORDER BY m.mark) FROM parts p, LATERAL (
        SELECT pg_catalog.format('%%s/%%s', e.oid, e.xmin) FROM pg_catalog.pg_enum e WHERE e.enumtypid = p.part
        UNION ALL SELECT pg_catalog.format('%%s/%%s/%%s', a.attrelid, a.attnum, a.xmin)
        FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid AND a.attnum > 0
        WHERE t.oid = p.part
    ) AS m (mark) GROUP BY p.whole
)
SELECT w.name, c.oid, array_remove(array_agg(a.attname::text ORDER BY a.attnum), NULL),
       array_remove(array_agg(a.attnum::int ORDER BY a.attnum), NULL),
       array_remove(array_agg(a.atttypid::int8 ORDER BY a.attnum), NULL),
       array_remove(array_agg(a.atttypmod ORDER BY a.attnum), NULL),
       concat_ws(' ', c.relfilenode,
                 (SELECT string_agg(format('%%s/%%s', l.oid, l.relfilenode), ' ' ORDER BY l.oid) FROM {LEAVES} l)),
       array_remove(array_agg(concat_ws('/', a.xmin, d.oid, CASE WHEN a.attgenerated <> '' THEN (
           SELECT string_agg(e.oid::text, '/' ORDER BY e.oid)
           FROM {LEAVES} l JOIN pg_catalog.pg_attrdef e ON e.adrelid = l.oid) END) ORDER BY a.attnum), NULL),
       coalesce((SELECT concat_ws('/', p.xmin, (
                     SELECT string_agg(r.xmin::text, '/' ORDER BY r.oid) FROM pg_catalog.pg_publication_rel r
                     WHERE r.prpubid = p.oid
                       AND (r.prrelid = c.oid OR r.prrelid IN (SELECT l.oid FROM {LEAVES} l))), {{schemas}}, (
                     SELECT string_agg(i.xmin::text, '/' ORDER BY i.inhrelid)
                     FROM pg_catalog.pg_partition_tree(c.oid) t
                          JOIN pg_catalog.pg_inherits i ON i.inhrelid = t.relid))
                 FROM pg_catalog.pg_publication p WHERE p.pubname = %(publication)s), ''),
       coalesce(array_agg(format('%%s/%%s/%%s', m.mark, l.oid, l.xmin) ORDER BY a.attnum)
                FILTER (WHERE a.attnum IS NOT NULL), ARRAY[]::text[]),
       {IDENTITY},
       CASE WHEN c.relkind = 'p' THEN (
           SELECT coalesce(json_agg(json_build_array(l.oid::int8, ARRAY(
               SELECT b.attname FROM pg_catalog.pg_attribute b
               WHERE b.attrelid = l.oid AND b.attnum > 0 AND NOT b.attisdropped ORDER BY b.attnum
           )) ORDER BY l.oid), '[]') FROM {LEAVES} l) END
FROM followed w JOIN pg_catalog.pg_class c ON c.oid = w.oid
     LEFT JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     LEFT JOIN pg_catalog.pg_attrdef d ON d.adrelid = a.attrelid AND d.adnum = a.attnum AND a.attgenerated <> ''
     LEFT JOIN made m ON m.whole = a.atttypid LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
GROUP BY w.name, c.oid
"""
#: Marks of the table's schema in publication p, from PostgreSQL 15 on.
_SCHEMAS = f"""(
                     SELECT string_agg(s.xmin::text, '/' ORDER BY s.oid) FROM pg_catalog.pg_publication_namespace s
                     WHERE s.pnpubid = p.oid
                       AND (s.pnnspid = c.relnamespace OR s.pnnspid IN (SELECT l.relnamespace FROM {LEAVES} l)))"""


@dataclass(frozen=True, slots=True)
class _TypeRow:
    oid: int
    schema: str
    name: str
    kind: str
    base: int
    is_array: bool
    element: int
    labels: list[str] | None


async def load_catalog(connection: AsyncConnection) -> Catalog:
    """Loads all tables and views outside system schemas (including foreign tables: `checks` reports why they cannot be
    followed)."""
    async with connection.transaction():
        await connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        tables = await _all(connection, _TABLES)
        columns = await _all(connection, _COLUMNS)
        types = _Types(
            await _load_types(connection, {type_oid for _, _, _, type_oid, _, _, _ in columns}),
            await load_collations(connection, {collation for _, _, _, _, collation, _, _ in columns}),
        )
        indexes = await _all(connection, _INDEXES)
        statistics = await _all(connection, _STATISTICS)
        path = await _all(connection, "SELECT pg_catalog.current_schemas(false)::text[]")
    shapes = {
        oid: _Shape(Table(qualified_name(schema, name), (), estimated_rows=rows), identity)
        for oid, schema, name, rows, identity, _ in tables
    }
    for oid, name, number, type_oid, collation, modifier, not_null in columns:
        shapes[oid].add_column(Column(name, types.of(type_oid, collation, modifier), not_null), number)
    for oid, numbers, key_count, primary, chosen, unique, whole, plain in indexes:
        shapes[oid].add_index(numbers[:key_count], unique and whole, plain and whole)
        shapes[oid].add_identity(numbers[:key_count], primary, chosen)
    for oid, number, distinct, nulls, most in statistics:
        shapes[oid].add_spread(number, distinct, nulls, most)
    finished = {oid: shape.finished() for oid, shape in shapes.items()}
    views = {
        finished[oid].name: UpstreamView(finished[oid].name, definition, finished[oid].columns)
        for oid, *_, definition in tables
        if definition is not None
    }
    found = {table.name: table for table in finished.values() if table.name not in views}
    return Catalog(found, tuple(path[0][0]), views, text=types.text)


async def load_types(connection: AsyncConnection, oids: Iterable[int]) -> dict[int, SqlType]:
    """Loads the types with these OIDs, as for columns without a collation."""
    oids = list(oids)
    types = _Types(await _load_types(connection, oids), {})
    return {oid: types.of(oid, 0) for oid in oids}


async def _load_types(connection: AsyncConnection, oids: Iterable[int]) -> dict[int, _TypeRow]:
    """Loads types, with those that they are made of."""
    rows: dict[int, _TypeRow] = {}
    seen, wanted = {0}, set(oids)
    while wanted := wanted - seen:
        seen |= wanted
        found = [_TypeRow(*row) for row in await _all(connection, _TYPES, {"oids": list(wanted)})]
        rows |= {row.oid: row for row in found}
        wanted = {oid for row in found for oid in (row.base, row.element)}
    return rows


async def load_layouts(
    connection: AsyncConnection,
    tables: Iterable[str],
    *,
    with_column_types: bool = False,
    publication: str | None = None,
) -> dict[str, TableLayout]:
    """Loads layouts of these tables for `PostgresStream`, by the names of `load_catalog`; missing tables are left out.

    Load them *before* taking the snapshot of `TableJoined`, and keep a followed table's layout object unchanged.
    `with_column_types`: for a connector's events, with the replica identity as their key. `publication`: the
    publication that carries them.
    """
    kinds = await load_kinds(connection) if with_column_types else None
    query = _LAYOUTS.format(schemas=_SCHEMAS if connection.info.server_version >= 150000 else "NULL")
    rows = await _all(connection, query, {"publication": publication, "tables": list(tables)})
    # A separate statement after the other: everything seen by the first one is older.
    since = await _all(connection, "SELECT pg_catalog.pg_current_wal_insert_lsn()::text")
    return {
        name: TableLayout(
            tuple(columns),
            oid,
            tuple(zip(types, modifiers, strict=True)),
            tuple(numbers),
            tuple(map(kinds.of, types, modifiers)) if kinds is not None else (),
            file_mark=file_mark,
            column_marks=tuple(column_marks),
            publication_mark=publication_mark,
            type_marks=tuple(type_marks),
            key=tuple(sorted(map(numbers.index, identity))) if kinds is not None else (),
            since=parse_lsn(since[0][0]),
            partitions=None if leaves is None else tuple(Partition(leaf, tuple(own)) for leaf, own in leaves),
        )
        for (
            name,
            oid,
            columns,
            numbers,
            types,
            modifiers,
            file_mark,
            column_marks,
            publication_mark,
            type_marks,
            identity,
            leaves,
        ) in rows
    }


async def _all(connection: AsyncConnection, query: str, parameters: Mapping[str, object] | None = None) -> list[tuple]:  # type: ignore[type-arg]
    return await (await connection.execute(query.encode(), parameters)).fetchall()


class _Shape:
    """Table under construction; columns are identified by ``attnum``, which has gaps."""

    def __init__(self, table: Table, identity: str) -> None:
        """`identity`: ``pg_class.relreplident``."""
        self.table = table
        self._identity_kind = identity
        self._identity: tuple[int, ...] | None = None if identity == _FULL_IDENTITY else ()
        self._columns: list[Column] = []
        self._ordinals: dict[int, int] = {}
        self._keys: list[tuple[int, ...]] = []
        self._indexes: list[tuple[int, ...]] = []
        self._spreads: dict[int, Spread] = {}

    def add_column(self, column: Column, number: int) -> None:
        self._ordinals[number] = len(self._columns)
        self._columns.append(column)

    def add_index(self, numbers: list[int], unique: bool, usable: bool) -> None:
        """Adds an index. `unique`: over all rows; `usable`: it supports equality searches of any row. Number 0 is an
        expression."""
        leading: list[int] = []
        for number in numbers:
            if number not in self._ordinals:
                break
            leading.append(self._ordinals[number])
        whole = len(leading) == len(numbers)
        if unique and whole and all(self._columns[i].not_null for i in leading) and tuple(leading) not in self._keys:
            self._keys.append(tuple(leading))
        if usable and leading:
            self._indexes.append(tuple(leading))

    def add_identity(self, numbers: list[int], primary: bool, chosen: bool) -> None:
        """Takes an index as the replica identity if it is. `chosen`: by ``REPLICA IDENTITY USING INDEX``."""
        if primary if self._identity_kind == _DEFAULT_IDENTITY else chosen and self._identity_kind == _INDEX_IDENTITY:
            self._identity = tuple(sorted(self._ordinals[number] for number in numbers))

    def add_spread(self, number: int, distinct: float, nulls: float, most: float | None) -> None:
        """Adds statistics of a column. `distinct`: number of values, or if negative their fraction of the rows;
        `nulls`, `most`: fractions of the rows."""
        rows = self.table.estimated_rows
        if rows <= 0:
            return  # Never analyzed, or emptied since (some or all partitions).
        mean = max(1.0, rows * (1 - nulls) / (distinct if distinct > 0 else -distinct * rows))
        self._spreads[self._ordinals[number]] = Spread(mean, max(mean, rows * (most or 0)))

    def finished(self) -> Table:
        return replace(
            self.table,
            columns=tuple(self._columns),
            keys=tuple(self._keys),
            indexes=tuple(self._indexes),
            spreads=self._spreads,
            identity=self._identity,
        )


class _Types:
    """`SqlType`s by OID and collation."""

    def __init__(self, rows: dict[int, _TypeRow], collations: dict[int, PostgresCollation]) -> None:
        self._rows = rows
        self._collations = collations
        self._made: dict[tuple[int, int, int], SqlType] = {}

    @property
    def text(self) -> SqlType:
        """Returns text of the database's default collation."""
        found = self._collations[DEFAULT_COLLATION]
        return SqlType("text", "text", collation=found.order, folding=found.folding)

    def of(self, oid: int, collation: int, modifier: int = -1) -> SqlType:
        """Returns the type of a column."""
        made = self._made.get((oid, collation, modifier))
        if made is None:
            made = self._made[oid, collation, modifier] = _limited(self._make(oid, collation), modifier)
        return made

    def _make(self, oid: int, collation: int) -> SqlType:
        row = self._rows.get(oid)
        if row is None:  # Made after the catalog's snapshot.
            return SqlType("unknown", "text", "other")
        if row.kind == "d":
            # A domain prints, compares and sorts as its base type; the upstream checks its constraints.
            return self.of(row.base, collation)
        written = self._written(row)
        if row.is_array and row.element:
            element = self.of(row.element, collation)
            kind = "array" if element.kind in ("base", "enum") else "other"
            return SqlType(element.name, f"{element.sql}[]", kind, element, collation=element.collation)
        if row.kind == "e":
            return SqlType(row.name, written, "enum", labels=tuple(row.labels or ()))
        known = row.schema == "pg_catalog" and row.name in OF_POSTGRES
        found = self._collations.get(collation, PostgresCollation())
        return SqlType(row.name, written, "base" if known else "other", collation=found.order, folding=found.folding)

    def _written(self, row: _TypeRow) -> str:
        """Returns the type's name for a cast. Some names are keywords for other types: "char", "bit"."""
        if row.schema != "pg_catalog":
            return qualified_name(row.schema, row.name)
        if row.name in OF_POSTGRES:
            return row.name
        return f'pg_catalog."{row.name}"'


def _limited(sql_type: SqlType, modifier: int) -> SqlType:
    """Returns the type with its length or scale, which determines how values print: numeric(10,2), char(4)."""
    number = modifier - _MODIFIER_BASE
    if number < 0 or sql_type.kind != "base":
        return sql_type
    if sql_type.is_string and not sql_type.is_text:
        return replace(sql_type, sql=f"bpchar({number})")
    if sql_type.is_decimal:
        # 11 bits, the highest of which is the sign.
        scale = ((number & 0x7FF) ^ 0x400) - 0x400
        return replace(sql_type, sql=f"numeric({number >> 16 & 0xFFFF},{scale})")
    return sql_type
