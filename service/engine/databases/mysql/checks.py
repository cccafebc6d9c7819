"""Requirements on a MariaDB or MySQL server and its tables; each finding has a remedy.

Not here: changes since a table was loaded (`changes`); conditions noticed by the stream (`cdc.mysql`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from cdc.change import TableLayout
from cdc.mysql.names import qualified_name, quote_name
from cdc.mysql.values import undecodable
from service.engine.databases.mysql.catalog import load_layouts
from service.engine.databases.mysql.connect import Flavour
from service.engine.databases.mysql.foreign_keys import ForeignKey, Named, leading_to, load_foreign_keys
from service.engine.databases.mysql.sql_text import named, quoted, unqualified
from service.engine.databases.mysql.wire import ServerReply, Wire
from service.engine.upstream.clock_check import check_clock
from service.engine.upstream.results import Finding

OLDEST = {"mariadb": (10, 5), "mysql": (8, 0)}
_NAMES = {"mariadb": "MariaDB", "mysql": "MySQL"}
_VARIABLES = (
    "log_bin",
    "binlog_format",
    "binlog_row_image",
    "binlog_row_metadata",
    "binlog_row_value_options",
    "server_id",
    "log_slave_updates",
    "log_replica_updates",
    "gtid_mode",
)
#: Global rights needed to read the log, each with rights that imply it.
_RIGHTS = {
    "REPLICATION SLAVE": frozenset({"SUPER", "ALL PRIVILEGES"}),
    "BINLOG MONITOR": frozenset({"SUPER", "REPLICATION CLIENT", "ALL PRIVILEGES"}),
}
_USER = "SELECT CURRENT_USER()"
_CLOCK = "SELECT UNIX_TIMESTAMP(SYSDATE(6))"
#: Rights on everything in a line of SHOW GRANTS.
_GLOBAL_GRANT = re.compile(r"GRANT (.+) ON \*\.\* TO ", re.IGNORECASE)
_TABLES = """
SELECT table_schema, table_name, table_type, engine
FROM information_schema.tables WHERE {}
"""
_INVISIBLE = """
SELECT DISTINCT table_schema, table_name
FROM information_schema.columns WHERE {} AND extra LIKE '%INVISIBLE%'
"""
_KINDS = {
    "VIEW": "is a view: the change stream does not carry its rows",
    "SEQUENCE": "is a sequence: the change stream does not carry its values",
    "SYSTEM VERSIONED": "is system-versioned: the change stream carries history rows that queries do not return",
    "SYSTEM VIEW": "is a system table: the change stream does not carry it",
    "TEMPORARY": "is a temporary table: the change stream does not carry its rows",
}


# --- the server -----------------------------------------------------------------------------------------------------


async def check_server(wire: Wire, flavour: Flavour) -> list[Finding]:
    """Returns findings about the server and the role: contents of the log, and rights to read it."""
    listed = ", ".join(map(quoted, _VARIABLES))
    found, user, *_ = await wire.query_all([f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})", _USER])
    variables = {str(name).lower(): str(value) for name, value in found.rows}
    findings = list(_server_findings(variables, flavour))
    findings += await _role_findings(wire, _account(user))
    findings += await _replica_findings(wire, flavour, variables)
    findings += await check_clock(partial(_clock_s, wire))
    return findings


async def _clock_s(wire: Wire) -> float:
    (reply,) = await wire.query_all([_CLOCK])
    ((seconds,),) = reply.rows
    return float(str(seconds))


def _server_findings(variables: Mapping[str, str], flavour: Flavour) -> Iterator[Finding]:
    oldest = OLDEST[flavour.dialect]
    if flavour.version < oldest:
        name, number = _NAMES[flavour.dialect], ".".join(map(str, oldest))
        running = ".".join(map(str, flavour.version))
        yield Finding("version", f"{name} {running} is not supported; the oldest supported version is {number}.")
    if variables.get("log_bin", "OFF").upper() not in ("ON", "1"):
        yield Finding(
            "log_bin",
            "The server writes no binary log.",
            "Set log_bin = ON and server_id = 1 in the server's configuration, and restart it.",
        )
        return
    if variables.get("binlog_format", "ROW").upper() != "ROW":
        yield Finding(
            "binlog_format",
            f"binlog_format is {variables['binlog_format']}: the log does not contain row changes.",
            "SET GLOBAL binlog_format = 'ROW'; -- and in the configuration; open connections keep the old value",
        )
    if variables.get("binlog_row_image", "FULL").upper() in ("MINIMAL", "NOBLOB"):
        yield Finding(
            "row_image",
            f"binlog_row_image is {variables['binlog_row_image']}: the log does not contain whole old and new rows. "
            "Views that need others than the primary key materialize rows to find them.",
            "SET GLOBAL binlog_row_image = 'FULL'; -- and in the configuration; open connections keep the old value",
            fatal=False,
        )
    if variables.get("binlog_row_value_options"):
        yield Finding(
            "row_image",
            "binlog_row_value_options is set: the log may contain only parts of JSON values. A transaction with one "
            "evicts all results that depend on its table.",
            "SET GLOBAL binlog_row_value_options = ''; -- and in the configuration",
            fatal=False,
        )
    if variables.get("server_id") == "0":
        yield Finding(
            "server_id", "server_id is 0: the server refuses readers of its log.", "SET GLOBAL server_id = 1;"
        )
    if variables.get("binlog_row_metadata", "").upper() != "FULL":
        yield Finding(
            "binlog_row_metadata",
            "binlog_row_metadata is not FULL: the log does not name columns, so a column "
            "renamed or moved is noticed by the ALTER TABLE only.",
            "SET GLOBAL binlog_row_metadata = 'FULL'; -- and in the configuration",
            fatal=False,
        )
    if flavour.dialect == "mysql" and variables.get("gtid_mode", "").upper() != "ON":
        yield Finding(
            "gtid_mode",
            "gtid_mode is not ON: the transactions visible to a lookup cannot be determined.",
            "Set gtid_mode = ON and enforce_gtid_consistency = ON in the server's configuration.",
        )


async def _role_findings(wire: Wire, account: str) -> Iterable[Finding]:
    held: set[str] = set()
    for (line,) in (await wire.query("SHOW GRANTS")).rows:
        found = _GLOBAL_GRANT.match(str(line))
        if found is not None:
            held |= {privilege.strip().upper() for privilege in found[1].split(",")}
    missing = [right for right, others in _RIGHTS.items() if right not in held and not others & held]
    if not missing:
        return []
    missing = ["REPLICATION CLIENT" if right == "BINLOG MONITOR" else right for right in missing]
    fix = f"GRANT {', '.join(missing)} ON *.* TO {account};"
    # Lookups query the end of the log, too.
    code = "snapshot_role" if "REPLICATION CLIENT" in missing else "replication_role"
    return [Finding(code, f"The user {account} lacks the rights to read the binary log or its end.", fix)]


async def _replica_findings(wire: Wire, flavour: Flavour, variables: Mapping[str, str]) -> Iterable[Finding]:
    """Checks that a replica logs the changes that it replicates. Without the right to query that, nothing is
    reported."""
    logged = variables.get("log_slave_updates", variables.get("log_replica_updates", "ON")).upper()
    if logged in ("ON", "1"):
        return []
    statement = "SHOW ALL SLAVES STATUS" if flavour.dialect == "mariadb" else "SHOW REPLICA STATUS"
    (reply,) = await wire.ask(statement)
    if reply.error is not None or not reply.rows:
        return []
    return [
        Finding(
            "standby",
            "The server is a replica whose own log does not contain the replicated changes.",
            "Set log_slave_updates = ON in its configuration and restart it, or use its primary as upstream.",
        )
    ]


# --- tables ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _TableRow:
    name: str
    kind: str
    engine: str
    invisible: bool


async def check_zero_dates(wire: Wire) -> list[Finding]:
    """Checks whether zero dates can be stored: Debezium's events show them as NULL."""
    reply = await wire.query("SELECT @@global.sql_mode")
    modes = str(reply.rows[0][0]).upper().split(",")
    missing = [mode for mode in ("NO_ZERO_DATE", "NO_ZERO_IN_DATE") if mode not in modes]
    if not missing:
        return []
    return [
        Finding(
            "zero_dates",
            f"sql_mode lacks {' and '.join(missing)}: zero dates can be stored, which Debezium's events have as NULL.",
            f"SET GLOBAL sql_mode = CONCAT(@@global.sql_mode, ',{','.join(missing)}'); -- and in the configuration",
            fatal=False,
        )
    ]


