"""Requirements on a PostgreSQL server and its tables; each finding has a remedy.

Not here: the remedies (`publication`, the user); conditions noticed by the stream (`cdc.postgres.pgoutput`).
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from typing import Any

import psycopg
from psycopg import AsyncConnection
from psycopg.rows import dict_row

from cdc.change import FORMER_COLUMN, SchemaNotice, TableLayout
from cdc.postgres.names import quote_identifier
from cdc.postgres.relations import identity_reason, same_type
from dataflow.schema import Catalog, Table
from service.engine.databases.postgres.catalog import load_catalog, load_layouts
from service.engine.databases.postgres.identities import load_identities
from service.engine.databases.postgres.partitions import load_partitioned, partition_findings
from service.engine.databases.postgres.publication import create_statement
from service.engine.upstream.clock_check import check_clock
from service.engine.upstream.constraints import broken
from service.engine.upstream.identities import FULL, TableIdentity
from service.engine.upstream.results import Finding, UpstreamError

OLDEST_VERSION = 140000


_SERVER = """
SELECT current_setting('wal_level') AS wal_level, pg_is_in_recovery() AS standby, current_user::text AS role,
       current_setting('server_encoding') AS encoding, current_setting('synchronous_standby_names') AS standbys,
       (SELECT rolsuper OR rolreplication FROM pg_roles WHERE rolname = current_user)
           OR EXISTS (SELECT FROM pg_roles WHERE rolname = 'rds_replication' AND pg_has_role(oid, 'MEMBER'))
           AS replicates,
       (SELECT count(*) FROM pg_replication_slots) >= current_setting('max_replication_slots')::int AS slots_used_up,
       has_database_privilege(current_database(), 'CREATE') AS creates, current_database()::text AS database,
       (SELECT bool_or(has_function_privilege(oid, 'EXECUTE')) FROM pg_proc
        WHERE proname = 'pg_logical_emit_message') AS pushes,
       pg_has_role('pg_read_all_stats', 'USAGE') AS sees_backends
"""

_CLOCK = "SELECT extract(epoch FROM clock_timestamp()) AS seconds"

_KERBEROS = "SELECT encrypted FROM pg_catalog.pg_stat_gssapi WHERE pid = pg_catalog.pg_backend_pid() AND encrypted"

_STREAMS = """
SELECT current_setting('max_replication_slots')::int - (SELECT count(*) FROM pg_replication_slots)::int
           AS max_replication_slots,
       current_setting('max_wal_senders')::int - (SELECT count(*) FROM pg_stat_replication)::int AS max_wal_senders
"""

_PUBLICATION = """
SELECT puballtables, pubinsert AND pubupdate AND pubdelete AND pubtruncate AS all_operations
FROM pg_catalog.pg_publication WHERE pubname = %s
"""

_TABLES = """
SELECT w.name, c.oid IS NOT NULL AS found, c.relkind::text AS kind, c.relpersistence::text AS persistence,
       c.relreplident = 'f' AS full_identity,
       ARRAY(SELECT a.attname::text FROM pg_index i JOIN pg_attribute a
             ON a.attrelid = c.oid AND a.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])
             WHERE i.indrelid = c.oid AND i.indisvalid AND CASE c.relreplident
                 WHEN 'd' THEN i.indisprimary AND i.indimmediate WHEN 'i' THEN i.indisreplident ELSE false END
             ORDER BY a.attnum) AS identity,
       row_security_active(c.oid) AS row_security,
       EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = c.oid) AS has_children,
       has_table_privilege(c.oid, 'SELECT') AS readable,
       ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
             AND NOT a.attisdropped AND a.attgenerated = 's' ORDER BY a.attnum) AS stored,
       ARRAY(SELECT a.attname::text FROM pg_attribute a WHERE a.attrelid = c.oid AND a.attnum > 0
             AND NOT a.attisdropped AND a.attgenerated NOT IN ('', 's') ORDER BY a.attnum) AS virtual
