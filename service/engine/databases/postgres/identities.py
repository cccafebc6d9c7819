"""Replica identities that tables have and can have, with figures from the server's statistics.

PostgreSQL manual, "ALTER TABLE", REPLICA IDENTITY.

Not here: whether a table needs another one (`checks`, `service.command.identity_advice`).
"""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from cdc.postgres.names import quote_identifier
from service.engine.databases.postgres.partitions import LEAVES
from service.engine.upstream.identities import Identity, RowFigures, TableIdentity

#: One row for each index, or for a table without any.
_INDEXES = """
SELECT w.name, c.relreplident::text AS kind, c.relkind = 'p' AS partitioned,
       x.relname::text AS index, i.indisprimary AS is_primary,
       i.indisprimary AND NOT i.indimmediate AS deferrable, i.indisvalid AS valid, k.columns,
       i.indisunique AND i.indimmediate AND i.indisvalid AND i.indisready AND NOT i.indisexclusion
           AND i.indpred IS NULL AND i.indexprs IS NULL AND k.not_null AS usable
FROM unnest(%s::text[]) AS w (name) JOIN pg_class c ON c.oid = to_regclass(w.name)
     LEFT JOIN pg_index i ON i.indrelid = c.oid LEFT JOIN pg_class x ON x.oid = i.indexrelid
     LEFT JOIN LATERAL (
         SELECT array_agg(a.attname::text ORDER BY a.attnum) AS columns,
                bool_and(a.attnotnull AND NOT EXISTS (
                    SELECT FROM pg_constraint n WHERE n.conrelid = c.oid AND n.contype = 'n' AND NOT n.convalidated
                    AND n.conkey = ARRAY[a.attnum])) AS not_null
         FROM pg_attribute a
         WHERE a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
     ) AS k ON true
ORDER BY w.name, NOT i.indisprimary, i.indnkeyatts, x.relname
"""

#: A value stored out of line counts as its pointer in ``avg_width``; the rest of it is in the TOAST table.
_FIGURES = f"""
SELECT w.name, a.attname::text AS column, s.avg_width * (1 - s.null_frac) AS width,
       a.attstorage IN ('x', 'e') AND a.atttypmod < 0 AS unbounded,
       CASE WHEN c.reltoastrelid = 0 OR pg_relation_size(c.reltoastrelid) = 0 THEN 0
            WHEN c.reltuples > 0 THEN pg_relation_size(c.reltoastrelid) / c.reltuples END AS out_of_line,
       (SELECT coalesce(sum(pg_stat_get_tuples_updated(t.oid) + pg_stat_get_tuples_deleted(t.oid)), 0)::int8
        FROM (SELECT c.oid UNION ALL SELECT l.oid FROM {LEAVES} l) AS t (oid)) AS updates_and_deletes,
       extract(epoch FROM now() - (
           SELECT d.stats_reset FROM pg_stat_database d WHERE d.datname = current_database()))::float8 AS since_s
FROM unnest(%s::text[]) AS w (name) JOIN pg_class c ON c.oid = to_regclass(w.name)
     JOIN pg_namespace n ON n.oid = c.relnamespace
     JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
     LEFT JOIN pg_stats s ON s.schemaname = n.nspname AND s.tablename = c.relname AND s.attname = a.attname
                             AND s.inherited = (c.relkind = 'p')
ORDER BY w.name
"""


async def load_identities(connection: AsyncConnection, tables: Iterable[str]) -> dict[str, TableIdentity]:
    """Returns the identities of existing tables, by name; without figures."""
    found: dict[str, TableIdentity] = {}
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_INDEXES.encode(), [list(tables)])
        for row in await cursor.fetchall():
            known = found.get(row["name"], TableIdentity(row["kind"], False, ()))
            clause = "DEFAULT" if row["is_primary"] else f"USING INDEX {quote_identifier(row['index'] or '')}"
            usable = (Identity(clause, tuple(row["columns"])),) if row["usable"] else ()
            found[row["name"]] = TableIdentity(
                known.kind,
                known.deferrable or bool(row["deferrable"]),
                known.possible + usable,
                known.invalid | {row["index"]} if row["valid"] is False else known.invalid,
                partitioned=row["partitioned"],
            )
    return found


async def load_figures(connection: AsyncConnection, tables: Iterable[str]) -> dict[str, RowFigures]:
    """Returns figures of existing tables, by name."""
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_FIGURES.encode(), [list(tables)])
        rows = await cursor.fetchall()
    figures = {}
    for name, group in groupby(rows, itemgetter("name")):
        columns = list(group)
        figures[name] = RowFigures(
            {row["column"]: row["width"] for row in columns if row["width"] is not None},
            columns[0]["out_of_line"],
            frozenset(row["column"] for row in columns if row["unbounded"]),
            columns[0]["updates_and_deletes"],
            columns[0]["since_s"],
        )
    return figures