async def check_tables(
    wire: Wire, tables: Iterable[str], flavour: Flavour, *, follows_keys: bool = True
) -> list[Finding]:
    """Returns findings about tables to be read by views: kind, engine, foreign keys, character sets, rights.
    `follows_keys`: the stream derives the changes of foreign keys."""
    wanted = sorted(set(tables))
    names = [unqualified(name) for name in wanted]
    foreign_keys = await load_foreign_keys(wire, names)
    of_tables = named([*names, *(key.parent for key in foreign_keys)])
    found, hidden, user = await wire.query_all([_TABLES.format(of_tables), _INVISIBLE.format(of_tables), _USER])
    invisible = {(str(schema), str(table)) for schema, table in hidden.rows}
    rows = {
        key: _TableRow(str(table), str(kind).upper(), str(engine or ""), key in invisible)
        for schema, table, kind, engine in found.rows
        for key in [(str(schema), str(table))]
    }
    layouts = await load_layouts(wire, wanted, flavour)
    readable = await wire.ask(*(f"SELECT 1 FROM {_written(table)} LIMIT 0" for table in wanted))
    findings: list[Finding] = []
    for name, reply in zip(wanted, readable, strict=True):
        key = unqualified(name)
        cascading = leading_to(key, foreign_keys)
        reason = _why_not_streamed(rows.get(key), name)
        if reason is None and cascading:
            reason = _why_not_derived(cascading, rows, follows_keys=follows_keys)
        layout = layouts.get(name)
        undecoded = (
            [
                f"has the column {column}: {why}"
                for column, kind in zip(layout.columns, layout.column_types, strict=True)
                if (why := undecodable(kind)) is not None
            ]
            if layout is not None
            else []
        )
        if reply.error is not None and reply.error.number in (1142, 1143):
            findings.append(
                Finding("rights", f"The user lacks the right to read {name}.", _grant(name, _account(user)), name)
            )
        elif key not in rows:
            findings.append(Finding("missing", f"There is no table {name}.", table=name))
        elif reason is not None:
            findings.append(Finding("not_streamed", f"{name} {reason[0]}.", reason[1], name))
        elif undecoded:
            findings.append(Finding("not_streamed", f"{name} {undecoded[0]}.", table=name))
        elif cascading:
            findings.append(_derived(cascading, layouts[name], name))
    return findings