FROM unnest(%s::text[]) AS w (name) LEFT JOIN pg_class c ON c.oid = to_regclass(w.name)
ORDER BY w.name
"""

#: With row filters or column lists (PostgreSQL 15), the stream carries only part of the table.
_PUBLISHED = """
SELECT w.name, p.pubname IS NOT NULL AS published, {filtered} AS filtered, {root} AS via_root,
       EXISTS (SELECT FROM pg_publication o WHERE o.pubname = p.pubname
               AND NOT (o.pubinsert AND o.pubupdate AND o.pubdelete AND o.pubtruncate)) AS partly
FROM unnest(%s::text[]) AS w (name)
     LEFT JOIN pg_publication_tables p
     ON p.pubname = %s AND to_regclass(format('%%I.%%I', p.schemaname, p.tablename)) = to_regclass(w.name)
"""

_KINDS = {
    "v": "a view",
    "m": "a materialized view",
    "f": "a foreign table",
    "p": "a partitioned table, whose partitions have topics of their own",
    "S": "a sequence",
    "c": "a composite type",
    "i": "an index",
}


async def check_server(connection: AsyncConnection, publication: str) -> list[Finding]:
    """Returns findings about the server, database and role: wal_level, slots, replication right, the publication's
    options."""
    server = (await _rows(connection, _SERVER))[0]
    published = await _rows(connection, _PUBLICATION, publication)
    findings = list(_server_findings(server, connection.info.server_version))
    findings += _publication_findings(server, published, publication, connection.info.server_version)
    findings += await check_clock(partial(_clock_s, connection))
    return findings


async def _clock_s(connection: AsyncConnection) -> float:
    return float((await _rows(connection, _CLOCK))[0]["seconds"])


async def encrypted_by_kerberos(connection: AsyncConnection) -> bool:
    """True if the server's end of this connection is encrypted by GSSAPI."""
    return bool(await _rows(connection, _KERBEROS))


def _server_findings(server: Mapping[str, Any], version: int) -> Iterator[Finding]:
    role = quote_identifier(server["role"])
    arguments = "boolean, text, text, boolean" if version >= 170000 else "boolean, text, text"
    if version < OLDEST_VERSION:
        yield Finding("version", f"PostgreSQL {version // 10000} is not supported; the oldest supported version is 14.")
    if server["wal_level"] != "logical":
        yield Finding(
            "wal_level",
            f"wal_level is {server['wal_level']}: the log does not contain row changes.",
            "ALTER SYSTEM SET wal_level = 'logical'; -- and restart PostgreSQL",
        )
    if server["standby"]:
        yield Finding(
            "standby",
            "The upstream is a standby, whose snapshots do not identify visible transactions. Use the primary.",
        )
    if server["encoding"] == "SQL_ASCII":
        yield Finding("encoding", "The database's encoding is SQL_ASCII, so the encoding of its texts is unknown.")
    if not server["replicates"]:
        yield Finding(
            "replication_role",
            f"The role {role} lacks the REPLICATION right.",
            f"ALTER ROLE {role} REPLICATION; -- as a superuser",
        )
    if server["slots_used_up"]:
        yield Finding(
            "replication_slots",
            "All replication slots are in use.",
            "ALTER SYSTEM SET max_replication_slots = 20; -- and restart PostgreSQL",
        )
    if not server["pushes"]:
        yield Finding(
            "push",
            f"The role {role} lacks the right to write logical messages; versions of commits with synchronous_commit "
            "= off may be waited for until the server flushes them by itself.",
            f"GRANT EXECUTE ON FUNCTION pg_logical_emit_message({arguments}) TO {role};",
            fatal=False,
        )
    if not server["sees_backends"]:
        yield Finding(
            "backends",
            f"The role {role} lacks the right to see other sessions' activity; misses may be refused while a "
            "transaction is left open and the stream cannot begin.",
            f"GRANT pg_read_all_stats TO {role};",
            fatal=False,
        )
    if "*" in server["standbys"]:
        yield Finding(
            "synchronous_standby_names",
            "synchronous_standby_names = '*' makes the change stream a synchronous standby: commits would wait for it.",
            "Name the standbys in synchronous_standby_names.",
            fatal=False,
        )


