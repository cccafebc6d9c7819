"""Packets of the MariaDB and MySQL protocol for text and prepared statements: bytes in, replies out.

*Theory* (MySQL Internals Manual, "Text Protocol"): a packet is a length of three bytes, a sequence number and a
payload; a payload of ``0xffffff`` bytes continues in the next packet. A reply is OK, an error, or a result: column
definitions, EOF, rows, EOF. A value is its length and its bytes. Replies arrive in the order of the commands.

*Invariants*: nothing here touches a socket. Rows contain texts, and bytes for binary strings.

Not here: reading and writing (`wire`), the meaning of values (`cdc.mysql.values`).
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache

COMMAND_QUERY = 3
COMMAND_PREPARE = 22
COMMAND_CLOSE = 25
_MAX_PAYLOAD = 0xFFFFFF
#: Maximum cached column definitions.
KEPT_DEFINITIONS = 4096
_HEADER = 4
_OK, _MORE_BYTES, _MARK, _ERROR = 0x00, 0xFB, 0xFE, 0xFF
#: An EOF packet is shorter than this; a longer packet with the same first byte is a row.
_MARK_BYTES = 9
_STATUS_IN_TRANSACTION = 1
_STATUS_MORE_RESULTS = 8
_BINARY = 63
#: Types whose values are bytes if their character set is binary: bit, blobs, strings, geometry.
_STRING_TYPES = frozenset({15, 16, 249, 250, 251, 252, 253, 254, 255})
_UNSIGNED = 32

Cell = str | bytes | None


class ProtocolError(Exception):
    """Malformed data from the server; the connection is unusable."""


@dataclass(frozen=True, slots=True)
class ColumnInfo:
    """Column of a result. `schema`, `table` and `source` name the table column that it comes from, if any."""

    name: str
    schema: str
    table: str
    source: str
    #: Collation id.
    collation: int
    length: int
    kind: int
    flags: int
    decimals: int

    @property
    def is_bytes(self) -> bool:
        """True if its values have no character set."""
        return self.collation == _BINARY and self.kind in _STRING_TYPES

    @property
    def unsigned(self) -> bool:
        return bool(self.flags & _UNSIGNED)


@dataclass(frozen=True, slots=True)
class ServerError(Exception):
    """Statement rejected or aborted by the server."""

    number: int
    state: str
    message: str


@dataclass(slots=True)
class ServerReply:
    """Reply to one command: of several results of one statement, the first."""

    rows: list[tuple[Cell, ...]] = field(default_factory=list)
    columns: tuple[ColumnInfo, ...] = ()
    #: For prepared statements.
    parameters: int = 0
    statement: int = 0
    error: ServerError | None = None


def command(kind: int, body: bytes) -> bytes:
    """Encodes a command as packets."""
    payload = bytes((kind,)) + body
    packets = []
    for number, start in enumerate(range(0, len(payload) + 1, _MAX_PAYLOAD)):
        part = payload[start : start + _MAX_PAYLOAD]
        packets += [len(part).to_bytes(3, "little"), bytes((number & 0xFF,)), part]
    return b"".join(packets)


class _State(Enum):
    FIRST = 0
    COLUMNS = 1
    ROWS = 2
    PARAMETERS = 3
    PREPARED_COLUMNS = 4


class Replies:
    """Decoder of the replies to `expected` commands, `prepared` of which (all or none) prepare a statement.

    *State*: `_pending`, bytes of an incomplete packet, and `_wanted`, the number of bytes needed to continue.
    """

    def __init__(self, expected: int, prepared: bool = False) -> None:
        self.replies: list[ServerReply] = []
        #: From the last reply.
        self.in_transaction = False
        self._expected = expected
        self._prepared = prepared
        self._pending: list[bytes] = []
        self._pending_bytes = 0
        self._wanted = 0
        #: Payloads of a packet that continues in the next one.
        self._parts: list[bytes] = []
        self._begin()

    def _begin(self) -> None:
        self._state = _State.FIRST
        self._reply = ServerReply()
        self._further = False
        self._count = 0
        self._definitions: list[ColumnInfo] = []
        self._bytes: tuple[bool, ...] = ()

    @property
    def done(self) -> bool:
        """True if all replies are complete."""
        return len(self.replies) == self._expected

    @property
    def rows_read(self) -> int:
        """Rows of the incomplete reply."""
        return len(self._reply.rows)

    @property
    def rows_held(self) -> int:
        """Rows of all replies."""
        return sum([len(reply.rows) for reply in self.replies], len(self._reply.rows))

    def take_rows(self) -> ServerReply:
        """Removes and returns the rows received so far of the incomplete reply."""
        taken = ServerReply(self._reply.rows, self._reply.columns)
        self._reply.rows = []
        return taken

    def feed(self, data: bytes) -> None:
        """Decodes data from the server. Raises ProtocolError."""
        self._pending.append(data)
        self._pending_bytes += len(data)
        if self._pending_bytes < self._wanted:
            return
        buffer = b"".join(self._pending) if len(self._pending) > 1 else data
        at = self._packets(buffer)
        rest = buffer[at:]
        self._pending = [rest] if rest else []
        self._pending_bytes = len(rest)
        if rest and self.done:
            raise ProtocolError("The server sent unexpected data.")

    def _packets(self, buffer: bytes) -> int:
        """Decodes the complete packets of a buffer; returns the offset of the rest."""
        at, end = 0, len(buffer)
        self._wanted = _HEADER
        while end - at >= _HEADER and not self.done:
            length = buffer[at] | buffer[at + 1] << 8 | buffer[at + 2] << 16
            start, stop = at + _HEADER, at + _HEADER + length
            if stop > end:
                self._wanted = _HEADER + length
                break
            at = stop
            if length == _MAX_PAYLOAD:
                self._parts.append(buffer[start:stop])
            elif self._parts:
                whole = b"".join((*self._parts, buffer[start:stop]))
                self._parts = []
                self._packet(whole, 0, len(whole))
            else:
                self._packet(buffer, start, stop)
        return at

    def _packet(self, buffer: bytes, start: int, stop: int) -> None:
        """Decodes one packet, whose payload is ``buffer[start:stop]``."""
        first = buffer[start] if stop > start else _OK
        if first == _ERROR and self._state is not _State.COLUMNS:
            self._fail(buffer[start:stop])
        elif self._state is _State.ROWS:
            if first == _MARK and stop - start < _MARK_BYTES:
                self._finish(buffer[start + 3] | buffer[start + 4] << 8)
            elif not self._further:
                self._reply.rows.append(_row(buffer, start, self._bytes))
        elif self._state is _State.FIRST:
            self._first(buffer, start, stop)
        elif first == _MARK and stop - start < _MARK_BYTES:
            self._end_of_definitions()
        else:
            self._definitions.append(_definition(buffer[start:stop]))

    def _first(self, buffer: bytes, start: int, stop: int) -> None:
        first = buffer[start]
        if self._prepared:
            reply = self._reply
            reply.statement = int.from_bytes(buffer[start + 1 : start + 5], "little")
            self._count = int.from_bytes(buffer[start + 5 : start + 7], "little")
            reply.parameters = int.from_bytes(buffer[start + 7 : start + 9], "little")
            self._state = _State.PARAMETERS
            if not reply.parameters:
                self._end_of_definitions()
        elif first == _OK:
            at = _skip(buffer, _skip(buffer, start + 1))
            self._finish(buffer[at] | buffer[at + 1] << 8)
        elif first == _MORE_BYTES or stop - start < 1:
            raise ProtocolError("The server requested a local file, which is not permitted.")
        else:
            self._state = _State.COLUMNS

    def _end_of_definitions(self) -> None:
        definitions, self._definitions = self._definitions, []
        if self._state is _State.PARAMETERS:
            self._state = _State.PREPARED_COLUMNS
            if not self._count:
                self._finish(0)
            return
        if not self._further:
            self._reply.columns = tuple(definitions)
        self._bytes = tuple(column.is_bytes for column in definitions)
        if self._state is _State.COLUMNS:
            self._state = _State.ROWS
        else:
            self._finish(0)

    def _finish(self, status: int) -> None:
        self.in_transaction = bool(status & _STATUS_IN_TRANSACTION)
        if status & _STATUS_MORE_RESULTS:
            self._further = True
            self._state = _State.FIRST
            return
        self._end_reply()

    def _fail(self, payload: bytes) -> None:
        number = int.from_bytes(payload[1:3], "little")
        marked = payload[3:4] == b"#"
        state, text = (payload[4:9], payload[9:]) if marked else (b"", payload[3:])
        message = text.decode(errors="replace")
        self._reply = ServerReply(error=ServerError(number, state.decode(errors="replace"), message))
        self._end_reply()

    def _end_reply(self) -> None:
        self.replies.append(self._reply)
        self._begin()


#: Number of length bytes after a first byte.
_LENGTH_BYTES = {252: 2, 253: 3, 254: 8}

# --- values ---------------------------------------------------------------------------------------------------------


def _row(buffer: bytes, at: int, are_bytes: tuple[bool, ...]) -> tuple[Cell, ...]:
    row: list[Cell] = []
    for is_bytes in are_bytes:
        length = buffer[at]
        at += 1
        if length > 250:
            if length == _MORE_BYTES:
                row.append(None)
                continue
            size = _LENGTH_BYTES[length]
            length = int.from_bytes(buffer[at : at + size], "little")
            at += size
        stop = at + length
        value = buffer[at:stop]
        row.append(value if is_bytes else value.decode())
        at = stop
    return tuple(row)


def _skip(buffer: bytes, at: int) -> int:
    """Returns the offset after a length-encoded number."""
    return at + 1 + _LENGTH_BYTES.get(buffer[at], 0)


def _texts(buffer: bytes, at: int) -> Iterator[tuple[str, int]]:
    """Yields consecutive short texts, each with the offset of the next one."""
    while True:
        length = buffer[at]
        at += 1
        if length == 252:
            length = int.from_bytes(buffer[at : at + 2], "little")
            at += 2
        text = buffer[at : at + length].decode(errors="replace")
        at += length
        yield text, at


@lru_cache(maxsize=KEPT_DEFINITIONS)
def _definition(payload: bytes) -> ColumnInfo:
    """Decodes a column definition: catalog, schema, table alias, table, column alias, column, and numbers.

    Results are cached: decoding repeated definitions took a third of a lookup's CPU.
    """
    texts = _texts(payload, 0)
    (_, _), (schema, _), (_, _), (table, _), (name, _), (source, at) = (next(texts) for _ in range(6))
    at += 1  # How long the rest is.
    collation = payload[at] | payload[at + 1] << 8
    length = int.from_bytes(payload[at + 2 : at + 6], "little")
    flags = payload[at + 7] | payload[at + 8] << 8
    return ColumnInfo(name, schema, table, source, collation, length, payload[at + 6], flags, payload[at + 9])