def _written(name: str) -> str:
    """Returns the name as written in a statement: a database may be named by a reserved word."""
    schema, table = unqualified(name)
    return ".".join("`" + part.replace("`", "``") + "`" for part in (schema, table))


def _grant(name: str, account: str) -> str:
    return f"GRANT SELECT ON {_written(name)} TO {account};"


def _account(reply: ServerReply) -> str:
    """Returns the current account, in the syntax of statements."""
    name, _, host = str(reply.rows[0][0]).rpartition("@")
    return f"'{name}'@'{host}'"


def _why_not_streamed(row: _TableRow | None, name: str) -> tuple[str, str | None] | None:
    """Returns why the change stream does not carry a table's rows (the end of a sentence), and the statement that
    repairs it."""
    if row is None:
        return None
    if row.kind != "BASE TABLE":
        return _KINDS.get(row.kind, f"is a {row.kind.lower()}: the change stream does not carry its rows"), None
    if row.engine.lower() != "innodb":
        return (
            f"is a table of the engine {row.engine or 'of another server'}, which has no snapshots",
            f"ALTER TABLE {_written(name)} ENGINE = InnoDB;",
        )
    if row.invisible:
        return "has invisible columns, which SELECT * omits", None
    return None


def _why_not_derived(
    keys: Sequence[ForeignKey], rows: Mapping[Named, _TableRow], *, follows_keys: bool
) -> tuple[str, str | None] | None:
    """Returns why the changes by the keys that lead to a table are unknown, and the statement that repairs it."""
    unread = [
        key for key in keys if not follows_keys or key.parent not in rows or rows[key.parent].kind != "BASE TABLE"
    ]
    if not unread:
        return None
    key, parent = unread[0], qualified_name(*unread[0].parent)
    if follows_keys and key.parent not in rows:
        return f"has rows that change with those of {parent}, which does not exist or may not be read", None
    table = qualified_name(*key.table)
    return (
        f"has rows that the foreign key {_described(key)} changes: these changes are not in the binary log",
        f"ALTER TABLE {_written(table)} DROP FOREIGN KEY {quote_name(key.name)}; -- recreate without {key.rules}",
    )


def _derived(keys: Sequence[ForeignKey], layout: TableLayout, name: str) -> Finding:
    """Returns the consequences of foreign keys for the results of a table."""
    own = [_described(key) for key in keys if qualified_name(*key.table) == name]
    evicted = "the results that the changed rows may be part of"
    wide = sorted({cascade.ancestor for cascade in layout.cascades if () in cascade.rows})
    if wide:
        evicted += f"; one of {', '.join(wide)}, all results of the table"
    return Finding(
        "cascades",
        f"The changes that {' and '.join(own)} makes to {name} are not in the binary log. A change of a referenced row "
        f"evicts {evicted}.",
        table=name,
        fatal=False,
    )


def _described(key: ForeignKey) -> str:
    return f"{quote_name(key.name)} {key.rules} to {quote_name(key.parent[1])}"
