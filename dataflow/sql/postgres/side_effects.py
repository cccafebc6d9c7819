"""Functions of PostgreSQL that no view may call: they change what a rollback does not take back, take locks, or wait.

Those that run a SQL text given to them could do any of it (PostgreSQL manual, 9.27 and 9.28, and the contrib modules').

Not here: functions that only the server knows to be volatile (`service.engine.databases.postgres.volatility`).
"""

_NAMES = frozenset(
    {
        "nextval",
        "setval",
        "set_config",
        "setseed",
        "txid_current",
        "pg_current_xact_id",
        "pg_notify",
        "pg_promote",
        "pg_terminate_backend",
        "pg_cancel_backend",
        "pg_reload_conf",
        "pg_switch_wal",
        "pg_export_snapshot",
        "pg_prewarm",
        "pg_start_backup",
        "pg_stop_backup",
        "pg_stat_statements_reset",
        "lowrite",
        "gin_clean_pending_list",
        "ts_stat",
        "ts_rewrite",
        "xpath_table",
    }
)
#: Beginnings of names.
_FAMILIES = (
    "pg_sleep",
    "pg_advisory_",
    "pg_try_advisory_",
    "pg_rotate_logfile",
    "pg_create_",
    "pg_drop_",
    "pg_logical_",
    "pg_replication_",
    "pg_copy_",
    "pg_wal_replay_",
    "pg_backup_",
    "pg_stat_reset",
    "pg_stat_force",
    "pg_stat_clear",
    "pg_import_",
    "pg_log_",
    "pg_file_",
    "pg_restore_",
    "pg_clear_",
    "lo_",
    "dblink",
    "brin_summarize",
    "brin_desummarize",
    "query_to_xml",
    "table_to_xml",
    "schema_to_xml",
    "database_to_xml",
    "cursor_to_xml",
    "crosstab",
    "connectby",
    "binary_upgrade_",
)
_HARMLESS = frozenset({"lo_get"})


def has_side_effects(function: str) -> bool:
    """Return whether calling the function, given in lower case, does more than read."""
    return function in _NAMES or (function.startswith(_FAMILIES) and function not in _HARMLESS)