def _publication_findings(
    server: Mapping[str, Any], published: list[dict[str, Any]], publication: str, version: int
) -> Iterator[Finding]:
    if not published and not server["creates"]:
        yield Finding(
            "publication",
            f"The publication {publication} does not exist, and the role lacks the right to create it.",
            f"{create_statement(publication, (), version)} -- or GRANT CREATE ON DATABASE "
            f"{quote_identifier(server['database'])} TO {quote_identifier(server['role'])};",
        )
    if published and not published[0]["all_operations"]:
        yield Finding(
            "publication",
            f"The publication {publication} omits some operations.",
            f"ALTER PUBLICATION {quote_identifier(publication)} SET (publish = 'insert, update, delete, truncate');",
        )


async def check_streams(connection: AsyncConnection, streams: int) -> list[Finding]:
    """Returns findings if fewer change streams can begin than needed: each uses a slot and a WAL sender."""
    free = (await _rows(connection, _STREAMS))[0]
    return [
        Finding(
            "replication_slots",
            f"{streams} shards need a replication slot and a WAL sender each; {max(0, left)} of {setting} are free.",
            f"ALTER SYSTEM SET {setting} = {10 + streams}; -- and restart PostgreSQL",
            fatal=False,
        )
        for setting, left in free.items()
        if left < streams
    ]


async def check_tables(
    connection: AsyncConnection,
    publication: str,
    tables: Iterable[str],
    *,
    whole_rows: bool = False,
    captured: bool = False,
) -> list[Finding]:
    """Returns findings about tables to be read by views: kind, replica identity, row-level security, rights,
    publication.

    A table missing from the publication is a warning; `ensure_published` adds it. `whole_rows`: no replica identity
    but FULL suffices. `captured`: a connector reads the stream, which has only FULL.
    """
    wanted = list(tables)
    filters = connection.info.server_version >= 150000
    published = _PUBLISHED.format(
        filtered="p.rowfilter IS NOT NULL OR (SELECT pg.prattrs IS NOT NULL FROM pg_publication_rel pg JOIN"
        " pg_publication o ON o.oid = pg.prpubid WHERE o.pubname = p.pubname AND pg.prrelid = to_regclass(w.name))"
        if filters
        else "false",
        root="EXISTS (SELECT FROM pg_publication o JOIN pg_class c ON c.oid = to_regclass(w.name)"
        " WHERE o.pubname = %s AND o.pubviaroot AND c.relispartition)",
    )
    by_name = {row["name"]: row for row in await _rows(connection, published, publication, wanted, publication)}
    stored = await _publishes_stored(connection, publication)
    findings: list[Finding] = []
    whole_rows = whole_rows or captured
    rows = await _rows(connection, _TABLES, wanted)
    kinds = {row["kind"] for row in rows}
    partitioned = await load_partitioned(connection, publication, wanted) if "p" in kinds and not captured else {}
    without = [row["name"] for row in rows if row["found"] and not row["full_identity"] and not row["identity"]]
    identities = await load_identities(connection, without) if without else {}
    for row in rows:
        root = partitioned.get(row["name"])
        if root is None:
            findings += _table_findings(row, stored, identities, whole_rows)
        else:
            findings += _row_findings(row, stored)
            findings += partition_findings(root, publication, whole_rows=whole_rows)
        findings += _published_findings(root or by_name[row["name"]], publication)
    return findings


def _table_findings(
    row: Mapping[str, Any], stored_published: bool, identities: Mapping[str, TableIdentity], whole_rows: bool
) -> Iterator[Finding]:
    """`identities`: of tables without one."""
    name = row["name"]
    if not row["found"]:
        yield Finding("missing", f"There is no table {name}.", table=name)
        return
    reason = _why_not_ordinary(row)
    if reason is not None:
        yield Finding("not_streamed", f"{name} {reason[0]}.", reason[1], name)
        return
    of_rows = list(_row_findings(row, stored_published))
    yield from of_rows
    if any(finding.code == "not_streamed" for finding in of_rows):
        return
    if not row["full_identity"] and not row["identity"]:
        found = identities.get(name, TableIdentity("d", False, ()))
        least = FULL if whole_rows else found.least()
        text = identity_reason(name, found.kind, deferrable=found.deferrable)
        yield Finding("replica_identity", text, least.statement(name), name)
    elif not row["full_identity"] and whole_rows:
        text = f"The replica identity of {name} is ({', '.join(row['identity'])}): the log lacks values of old rows."
        yield Finding("replica_identity", text, FULL.statement(name), name, fatal=False)


