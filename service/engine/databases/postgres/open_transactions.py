"""Query for open transactions that may have committed, although no snapshot sees them yet.

*Theory*: a commit is in the log, and so in the stream, before snapshots see it. Until then its backend is within the
commit, perhaps waiting for a synchronous standby (PostgreSQL manual, 20.6.1), and its transaction counts as open. A
backend that waits for its client's next statement, for a lock, or for a page of a table is not within a commit, so its
transaction commits later. A prepared transaction may be within its commit only while a session runs COMMIT PREPARED.

*Invariants*: a transaction not returned had either ended at the time of the query or not committed. Requires the rights
of ``pg_read_all_stats``, to see other backends.
"""

#: Ids (of 32 bits) of open transactions that may have committed. One row with NULL: unknown. For processes other than
#: client backends the state is not conclusive: a logical replication worker commits while "idle in transaction". The
#: statement's text may be truncated, and contain comments between its words. ClientRead: within its commit, a backend
#: may send a warning to a client that does not read.
UNDECIDED = r"""/* upquery: open transactions */
WITH backends AS (
    SELECT backend_xid AS id, NOT coalesce(backend_type = 'client backend' AND (
        state LIKE 'idle in transaction%' OR state = 'active' AND (
            wait_event_type IN ('Lock', 'BufferPin') OR wait_event_type = 'Client' AND wait_event = 'ClientRead'
            OR wait_event_type = 'IO' AND wait_event LIKE 'DataFile%'
            OR wait_event_type = 'Timeout' AND wait_event = 'PgSleep')), false) AS undecided,
        query NOT LIKE '/* upquery: open transactions */%' AND (
            state = 'active' AND (query ~* 'prepared' OR octet_length(query)
                >= pg_catalog.pg_size_bytes(pg_catalog.current_setting('track_activity_query_size')) - 4)
            OR state = 'disabled'
            OR backend_type LIKE 'logical replication%worker') AS commits_prepared
    FROM pg_catalog.pg_stat_activity)
SELECT NULL WHERE NOT pg_catalog.pg_has_role('pg_read_all_stats', 'USAGE')
UNION ALL SELECT id::pg_catalog.text FROM backends WHERE id IS NOT NULL AND undecided
UNION ALL SELECT transaction::pg_catalog.text FROM pg_catalog.pg_prepared_xacts
    WHERE EXISTS (SELECT FROM backends WHERE commits_prepared)
"""
