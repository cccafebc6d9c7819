"""Replica identities at a snapshot, for proofs that a connector's events have them (`cdc.debezium.identity_proofs`).

A statement that alters a table's identity writes the row of ``pg_class`` or rows of ``pg_index``, which have another
``xmin`` then (PostgreSQL manual, "ALTER TABLE", 5.6 "System Columns").
"""

from collections.abc import Sequence

import structlog

from cdc.debezium.identity_proofs import Identities, ReplicaIdentity
from cdc.postgres.position import PostgresSnapshot
from service.engine.databases.postgres.catalog import IDENTITY
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.upstream.results import UpstreamError

log = structlog.get_logger()

#: Both the snapshot and the catalog's rows are those of the statement.
_IDENTITIES = f"""
SELECT pg_catalog.pg_current_snapshot()::text, c.oid::int8,
       pg_catalog.concat_ws(' ', c.xmin, c.relreplident,
           (SELECT pg_catalog.string_agg(pg_catalog.concat_ws('/', i.indexrelid, i.xmin), ' ' ORDER BY i.indexrelid)
            FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid)),
       {IDENTITY}
FROM (SELECT) AS always LEFT JOIN pg_catalog.pg_class c ON c.oid = ANY (%s::oid[])
"""


async def read_identities(pool: PostgresPool, tables: Sequence[int]) -> Identities | None:
    """Reads the identities of tables, by OID; None if the database cannot be asked."""
    try:
        async with pool.connection() as connection:
            rows = await (await connection.execute(_IDENTITIES.encode(), (list(tables),))).fetchall()
    except UpstreamError as error:
        log.warning("replica identities cannot be read; keys of changed tables are evicted", reason=error.detail)
        return None
    found = {oid: ReplicaIdentity(mark, frozenset(columns)) for _, oid, mark, columns in rows if oid is not None}
    return Identities(PostgresSnapshot.parse(rows[0][0]), found)