def _row_findings(row: Mapping[str, Any], stored_published: bool) -> Iterator[Finding]:
    """Yields findings about rows and columns of a table, partitioned or not."""
    name = row["name"]
    reason = _why_not_streamed(row, stored_published)
    if reason is not None:
        yield Finding("not_streamed", f"{name} {reason[0]}.", reason[1], name)
    elif not row["readable"]:
        yield Finding(
            "rights", f"The role lacks the right to read {name}.", f"GRANT SELECT ON {name} TO CURRENT_USER;", name
        )


def _why_not_ordinary(row: Mapping[str, Any]) -> tuple[str, str | None] | None:
    """Returns why the table's rows are not in the log under its name (the end of a sentence), and the remedy."""
    name = row["name"]
    if row["kind"] != "r":
        return f"is {_KINDS.get(row['kind'], 'no ordinary table')}: the change stream does not carry its rows", None
    if row["persistence"] != "p":
        return "is an unlogged or temporary table: its changes are not logged", f"ALTER TABLE {name} SET LOGGED;"
    if row["has_children"]:
        return "has child tables, whose rows its queries return but the stream does not", None
    return None


def _why_not_streamed(row: Mapping[str, Any], stored_published: bool) -> tuple[str, str | None] | None:
    """Returns why the change stream does not carry a table's rows as its queries return them (the end of a sentence),
    and the remedy."""
    if row["row_security"]:
        return "has row-level security that hides rows from this role but not from the change stream", (
            "Use a role with BYPASSRLS."
        )
    if row["virtual"]:
        return f"has virtual generated columns ({', '.join(row['virtual'])}), which the stream does not carry", None
    if row["stored"] and not stored_published:
        return f"has generated columns ({', '.join(row['stored'])}) that its publication does not carry", (
            "From PostgreSQL 18 on: ALTER PUBLICATION … SET (publish_generated_columns = stored);"
        )
    return None


def _published_findings(row: Mapping[str, Any], publication: str) -> Iterator[Finding]:
    name, written = row["name"], quote_identifier(publication)
    if row["via_root"]:
        fix = f"ALTER PUBLICATION {written} SET (publish_via_partition_root = false);"
        reason = f"{publication} publishes partitions as their root, and then not their TRUNCATE: {name}."
        yield Finding("not_streamed", reason, fix, name)
    elif not row["published"]:
        fix = f"ALTER PUBLICATION {written} ADD TABLE {name};"
        yield Finding("publication", f"{name} is not in the publication {publication} yet.", fix, name, fatal=False)
    elif row["partly"]:
        fix = f"ALTER PUBLICATION {written} SET (publish = 'insert, update, delete, truncate');"
        yield Finding("not_streamed", f"{publication} omits some operations on {name}.", fix, name)
    elif row["filtered"]:
        fix = f"ALTER PUBLICATION {written} DROP TABLE {name}; ALTER PUBLICATION {written} ADD TABLE {name};"
        yield Finding("not_streamed", f"{publication} publishes only some rows or columns of {name}.", fix, name)


async def _publishes_stored(connection: AsyncConnection, publication: str) -> bool:
    """True if stored generated columns will be in the stream. (A publication created here carries them.)"""
    if connection.info.server_version < 180000:
        return False
    rows = await _rows(
        connection, "SELECT pubgencols = 's' AS stored FROM pg_publication WHERE pubname = %s", publication
    )
    return not rows or bool(rows[0]["stored"])


