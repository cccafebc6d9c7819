"""Partitioned tables: their partitions, whether the stream carries the rows of all of them, and remedies.

*Theory*: a partitioned table has no rows; the log has those of the leaves of its partition tree (PostgreSQL manual,
5.12 "Table Partitioning"). A publication of the root publishes each leaf, also later ones, under its own name. With
``publish_via_partition_root`` a TRUNCATE of a leaf is not published, so such a publication is not followed.

*Invariants*: partitions are read at the statement's snapshot, as its queries see them: without those that are being
detached.

Not here: rows of partitions (`cdc.postgres.pgoutput`), ordinary tables (`checks`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from psycopg import AsyncConnection
from psycopg.rows import dict_row

from cdc.postgres.names import quote_identifier
from service.engine.upstream.identities import FULL
from service.engine.upstream.results import Finding

#: Rows of ``pg_class`` of the leaves of table c; none if it is not partitioned.
LEAVES = """(
    WITH RECURSIVE tree (oid) AS (
        SELECT c.oid
        UNION ALL
        SELECT i.inhrelid
        FROM tree t JOIN pg_catalog.pg_inherits i ON i.inhparent = t.oid AND NOT i.inhdetachpending
    )
    SELECT l.* FROM tree t JOIN pg_catalog.pg_class l ON l.oid = t.oid WHERE c.relkind = 'p' AND l.relkind <> 'p'
)"""
#: True if publication p publishes the leaves of the partitioned table c.
_PUBLISHED = """(p.puballtables OR EXISTS (
    SELECT FROM pg_catalog.pg_partition_ancestors(c.oid) a (oid) JOIN pg_catalog.pg_class h ON h.oid = a.oid
    WHERE EXISTS (SELECT FROM pg_catalog.pg_publication_rel r WHERE r.prpubid = p.oid AND r.prrelid = h.oid){schemas}
))"""
_SCHEMAS = """
          OR EXISTS (SELECT FROM pg_catalog.pg_publication_namespace s
                     WHERE s.pnpubid = p.oid AND s.pnnspid = h.relnamespace)"""
#: True if publication %(publication)s names leaf l itself, too, with a row filter or a column list.
_FILTERED = """EXISTS (
    SELECT FROM pg_catalog.pg_publication_rel r JOIN pg_catalog.pg_publication p ON p.oid = r.prpubid
    WHERE p.pubname = %(publication)s AND r.prrelid = l.oid AND (r.prqual IS NOT NULL OR r.prattrs IS NOT NULL))"""
_TABLES = """
SELECT w.name, p.oid IS NOT NULL AND {published} AS published, false AS filtered,
       coalesce(p.pubviaroot, false) AS via_root,
       NOT EXISTS (SELECT FROM {leaves} l WHERE l.relreplident <> 'f') AS full_identity,
       NOT (p.pubinsert AND p.pubupdate AND p.pubdelete AND p.pubtruncate) AS partly,
       ARRAY(SELECT a.attname::text FROM pg_catalog.pg_index i JOIN pg_catalog.pg_attribute a
             ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)
             WHERE i.indrelid = c.oid AND i.indisprimary AND i.indimmediate AND i.indisvalid) AS primary_key
FROM unnest(%(tables)s::text[]) AS w (name)
     JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(w.name) AND c.relkind = 'p'
     LEFT JOIN pg_catalog.pg_publication p ON p.pubname = %(publication)s
ORDER BY w.name
"""
#: Leaves whose rows, or whose old rows' primary keys, are not in the log, or not published whole. (None of a table with
#: a primary key is a foreign table.)
_PROBLEMS = """
SELECT w.name, pg_catalog.format('%%I.%%I', n.nspname, l.relname) AS leaf, l.relpersistence::text AS persistence,
       {filtered} AS filtered
FROM unnest(%(tables)s::text[]) AS w (name)
     JOIN pg_catalog.pg_class c ON c.oid = pg_catalog.to_regclass(w.name), LATERAL {leaves} AS l
     JOIN pg_catalog.pg_namespace n ON n.oid = l.relnamespace
WHERE l.relpersistence <> 'p' OR {filtered} OR l.relreplident = 'n' OR l.relreplident = 'i' AND NOT EXISTS (
    SELECT FROM pg_catalog.pg_index i JOIN pg_catalog.pg_index k ON k.indrelid = l.oid AND k.indisprimary
    WHERE i.indrelid = l.oid AND i.indisreplident AND i.indisvalid
      AND (k.indkey::int2[])[0:k.indnkeyatts - 1] <@ (i.indkey::int2[])[0:i.indnkeyatts - 1])
ORDER BY w.name, l.oid
"""


def published_sql(server_version: int) -> str:
    """Returns the condition that publication p publishes the leaves of the partitioned table c."""
    return _PUBLISHED.format(schemas=_SCHEMAS if server_version >= 150000 else "")


async def load_partitioned(
    connection: AsyncConnection, publication: str, tables: Iterable[str]
) -> dict[str, dict[str, Any]]:
    """Returns those of the tables that are partitioned, by name, with how they are published and their leaves'
    problems."""
    version = connection.info.server_version
    given = {"tables": list(tables), "publication": publication}
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(_TABLES.format(published=published_sql(version), leaves=LEAVES).encode(), given)
        found = {row["name"]: {**row, "problems": []} for row in await cursor.fetchall()}
        filtered = _FILTERED if version >= 150000 else "false"
        await cursor.execute(_PROBLEMS.format(filtered=filtered, leaves=LEAVES).encode(), given)
        for problem in await cursor.fetchall():
            found[problem["name"]]["problems"].append(problem)
    return found


def partition_findings(row: Mapping[str, Any], publication: str, *, whole_rows: bool) -> Iterator[Finding]:
    """Yields findings about a row of `load_partitioned`, but for its publication."""
    name = row["name"]
    if not row["primary_key"]:
        reason = (
            f"{name} is partitioned and has no primary key, or one that is DEFERRABLE: later partitions would have no "
            "replica identity, so a publication would make their updates and deletes fail."
        )
        yield Finding("not_streamed", reason, table=name)
    for problem in row["problems"]:
        yield _leaf_finding(problem, publication)
    if whole_rows and not row["full_identity"]:
        reason = f"The log lacks values of old rows of partitions of {name}."
        yield Finding("replica_identity", reason, FULL.statement(name, partitioned=True), name, fatal=False)


def _leaf_finding(row: Mapping[str, Any], publication: str) -> Finding:
    name, leaf = row["name"], row["leaf"]
    if row["persistence"] != "p":
        reason = f"{name} has the partition {leaf}, an unlogged or temporary table: its changes are not logged."
        return Finding("not_streamed", reason, f"ALTER TABLE {leaf} SET LOGGED;", name)
    if row["filtered"]:
        reason = f"{publication} publishes only some rows or columns of {leaf}, a partition of {name}."
        fix = f"ALTER PUBLICATION {quote_identifier(publication)} DROP TABLE {leaf};"
        return Finding("not_streamed", reason, fix, name)
    reason = f"The replica identity of {leaf}, a partition of {name}, lacks columns of the primary key."
    return Finding("replica_identity", reason, f"ALTER TABLE {leaf} REPLICA IDENTITY DEFAULT;", name)
