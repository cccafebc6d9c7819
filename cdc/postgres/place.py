"""Places of a permanent slot at which a stream of another process can continue.

*Theory*: a position does not identify what precedes it. Where the server's files were replaced by an older copy of
them, the same log has grown beyond the position again, with other content, and the slot may be in the copy, too. So a
place has the last commit before it, and the slot is not confirmed beyond that: the server sends this transaction once
more, to be compared.

Not here: conditions that a broken connection has, too (`resumption`).
"""

import asyncio
import json
import time
from dataclasses import asdict, dataclass
from struct import Struct
from typing import Self

import psycopg

from cdc.change import StreamLost
from cdc.postgres.pgoutput import Decoder
from cdc.postgres.position import CommitRecord, format_lsn
from cdc.postgres.replication import ReplicationConnection, ServerState, raise_end
from cdc.postgres.slot import SlotOptions, is_bounded

_KEEPALIVE = Struct("!cQqB").unpack_from
DATA, ALIVE = b"wk"
#: Offset of the message in a data message, behind kind, start, end and time.
PAYLOAD = 25
#: Maximum time until the last transaction has come again, and the interval of requests for the server's position.
_LIMIT_S, _ASK_S = 10.0, 0.2


@dataclass(frozen=True, slots=True)
class SlotPlace:
    """A place behind a transaction, in a slot that has this transaction and all that follows."""

    system: str
    timeline: int
    #: The server's version, as a number.
    version: int
    slot: str
    #: Nothing is in the stream between the last commit and this position.
    position: int
    last: CommitRecord

    def text(self) -> str:
        """The place as text."""
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a place. Raises ValueError."""
        try:
            fields = json.loads(text)
            return cls(**{**fields, "last": CommitRecord(*fields["last"])})
        except (TypeError, KeyError) as problem:
            raise ValueError(str(problem)) from None

    @property
    def server(self) -> ServerState:
        """The server, whose log has reached the place."""
        return ServerState(self.system, self.timeline, self.position)

    async def check(self, ordinary: psycopg.AsyncConnection, options: SlotOptions) -> None:
        """Raise StreamLost unless the service still uses this slot, and the server limits what it holds."""
        if options.kind == "temporary" or options.name != self.slot:
            raise StreamLost(f"The stream does not use the slot {self.slot} any more.", retryable=True)
        if ordinary.info.server_version != self.version:
            raise StreamLost(
                f"The server's version is {ordinary.info.server_version}: it was {self.version}.", retryable=True
            )
        if not await is_bounded(ordinary):
            raise StreamLost("The server does not limit any more what a slot may hold.", retryable=True)

    async def recognize(self, connection: ReplicationConnection, decoder: Decoder) -> None:
        """Read the last transaction on a connection that begins with it, and set the decoder behind the place. Raises
        StreamLost if it is another one."""
        try:
            async with asyncio.timeout(_LIMIT_S):
                await self._read_last(connection, decoder)
        except TimeoutError:
            raise StreamLost(f"The last transaction of the stream did not come within {_LIMIT_S:g} s.", True) from None
        if decoder.last != self.last:
            raise self._other_log()
        decoder.position = max(decoder.position, self.position)

    async def _read_last(self, connection: ReplicationConnection, decoder: Decoder) -> None:
        pgconn, start = connection.pgconn, self.last.start
        connection.send_status(start, start, wants_reply=True)
        while decoder.last is None:
            size, data = pgconn.get_copy_data(1)
            if size > 0:
                message = bytes(data)
                if message[0] == DATA:
                    decoder.feed(message, PAYLOAD)
                elif message[0] == ALIVE and not decoder.in_transaction and wal_end(message)[0] > start:
                    raise self._other_log()
            elif size < 0:
                raise_end(pgconn.get_result())
            elif await connection.readable(_ASK_S):
                pgconn.consume_input()
            else:
                connection.heard_s = time.monotonic()
                connection.send_status(start, start, wants_reply=True)

    def _other_log(self) -> StreamLost:
        return StreamLost(
            f"The database's log has another transaction at {format_lsn(self.last.start)} than before: it was replaced "
            "by an older copy.",
            retryable=True,
        )


async def write_transaction(ordinary: psycopg.AsyncConnection) -> None:
    """Commit a transaction that is in the stream and changes no table."""
    # It is flushed, whatever the role's setting, and does not wait for standbys.
    await ordinary.execute("SET synchronous_commit = local")
    await ordinary.execute("SELECT pg_catalog.pg_logical_emit_message(true, 'upquery', '')")


def wal_end(keepalive: bytes) -> tuple[int, bool]:
    """Return the position up to which the server has sent everything, and whether it asks for a status update."""
    _, position, _, wants_reply = _KEEPALIVE(keepalive)
    return position, bool(wants_reply)
