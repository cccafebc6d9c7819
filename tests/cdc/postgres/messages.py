"""Messages of pgoutput, as its manual has them."""

from struct import pack

from cdc.change import CommittedTransaction
from cdc.postgres.pgoutput import Decoder

OID = 16384
COLUMNS = ("id", "name", "body")
UNCHANGED = object()


def begin(xid: int = 700, lsn: int = 100) -> bytes:
    return b"B" + pack("!QqI", lsn, 0, xid)


def commit(lsn: int = 100) -> bytes:
    return b"C" + pack("!BQQq", 0, lsn, lsn + 8, 0)


def relation(
    columns: tuple[str, ...] = COLUMNS,
    identity: str = "f",
    name: str = "items",
    oid: int = OID,
    kind: int = 25,
    key: tuple[str, ...] = COLUMNS,
) -> bytes:
    described = b"".join(pack("!B", c in key) + c.encode() + b"\0" + pack("!Ii", kind, -1) for c in columns)
    return b"R" + pack("!I", oid) + f"public\0{name}\0{identity}".encode() + pack("!H", len(columns)) + described


def tuple_of(values: tuple[object, ...]) -> bytes:
    parts = [pack("!H", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            text = str(value).encode()
            parts.append(b"t" + pack("!I", len(text)) + text)
    return b"".join(parts)


def insert(*values: object, oid: int = OID) -> bytes:
    return b"I" + pack("!I", oid) + b"N" + tuple_of(values)


def update(old: tuple[object, ...], new: tuple[object, ...], marker: bytes = b"O", oid: int = OID) -> bytes:
    return b"U" + pack("!I", oid) + marker + tuple_of(old) + b"N" + tuple_of(new)


def delete(*values: object, marker: bytes = b"O", oid: int = OID) -> bytes:
    return b"D" + pack("!I", oid) + marker + tuple_of(values)


def truncate(*oids: int) -> bytes:
    return b"T" + pack("!IB", len(oids), 0) + b"".join(pack("!I", oid) for oid in oids)


def message(prefix: str, content: str = "", flags: int = 1) -> bytes:
    return b"M" + pack("!BQ", flags, 99) + prefix.encode() + b"\0" + pack("!I", len(content)) + content.encode()


def decode(decoder: Decoder, *messages: bytes) -> list[CommittedTransaction]:
    return [t for m in messages if (t := decoder.feed(m)) is not None]
