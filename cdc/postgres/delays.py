"""The open transaction that delays the creation of a slot: a slot starts when all open transactions have ended."""

import asyncio

import psycopg
from psycopg import sql

from cdc.postgres.replication import connect

#: The oldest transaction with an id: its backend, or the name under which it is prepared.
_OLDEST = """
SELECT pid, gid, role, extract(epoch FROM now() - began)::int, statement FROM (
    SELECT pid, NULL AS gid, usename AS role, xact_start AS began,
           left(regexp_replace(query, '\\s+', ' ', 'g'), 100) AS statement
    FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL
    UNION ALL SELECT NULL, gid, owner, prepared, NULL FROM pg_catalog.pg_prepared_xacts) open
ORDER BY began LIMIT 1
"""


async def delay_reason(conninfo: str, timeout_s: float) -> str:
    """Return a sentence on the oldest open transaction."""
    try:
        async with asyncio.timeout(timeout_s), await connect(conninfo, timeout_s) as ordinary:
            oldest = await (await ordinary.execute(_OLDEST)).fetchone()
    except (psycopg.Error, TimeoutError):
        oldest = None
    if oldest is None:
        return "no open transaction is known that would delay it."
    pid, prepared, role, open_s, statement = oldest
    if prepared is not None:
        name = sql.Literal(prepared).as_string()
        who, end = f"prepared as {name} by {role},", f"COMMIT PREPARED {name}; or ROLLBACK PREPARED {name};"
    else:
        who = f"of process {pid} ({role}, last statement: {statement}),"
        end = f"SELECT pg_terminate_backend({pid});"
    return (
        f"it waits for transactions that were open before; the oldest, {who} has been open for {open_s} s. End it, "
        f"or run: {end}"
    )
