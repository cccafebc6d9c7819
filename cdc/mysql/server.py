"""Properties of a server and of its binary log. Blocking: PyMySQL's connections, used in a thread.

*Invariant*: the error for an unsuitable server has the remedy.

Not here: reading the log (`dump`), tables (`service.engine.databases.mysql`).
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import pymysql

from cdc.change import StreamLost
from cdc.gtid import GtidPosition, GtidSet
from cdc.mysql.assembler import FORMAT_STATEMENT
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.connection import open_connection
from cdc.mysql.position import BinlogSnapshot, position_of

Connection: TypeAlias = "pymysql.connections.Connection[Any]"
_SYNTAX_ERROR = 1064


@dataclass(frozen=True, slots=True)
class Server:
    """Properties of a server that determine how its log is read."""

    mariadb: bool
    #: ``server_id`` and ``server_uuid``; MariaDB has only the first, which need not be unique.
    identity: tuple[str, str]
    #: Table names are case insensitive.
    fold_names: bool
    #: Character sets by ids of collations.
    charsets: Mapping[int, str]
    version: str = ""

    @property
    def name(self) -> str:
        """The identity as text, equal to that of lookups' connections."""
        named = zip(("server_id", "server_uuid"), self.identity, strict=True)
        return ", ".join(f"{name} {value}" for name, value in named if value)


def connect(options: Mapping[str, Any], timeout_s: float) -> Connection:
    """Open a connection in autocommit mode. Raises pymysql's errors and OSError."""
    return open_connection(
        **{"connect_timeout": max(1, round(timeout_s)), **options, "charset": "utf8mb4", "autocommit": True}
    )


def force_close(connection: Any) -> None:
    """Close a connection without sending anything to the server, which may be unreachable."""
    connection._force_close()


def describe(connection: Connection) -> Server:
    """Return the server's properties. Raises StreamLost if its log cannot be followed."""
    found = variables(connection)
    _check(found)
    return Server(
        "mariadb" in found.get("version", "").lower(),
        (found.get("server_id", ""), found.get("server_uuid", "")),
        found.get("lower_case_table_names", "0") != "0",
        _charsets(connection),
        found.get("version", ""),
    )


_WANTED = (
    "version",
    "server_id",
    "server_uuid",
    "lower_case_table_names",
    "log_bin",
    "binlog_format",
    "binlog_transaction_compression",
)


def variables(connection: Connection) -> dict[str, str]:
    """Return the global variables that concern the log, as far as the server has them."""
    listed = ", ".join(f"'{name}'" for name in _WANTED)
    return {
        name.lower(): value
        for name, value in rows(connection, f"SHOW GLOBAL VARIABLES WHERE Variable_name IN ({listed})")
    }


def _check(found: Mapping[str, str]) -> None:
    if found.get("log_bin", "OFF").upper() not in ("ON", "1"):
        raise StreamLost(
            "The server does not write a binary log.",
            retryable=False,
            hint="Set log_bin = ON in the server's configuration, and restart it.",
        )
    wanted = (
        ("binlog_format", ("ROW",), "statements instead of rows", FORMAT_STATEMENT),
        (
            "binlog_transaction_compression",
            ("OFF", "0"),
            "compressed transactions",
            "SET GLOBAL binlog_transaction_compression = OFF;",
        ),
    )
    for name, values, written, fix in wanted:
        if name in found and found[name].upper() not in values:
            raise StreamLost(
                f"The binary log may have {written}: {name} is {found[name]}.",
                retryable=False,
                hint=f"Run: {fix} Open sessions keep the old value until they reconnect.",
            )


def _charsets(connection: Connection) -> dict[int, str]:
    found = {i: charset for i, charset in rows(connection, _COLLATIONS) if i is not None}
    # MariaDB from 10.10 on: collations with an id for each character set. Other servers lack the column.
    with suppress(pymysql.err.OperationalError):
        found |= {i: charset for i, charset in rows(connection, _COLLATIONS_BY_CHARSET) if i is not None}
    return found


_COLLATIONS = "SELECT id, character_set_name FROM information_schema.collations"
_COLLATIONS_BY_CHARSET = "SELECT id, character_set_name FROM information_schema.collation_character_set_applicability"


def current_end(connection: Connection) -> tuple[str, int]:
    """Return file and offset of the log's end. Raises StreamLost if the server has no log."""
    try:
        found = rows(connection, "SHOW MASTER STATUS")
    except pymysql.err.ProgrammingError as problem:
        if problem.args[0] != _SYNTAX_ERROR:
            raise
        found = rows(connection, "SHOW BINARY LOG STATUS")  # MySQL from 8.4 on.
    if not found:
        raise StreamLost("The server does not write a binary log.", retryable=False)
    return str(found[0][0]), int(found[0][1])


def begin(connection: Connection, mariadb: bool) -> tuple[str, int, BinlogSnapshot | BracketSnapshot]:
    """Take a snapshot; return the file and offset from which the log has what it does not see, and the snapshot.

    A transaction is in the log before it commits in the storage engine. MariaDB gives the snapshot's position; MySQL
    gives bounds (`bracket`).
    """
    before = None if mariadb else _executed(connection)
    with connection.cursor() as cursor:
        cursor.execute("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        try:
            cursor.execute("SHOW STATUS LIKE 'binlog_snapshot_%'")
            found = {name.lower(): value for name, value in cursor.fetchall()}
        finally:
            cursor.execute("COMMIT")
    # Percona Server has these variables, too, with the end of the log outside of snapshots.
    if mariadb and (file := found.get("binlog_snapshot_file")):
        offset = int(found["binlog_snapshot_position"])
        return str(file), offset, BinlogSnapshot(position_of(str(file), offset))
    file, offset = current_end(connection)
    if before is None:
        raise StreamLost("The server does not report its snapshots' position in the binary log.", retryable=False)
    if rows(connection, "SELECT @@GLOBAL.gtid_mode")[0][0] != "ON":
        raise StreamLost("Transactions have no global ids: gtid_mode is not ON.", retryable=False, hint=_GTID_HINT)
    owned = GtidSet.parse_owned(str(rows(connection, "SELECT @@GLOBAL.gtid_owned")[0][0]))
    return file, offset, BracketSnapshot(before, position_of(file, offset), owned | _executed(connection))


_GTID_HINT = "Set gtid_mode = ON and enforce_gtid_consistency = ON in the server's configuration."


def _executed(connection: Connection) -> GtidSet:
    return GtidSet.parse(str(rows(connection, "SELECT @@GLOBAL.gtid_executed")[0][0]))


def gtids_at(connection: Connection, file: str, offset: int) -> GtidPosition | None:
    """MariaDB: return the GTIDs of a position in the log; None if the position does not exist."""
    found = rows(connection, "SELECT BINLOG_GTID_POS(%s, %s)", file, offset)[0][0]
    return None if found is None else GtidPosition.parse(str(found))


def has_executed(connection: Connection, transactions: Iterable[int]) -> bool:
    """MySQL: return whether the server has executed these transactions."""
    executed = _executed(connection)
    return all(transaction in executed for transaction in transactions)


def rows(connection: Connection, query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    """Execute a query, and return its rows."""
    with connection.cursor() as cursor:
        cursor.execute(query, parameters or None)
        return list(cursor.fetchall())
