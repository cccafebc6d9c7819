"""What must be true of a MariaDB or MySQL server and its tables, checked: each finding says what to do.

Not here: what has changed since a table was looked at (`changes`); what the stream itself notices (`cdc.mysql`).
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from cdc.mysql.names import quote_name
from cdc.mysql.values import undecodable
from service.engine.databases.mysql.catalog import load_layouts
from service.engine.databases.mysql.connect import Flavour
from service.engine.databases.mysql.sql_text import named, quoted, unqualified
from service.engine.databases.mysql.wire import ServerReply, Wire
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
#: Global rights that reading the log takes; others that give them, too.
_RIGHTS = {
    "REPLICATION SLAVE": frozenset({"SUPER", "ALL PRIVILEGES"}),
    "BINLOG MONITOR": frozenset({"SUPER", "REPLICATION CLIENT", "ALL PRIVILEGES"}),
}
_USER = "SELECT CURRENT_USER()"
#: What a line of SHOW GRANTS gives on everything.
_GLOBAL_GRANT = re.compile(r"GRANT (.+) ON \*\.\* TO ", re.IGNORECASE)
_TABLES = """
SELECT table_schema, table_name, table_type, engine
FROM information_schema.tables WHERE {}
"""
_INVISIBLE = """
SELECT DISTINCT table_schema, table_name
FROM information_schema.columns WHERE {} AND extra LIKE '%INVISIBLE%'
"""
#: Foreign keys that change rows of their own tables when rows of others change.
_CASCADES = """
SELECT constraint_schema, table_name, constraint_name, referenced_table_name, update_rule, delete_rule
FROM information_schema.referential_constraints WHERE {}
"""
_PASSIVE = frozenset({"RESTRICT", "NO ACTION"})
_KINDS = {
    "VIEW": "is a view: the change stream does not carry its rows",
    "SEQUENCE": "is a sequence: the change stream does not carry what it counts",
    "SYSTEM VERSIONED": "keeps its history in itself, which a query of it does not show and the change stream does",
    "SYSTEM VIEW": "is a table of the server's own: the change stream does not carry it",
    "TEMPORARY": "is a temporary table: the change stream does not carry its rows",
}


# --- the server -----------------------------------------------------------------------------------------------------


async def check_server(wire: Wire, flavour: Flavour) -> list[Finding]:
    """Findings about the server and the role: what the log has in it, and who may read it."""
    listed = ", ".join(map(quoted, _VARIABLES))
    found, user, *_ = await wire.query_all([f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})", _USER])
    variables = {str(name).lower(): str(value) for name, value in found.rows}
    findings = list(_server_findings(variables, flavour))
    findings += await _role_findings(wire, _account(user))
    findings += await _replica_findings(wire, flavour, variables)
    return findings


def _server_findings(variables: Mapping[str, str], flavour: Flavour) -> Iterator[Finding]:
    oldest = OLDEST[flavour.dialect]
    if flavour.version < oldest:
        name, number = _NAMES[flavour.dialect], ".".join(map(str, oldest))
        running = ".".join(map(str, flavour.version))
        yield Finding("version", f"{name} {running} is too old; {number} is the oldest that is supported.")
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
            f"binlog_format is {variables['binlog_format']}: the log does not say which rows change.",
            "SET GLOBAL binlog_format = 'ROW'; -- and in the configuration; connections that are open keep theirs",
        )
    if variables.get("binlog_row_image", "FULL").upper() != "FULL":
        yield Finding(
            "row_image",
            f"binlog_row_image is {variables['binlog_row_image']}: the log does not have whole old and new rows.",
            "SET GLOBAL binlog_row_image = 'FULL'; -- and in the configuration; connections that are open keep theirs",
        )
    if variables.get("binlog_row_value_options"):
        yield Finding(
            "row_image",
            "binlog_row_value_options lets the log have parts of JSON values only.",
            "SET GLOBAL binlog_row_value_options = ''; -- and in the configuration",
        )
    if variables.get("server_id") == "0":
        yield Finding("server_id", "server_id is 0: nobody may read the log.", "SET GLOBAL server_id = 1;")
    if variables.get("binlog_row_metadata", "").upper() != "FULL":
        yield Finding(
            "binlog_row_metadata",
            "binlog_row_metadata is not FULL: the log does not name columns, so that a column "
            "renamed or moved is noticed by the ALTER TABLE only.",
            "SET GLOBAL binlog_row_metadata = 'FULL'; -- and in the configuration",
            fatal=False,
        )
    if flavour.dialect == "mysql" and variables.get("gtid_mode", "").upper() != "ON":
        yield Finding(
            "gtid_mode",
            "gtid_mode is not ON: what a lookup has seen cannot be told.",
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
    # Also lookups ask where the log ends.
    code = "snapshot_role" if "REPLICATION CLIENT" in missing else "replication_role"
    return [Finding(code, f"The user {account} may not read the binary log, or not ask where it ends.", fix)]


async def _replica_findings(wire: Wire, flavour: Flavour, variables: Mapping[str, str]) -> Iterable[Finding]:
    """A replica can be followed if its own log has what it replicates. Who may not ask is not told."""
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
            "The server is a replica whose own log does not have what it replicates.",
            "Set log_slave_updates = ON in its configuration and restart it, or name its primary.",
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
    """Over Debezium a zero date is NULL, which no event tells from a real one: whether there can be any."""
    reply = await wire.query("SELECT @@global.sql_mode")
    modes = str(reply.rows[0][0]).upper().split(",")
    missing = [mode for mode in ("NO_ZERO_DATE", "NO_ZERO_IN_DATE") if mode not in modes]
    if not missing:
        return []
    return [
        Finding(
            "zero_dates",
            f"sql_mode lacks {' and '.join(missing)}: zero dates can be stored, for which Debezium's events have NULL.",
            f"SET GLOBAL sql_mode = CONCAT(@@global.sql_mode, ',{','.join(missing)}'); -- and in the configuration",
            fatal=False,
        )
    ]


async def check_tables(wire: Wire, tables: Iterable[str], flavour: Flavour) -> list[Finding]:
    """Findings about tables that views are to read: kind, engine, foreign keys, character sets, rights."""
    wanted = sorted(set(tables))
    names = [unqualified(name) for name in wanted]
    of_tables, of_constraints = named(names), named(names, "constraint_schema")
    questions = [_TABLES.format(of_tables), _INVISIBLE.format(of_tables), _CASCADES.format(of_constraints)]
    found, hidden, cascading, user = await wire.query_all([*questions, _USER])
    invisible = {(str(schema), str(table)) for schema, table in hidden.rows}
    cascades = {(str(schema), str(table)): list(map(str, rest)) for schema, table, *rest in _acting(cascading.rows)}
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
        reason = _why_not_streamed(rows.get(key), cascades.get(key), name)
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
            findings.append(Finding("rights", f"The user may not read {name}.", _grant(name, _account(user)), name))
        elif key not in rows:
            findings.append(Finding("missing", f"There is no table {name}.", table=name))
        elif reason is not None:
            findings.append(Finding("not_streamed", f"{name} {reason[0]}.", reason[1], name))
        elif undecoded:
            findings.append(Finding("not_streamed", f"{name} {undecoded[0]}.", table=name))
    return findings


def _written(name: str) -> str:
    """The name for a statement: a database may be called by a reserved word."""
    schema, table = unqualified(name)
    return ".".join("`" + part.replace("`", "``") + "`" for part in (schema, table))


def _grant(name: str, account: str) -> str:
    return f"GRANT SELECT ON {_written(name)} TO {account};"


def _account(reply: ServerReply) -> str:
    """The user that the server takes us for, as statements have it."""
    name, _, host = str(reply.rows[0][0]).rpartition("@")
    return f"'{name}'@'{host}'"


def _acting(rows: Iterable[tuple[object, ...]]) -> Iterator[tuple[object, ...]]:
    """Those of foreign keys that change rows of their own table."""
    return (row for row in rows if not {str(row[4]), str(row[5])} <= _PASSIVE)


def _why_not_streamed(row: _TableRow | None, cascade: list[str] | None, name: str) -> tuple[str, str | None] | None:
    """What the change stream does not carry: a sentence's end, and the statement that changes it."""
    if row is None:
        return None
    if row.kind != "BASE TABLE":
        return _KINDS.get(row.kind, f"is a {row.kind.lower()}: the change stream does not carry its rows"), None
    if row.engine.lower() != "innodb":
        return (
            f"is a table of the engine {row.engine or 'of another server'}, which has no snapshots",
            f"ALTER TABLE {_written(name)} ENGINE = InnoDB;",
        )
    if cascade is not None:
        constraint, parent, update, delete = cascade
        rules = " and ".join(
            f"ON {what} {rule}" for what, rule in (("UPDATE", update), ("DELETE", delete)) if rule not in _PASSIVE
        )
        return (
            f"has the foreign key {quote_name(constraint)} {rules} to {quote_name(parent)}: what that does to its rows"
            " is not in the binary log",
            f"ALTER TABLE {_written(name)} DROP FOREIGN KEY {quote_name(constraint)}; -- and make one without {rules}",
        )
    if row.invisible:
        return "has invisible columns, which * leaves out", None
    return None
