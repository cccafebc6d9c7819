"""Open transactions that may have been committed already, although no snapshot sees them yet.

*Theory*: a commit is in the log, and so in the stream, before snapshots see it: until then its backend is within the
commit, perhaps waiting for a synchronous standby (PostgreSQL manual, 20.6.1), and its transaction counts as open. A
backend that waits for its client's next statement, for a lock, or for a page of a table is not within a commit, so what
its transaction commits is committed later. A prepared transaction may be within its commit only while somebody runs
COMMIT PREPARED.

*Invariants*: what is not said to be undecided had, when that was asked, either ended or not been committed. Needs the
rights of ``pg_read_all_stats``: others do not see what backends do.
"""

#: Ids (of 32 bits) of transactions that are open, and perhaps committed. One row with NULL: that cannot be known. Of
#: other processes than clients' backends the state means what they say: a worker of logical replication commits while
#: it is "idle in transaction". A statement may be shown in part only, and have comments between its words. ClientRead:
#: a backend may warn a client that does not read within its commit.
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
