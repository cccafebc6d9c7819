"""Functions of MariaDB and MySQL that no view may call: they change something, take locks, wait, or read files."""

_NAMES = frozenset(
    {
        "benchmark",
        "get_lock",
        "release_lock",
        "release_all_locks",
        "is_free_lock",
        "is_used_lock",
        "sleep",
        "nextval",
        "lastval",
        "setval",
        "last_insert_id",
        "load_file",
        "master_pos_wait",
        "source_pos_wait",
        "master_gtid_wait",
        "wait_for_executed_gtid_set",
        "wait_until_sql_thread_after_gtids",
        "asynchronous_connection_failover_add_source",
        "asynchronous_connection_failover_delete_source",
        "kdf",
    }
)


def has_side_effects(function: str) -> bool:
    """Return whether calling the function, given in lower case, does more than read."""
    return function in _NAMES
