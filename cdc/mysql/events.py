"""Formats of the binary log's events that a change stream needs. Pure: bytes in, values out.

MySQL source documentation, "Binary Log Events"; MariaDB manual, "Replication Protocol". An event is a header of 19
bytes (`HEADER`) and a body; all numbers are little endian. The caller removes checksums.

*Invariant*: a truncated body raises IndexError, struct.error or UnicodeDecodeError.

Not here: rows (`rows`), effects of statements (`statements`), transactions (`assembler`).
"""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from struct import Struct

from cdc.mysql.charsets import client_text

#: Time, type, server, size with header, end in the file (its lower 32 bits), flags.
HEADER = Struct("<IBIIIH")
HEADER_BYTES = 19

QUERY, STOP, ROTATE, INTVAR, RAND, USER_VAR = 2, 3, 4, 5, 13, 14
FORMAT_DESCRIPTION, XID, BEGIN_LOAD_QUERY, EXECUTE_LOAD_QUERY, TABLE_MAP = 15, 16, 17, 18, 19
WRITE_ROWS_V1, UPDATE_ROWS_V1, DELETE_ROWS_V1 = 23, 24, 25
INCIDENT, HEARTBEAT, IGNORABLE, ROWS_QUERY = 26, 27, 28, 29
WRITE_ROWS_V2, UPDATE_ROWS_V2, DELETE_ROWS_V2 = 30, 31, 32
GTID, ANONYMOUS_GTID, PREVIOUS_GTIDS, TRANSACTION_CONTEXT, VIEW_CHANGE = 33, 34, 35, 36, 37
XA_PREPARE, PARTIAL_UPDATE_ROWS, TRANSACTION_PAYLOAD, HEARTBEAT_V2, GTID_TAGGED = 38, 39, 40, 41, 42
ANNOTATE_ROWS, BINLOG_CHECKPOINT, MARIADB_GTID, MARIADB_GTID_LIST, START_ENCRYPTION = 160, 161, 162, 163, 164
QUERY_COMPRESSED, WRITE_ROWS_COMPRESSED_V1, UPDATE_ROWS_COMPRESSED_V1, DELETE_ROWS_COMPRESSED_V1 = 165, 166, 167, 168
WRITE_ROWS_COMPRESSED_V2, UPDATE_ROWS_COMPRESSED_V2, DELETE_ROWS_COMPRESSED_V2 = 169, 170, 171

#: Flag of a header: readers that do not know the event may ignore it.
MAY_BE_IGNORED = 0x80
#: Flags of MariaDB's GTID: the group ends with its first statement; it ends with XA PREPARE.
STANDALONE, PREPARES_XA = 1, 64

#: Status variables of a statement, and the bytes of their values; 0: the length is in the first byte.
_SQL_MODE, _CLIENT = 1, 4
_STATUS_BYTES = {0: 4, _SQL_MODE: 8, 3: 4, 6: 0}

_U16, _U32, _U64 = Struct("<H").unpack_from, Struct("<I").unpack_from, Struct("<Q").unpack_from
_QUERY = Struct("<IIBHH")
_MARIADB_GTID = Struct("<QIB")
_ROTATE = Struct("<Q")
_XA_PREPARE = Struct("<BIII")


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """A statement in the log, with its default database and ``sql_mode``."""

    database: str
    text: str
    sql_mode: int = 0


def read_query(data: bytes, at: int, end: int, charsets: Mapping[int, str]) -> QueryEvent:
    """Read a QUERY event. `charsets` has character sets by ids of collations."""
    text_at = _query_text_at(data, at)
    return _query(data, at, data[text_at:end], charsets)


def read_compressed_query(data: bytes, at: int, end: int, charsets: Mapping[int, str]) -> QueryEvent:
    """Read MariaDB's QUERY_COMPRESSED event (``log_bin_compress``)."""
    return _query(data, at, decompress(data, _query_text_at(data, at), end), charsets)


def _query_text_at(data: bytes, at: int) -> int:
    _, _, database_bytes, _, status_bytes = _QUERY.unpack_from(data, at)
    return int(at + _QUERY.size + status_bytes + database_bytes + 1)


def _query(data: bytes, at: int, text: bytes, charsets: Mapping[int, str]) -> QueryEvent:
    _, _, database_bytes, _, status_bytes = _QUERY.unpack_from(data, at)
    start = at + _QUERY.size + status_bytes
    sql_mode, collation = _session(data, at + _QUERY.size, start)
    database = data[start : start + database_bytes].decode()
    return QueryEvent(database, client_text(text, charsets.get(collation)), sql_mode)


def _session(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Return ``sql_mode`` and the client's collation from the status variables, each a code and a value.

    Both are among the first ones; all servers write them.
    """
    sql_mode = 0
    while at < end:
        code, at = data[at], at + 1
        if code == _SQL_MODE:
            (sql_mode,) = _U64(data, at)
        elif code == _CLIENT:
            return sql_mode, _U16(data, at)[0]
        elif code not in _STATUS_BYTES:
            break
        at += _STATUS_BYTES[code] or 1 + data[at]
    return sql_mode, 0


def decompress(data: bytes, at: int, end: int) -> bytes:
    """Decompress MariaDB's format: a byte (algorithm, width of the size), the size (big endian), zlib's bytes."""
    head = data[at]
    if (head >> 4) & 7:
        raise IndexError("an event has an unknown compression algorithm")
    return zlib.decompress(data[at + 1 + (head & 7) : end])


def read_mariadb_gtid(data: bytes, at: int) -> tuple[int, int, int]:
    """Read a GTID event of MariaDB: domain, number, flags."""
    number, domain, flags = _MARIADB_GTID.unpack_from(data, at)
    return domain, number, flags


def read_rotate(data: bytes, at: int, end: int) -> tuple[int, bytes]:
    """Read a ROTATE event: the offset, and the file's name, possibly followed by a checksum."""
    return _ROTATE.unpack_from(data, at)[0], data[at + 8 : end]


def read_checksum(data: bytes, end: int) -> bool:
    """Return whether events have checksums, from a FORMAT_DESCRIPTION event (which always has one itself)."""
    return data[end - 5] == 1


@dataclass(frozen=True, slots=True)
class XaPrepareEvent:
    """The end of an XA transaction's changes; with `one_phase` they are committed."""

    one_phase: bool
    xid: tuple[int, bytes, bytes]


def read_xa_prepare(data: bytes, at: int) -> XaPrepareEvent:
    """Read an XA_PREPARE event."""
    one_phase, form, global_bytes, branch_bytes = _XA_PREPARE.unpack_from(data, at)
    at += _XA_PREPARE.size
    xid = data[at : at + global_bytes], data[at + global_bytes : at + global_bytes + branch_bytes]
    return XaPrepareEvent(bool(one_phase), (form, *xid))


def read_mysql_gtid(data: bytes, at: int) -> tuple[bytes, int]:
    """Read a GTID event of MySQL: UUID of the source, number."""
    return data[at + 1 : at + 17], int.from_bytes(data[at + 17 : at + 25], "little")


def packed_number(data: bytes, at: int) -> tuple[int, int]:
    """Read a length-encoded integer; return it and its end."""
    first = data[at]
    if first < 0xFB:
        return first, at + 1
    size = {0xFC: 2, 0xFD: 3, 0xFE: 8}[first]
    return int.from_bytes(data[at + 1 : at + 1 + size], "little"), at + 1 + size
