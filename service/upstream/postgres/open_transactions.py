"""Open transactions that may have been committed already, although no snapshot sees them yet.

*Theory*: a commit is in the log, and so in the stream, before snapshots see it: until then its backend is within the
commit, perhaps waiting for a synchronous standby (PostgreSQL manual, 20.6.1), and its transaction counts as open. A
backend that waits for its client's next statement, for a lock, or for a page of a table is not within a commit, so what
its transaction commits is committed later. A prepared transaction may be within its commit only while somebody runs
COMMIT PREPARED.

*Invariants*: what is not said to be undecided had, when that was asked, either ended or not been committed. Needs the
rights of ``pg_read_all_stats``: others do not see what backends do.
"""

#: Ids (of 32 bits) of transactions that are open, and perhaps committed. One row with NULL: that cannot be known.
UNDECIDED = r"""
WITH backends AS (
    SELECT backend_xid AS id, NOT coalesce(
        state LIKE 'idle in transaction%' OR state = 'active' AND (
            wait_event_type IN ('Lock', 'Client', 'BufferPin')
            OR wait_event_type = 'IO' AND wait_event LIKE 'DataFile%'
            OR wait_event_type = 'Timeout' AND wait_event = 'PgSleep'), false) AS undecided,
        pid <> pg_catalog.pg_backend_pid() AND (
            state IN ('active', 'disabled') AND query ~* 'commit\s+prepared'
            OR state = 'disabled'
            OR backend_type LIKE 'logical replication%worker') AS commits_prepared
    FROM pg_catalog.pg_stat_activity)
SELECT NULL WHERE NOT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')
UNION ALL SELECT id::pg_catalog.text FROM backends WHERE id IS NOT NULL AND undecided
UNION ALL SELECT transaction::pg_catalog.text FROM pg_catalog.pg_prepared_xacts
    WHERE EXISTS (SELECT FROM backends WHERE commits_prepared)
"""