async def check_schema(
    connection: AsyncConnection,
    layouts: Mapping[str, TableLayout],
    publication: str | None = None,
    tables: Mapping[str, Table] | None = None,
    fresh: Catalog | None = None,
    *,
    published: bool = True,
) -> list[SchemaNotice]:
    """Yields the followed tables that no longer match their layouts, by the catalog: the stream does not report a DROP.

    With `publication`, also tables removed from it, or that no longer meet its requirements: newer servers stream on
    silently. With `tables`, the definitions assumed by plans, also those that lost a property: a key, a NOT NULL, an
    enum's labels, a collation. `fresh`: the catalog, if just loaded. Not `published`: the publication belongs to
    another program.
    """
    lost = {"not_streamed", "replica_identity"} | ({"publication"} if published else set())
    found = await load_layouts(connection, layouts, publication=publication if published else None)
    notices = [notice for name, layout in layouts.items() for notice in _compare(name, layout, found.get(name))]
    if publication is not None and found:
        notices += [
            SchemaNotice(
                finding.table, finding.reason if finding.fix is None else f"{finding.reason} Run: {finding.fix}"
            )
            for finding in await check_tables(connection, publication, found, captured=not published)
            if finding.table is not None and finding.code in lost and (finding.fatal or finding.code == "publication")
        ]
    ill = {notice.table for notice in notices}
    notices += [notice for notice in _republished(layouts, found) if notice.table not in ill]
    if tables is not None and found:
        now = (fresh or await load_catalog(connection)).tables
        notices += [n for name in found if name in tables and name in now for n in broken(tables[name], now[name])]
    return notices


def _republished(layouts: Mapping[str, TableLayout], found: Mapping[str, TableLayout]) -> Iterator[SchemaNotice]:
    """Yields tables for which the stream may have been incomplete for a while, although all properties are restored."""
    for name, layout in layouts.items():
        if name in found and layout.publication_mark not in ("", found[name].publication_mark):
            yield SchemaNotice(
                name, f"The publication or the partitions of {name} have changed; changes may be missing."
            )


def _compare(name: str, layout: TableLayout, found: TableLayout | None) -> Iterator[SchemaNotice]:
    if found is None:
        yield SchemaNotice(name, f"{name} was dropped or renamed.")
    elif found.table_id != layout.table_id:
        yield SchemaNotice(name, f"{name} was dropped and created again.")
    else:
        there = {
            column: (number, kind)
            for column, number, kind in zip(found.columns, found.column_ids, found.type_ids, strict=True)
        }
        wanted = zip(layout.columns, layout.column_ids, layout.type_ids, strict=True)
        changed = tuple(
            column
            for column, number, kind in wanted
            if column not in there or there[column][0] != number or not same_type(kind, there[column][1])
        )
        changed += _remarked(layout.columns, layout.type_marks, found.columns, found.type_marks)
        if found.file_mark != layout.file_mark:
            changed += _remarked(layout.columns, layout.column_marks, found.columns, found.column_marks)
        changed = tuple(column for column in dict.fromkeys(changed) if not column.startswith(FORMER_COLUMN))
        if _partition_ids(found) != _partition_ids(layout):
            yield SchemaNotice(name, f"Partitions of {name} were created, attached, detached or dropped.")
        elif changed:
            listed = ", ".join(changed)
            yield SchemaNotice(name, f"Columns of {name} were dropped, renamed or altered: {listed}.", changed)


def _partition_ids(layout: TableLayout) -> set[int] | None:
    return None if layout.partitions is None else {partition.table_id for partition in layout.partitions}


def _remarked(
    columns: tuple[str, ...], marks: tuple[str, ...], columns_now: tuple[str, ...], marks_now: tuple[str, ...]
) -> tuple[str, ...]:
    """Returns the columns whose mark has changed or that are missing."""
    now = dict(zip(columns_now, marks_now, strict=True))
    return tuple(column for column, mark in zip(columns, marks, strict=False) if now.get(column) != mark)


async def repair_identity(connection: AsyncConnection, finding: Finding) -> None:
    """Runs the remedy of a finding ``replica_identity``. Raises UpstreamError."""
    assert finding.fix is not None
    try:
        await connection.execute(finding.fix.encode())
    except psycopg.errors.InsufficientPrivilege:
        raise UpstreamError(
            "denied", f"The role does not own {finding.table}.", f"Its owner must run: {finding.fix}"
        ) from None


async def _rows(connection: AsyncConnection, query: str, *parameters: object) -> list[dict[str, Any]]:
    async with connection.cursor(row_factory=dict_row) as cursor:
        await cursor.execute(query.encode(), parameters or None)
        return await cursor.fetchall()
