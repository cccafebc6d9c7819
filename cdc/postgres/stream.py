"""The change stream of a PostgreSQL server: one replication connection, one temporary slot.

psycopg has no replication API, so this uses the streaming replication protocol (PostgreSQL manual, "Streaming
Replication Protocol") through libpq's copy functions, without blocking the event loop.

*Invariants*: `cdc.stream`.

Not here: decoding (`pgoutput`), starting a new stream (`service.engine`).
"""

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Mapping
from struct import Struct
from typing import Any, NoReturn

import psycopg
from psycopg import sql
from psycopg.pq import ExecStatus

from cdc.change import Batch, CommittedTransaction, StreamLost, TableLayout
from cdc.postgres.failures import PostgresFailure, check_conninfo, classify, replication_hint
from cdc.postgres.pgoutput import Decoder, MalformedStream
from cdc.postgres.position import PostgresSnapshot, parse_lsn
from cdc.postgres.session import keepalive_parameters, session_sql
from cdc.stream import StreamStart

log = logging.getLogger(__name__)

_STATUS = Struct("!cQQQqB").pack
_KEEPALIVE = Struct("!cQqB").unpack_from
_DATA, _ALIVE = b"wk"
#: Offset of the message in a data message, behind kind, start, end and time.
_PAYLOAD = 25
#: 2000-01-01, PostgreSQL's epoch, in Unix seconds.
_EPOCH_S = 946_684_800

#: Maximum interval of status updates with a request for a reply; the server drops a client that is silent for
#: `_SENDER_PATIENCE`.
STATUS_S = 10.0
#: Maximum interval of requests for a reply, as a share of `silence_s`.
_ASKED_SHARE = 1 / 3
#: Seconds after which a stream that has not started is waiting for an open transaction.
PATIENT_S = 2.0
#: The oldest transaction with an id: its backend, or the name under which it is prepared.
_OLDEST = """
SELECT pid, gid, role, extract(epoch FROM now() - began)::int, statement FROM (
    SELECT pid, NULL AS gid, usename AS role, xact_start AS began,
           left(regexp_replace(query, '\\s+', ' ', 'g'), 100) AS statement
    FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL
    UNION ALL SELECT NULL, gid, owner, prepared, NULL FROM pg_catalog.pg_prepared_xacts) open
ORDER BY began LIMIT 1
"""
#: ``wal_sender_timeout`` of the connection. Long: the process does not answer while one step fills a view of millions
#: of rows, and a stream dropped then would have to fill it again, endlessly.
_SENDER_PATIENCE = b"10min"
#: Minimum interval of acknowledgements.
ACKNOWLEDGE_S = 1.0
#: Messages decoded before the event loop runs other tasks, so that a huge transaction does not block them.
SLICE_MESSAGES = 2000


class PostgresStream:
    """Committed transactions of the followed tables, in commit order, from one replication slot.

    `tables` returns the layouts of the tables to follow by qualified name
    (`service.engine.databases.postgres.catalog`).

    A table that is added to `tables` later is like one just added to the publication: transactions that committed
    before, but are not yet visible to lookups, were skipped.
    """

    def __init__(
        self,
        conninfo: str,
        publication: str,
        tables: Callable[[], Mapping[str, TableLayout]],
        max_transaction_rows: int,
        start_timeout_s: float = 60.0,
        connect_timeout_s: float = 10.0,
        silence_s: float = 30.0,
    ) -> None:
        self._conninfo = conninfo
        self._publication = publication
        self._tables = tables
        self._max_transaction_rows = max_transaction_rows
        self._start_timeout_s = start_timeout_s
        self._connect_timeout_s = connect_timeout_s
        #: A stream that is silent for so long is lost if the database answers on another connection: a proxy or
        #: firewall dropped it, or the server's process hangs.
        self._silence_s = silence_s
        self._status_s = min(STATUS_S, silence_s * _ASKED_SHARE)
        self._connection: psycopg.AsyncConnection | None = None
        self._decoder = Decoder(0, max_transaction_rows)
        self._timer: asyncio.TimerHandle | None = None
        #: A decoded transaction that altered the schema, to be returned next.
        self._altering: CommittedTransaction | None = None
        #: Position of the last batch: an idle stream returns one batch for each position.
        self._reported = 0
        self._acknowledged = 0
        self._status_at = 0.0
        #: Time of the server's last message.
        self._heard_s = 0.0
        self._asked = False
        self._answered = False
        self.held_up: str | None = None

    async def start(self) -> StreamStart:
        """Connect, create the slot with its snapshot and start streaming. Raises StreamLost."""
        try:
            check_conninfo(self._conninfo)
        except ValueError as problem:
            raise StreamLost(str(problem), retryable=False) from None
        waiting = asyncio.get_running_loop().create_task(self._report_delay())
        try:
            async with asyncio.timeout(self._start_timeout_s):
                return await self._start()
        except TimeoutError:
            reason = await self._delay_reason()
            await self.close()
            raise StreamLost(f"The replication slot could not be created in time: {reason}", retryable=True) from None
        except psycopg.Error as problem:
            await self.close()
            raise self._lost(problem) from None
        except BaseException:
            await self.close()
            raise
        finally:
            waiting.cancel()
            self.held_up = None

    async def _report_delay(self) -> None:
        await asyncio.sleep(PATIENT_S)
        self.held_up = await self._delay_reason()
        log.warning("the change stream cannot begin yet: %s", self.held_up)

    async def _start(self) -> StreamStart:
        async with await self._connect() as ordinary:
            await self._check_publication(ordinary)
            self._connection = await self._connect(replication="database")
            await self._connection.execute(session_sql().encode())
            await self._connection.execute(b"SET wal_sender_timeout = '%s'" % _SENDER_PATIENCE)
            identified = await (await self._connection.execute(b"IDENTIFY_SYSTEM")).fetchone()
            assert identified is not None
            name = f"upquery_{secrets.token_hex(8)}"
            created = await (await self._connection.execute(_create_slot(name))).fetchone()
            assert created is not None  # A CREATE_REPLICATION_SLOT that does not fail returns one row.
            position, exported = parse_lsn(created[1]), created[2]
            snapshot = await _import_snapshot(ordinary, exported)
        await self._start_streaming(name)
        self._decoder = Decoder(snapshot.xmax, self._max_transaction_rows)
        self._decoder.position = self._reported = self._acknowledged = position
        self._timer = asyncio.get_running_loop().call_later(self._status_s, self._tick)
        return StreamStart(position, snapshot, server=f"system {identified[0]}, timeline {int(identified[1]):08X}")

    async def _connect(self, **parameters: Any) -> psycopg.AsyncConnection:
        return await psycopg.AsyncConnection.connect(
            self._conninfo,
            autocommit=True,
            client_encoding="UTF8",
            application_name="upquery cdc",
            connect_timeout=max(2, round(self._connect_timeout_s)),
            prepare_threshold=None,
            **keepalive_parameters(self._conninfo),
            **parameters,
        )

    async def _check_publication(self, ordinary: psycopg.AsyncConnection) -> None:
        """Check that the publication exists: newer servers stream nothing, without an error, if it does not."""
        found = await ordinary.execute("SELECT FROM pg_catalog.pg_publication WHERE pubname = %s", [self._publication])
        if await found.fetchone() is None:
            raise StreamLost(
                f"The publication {self._publication} does not exist.",
                False,
                hint=f"Run: {create_publication_sql(self._publication)}",
            )

    async def _start_streaming(self, slot: str) -> None:
        assert self._connection is not None
        pgconn = self._connection.pgconn
        options = {"proto_version": "1", "publication_names": f'"{self._publication.replace(chr(34), chr(34) * 2)}"'}
        if pgconn.server_version >= 140000:
            # A transactional logical message is flushed at once, which moves an idle stream forward.
            options["messages"] = "true"
        written = sql.SQL(", ").join(
            sql.SQL("{} {}").format(sql.SQL(key), sql.Literal(value)) for key, value in options.items()
        )
        command = sql.SQL("START_REPLICATION SLOT {} LOGICAL 0/0 ({})").format(sql.Identifier(slot), written)
        pgconn.send_query(command.as_bytes(self._connection))
        pgconn.flush()
        while pgconn.is_busy():
            self._heard_s = time.monotonic()
            await self._readable()
            pgconn.consume_input()
        result = pgconn.get_result()
        if result is None or result.status != ExecStatus.COPY_BOTH:
            self._ended(result)

    async def _delay_reason(self) -> str:
        """Return a sentence on the oldest open transaction: a slot starts when all open transactions have ended."""
        try:
            async with asyncio.timeout(self._connect_timeout_s), await self._connect() as ordinary:
                oldest = await (await ordinary.execute(_OLDEST)).fetchone()
        except (psycopg.Error, TimeoutError):
            oldest = None
        if oldest is None:
            return "no open transaction is known that would delay it."
        pid, prepared, role, open_s, statement = oldest
        if prepared is not None:
            name = sql.Literal(prepared).as_string()
            who, end = f"prepared as {name} by {role},", f"COMMIT PREPARED {name}; or ROLLBACK PREPARED {name};"
        else:
            who = f"of process {pid} ({role}, last statement: {statement}),"
            end = f"SELECT pg_terminate_backend({pid});"
        return (
            f"it waits for transactions that were open before; the oldest, {who} has been open for {open_s} s. End it, "
            f"or run: {end}"
        )

    # ── The stream ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for transactions, notices, or a later position. Raises StreamLost."""
        while True:
            if self._altering is not None:
                return self._altered(self._altering)
            transactions, more = self._drain(max_rows)
            if transactions or more:
                self._heard_s = time.monotonic()
            if transactions and self._decoder.altered:
                self._altering = transactions.pop()
                if not transactions:
                    continue
            position = self._decoder.position if self._altering is None else transactions[-1].end
            notices = self._decoder.take_notices()
            if transactions or notices or self._answered or position > self._reported:
                self._answered = False
                self._reported = position
                return Batch(transactions, position, notices)
            if more:
                await asyncio.sleep(0)
            elif not await self._readable() and await self._database_answers():
                raise StreamLost(
                    f"The change stream was silent for {self._silence_s:g} s, and the database answers otherwise.",
                    retryable=True,
                )

    def _altered(self, transaction: CommittedTransaction) -> Batch:
        """Return the batch of a transaction that altered the schema, the last one that was decoded."""
        self._altering = None
        self._answered = False
        self._reported = self._decoder.position
        transactions = [transaction] if transaction.tables else []
        altered = (transaction.id, transaction.end)
        return Batch(transactions, self._reported, self._decoder.take_notices(), altered=altered)

    def _drain(self, max_rows: int) -> tuple[list[CommittedTransaction], bool]:
        """Decode without waiting; return the transactions, and whether more may be ready.

        A transaction that altered the schema is the last one.
        """
        if self._connection is None:
            raise StreamLost("The stream is closed.", retryable=True)
        pgconn = self._connection.pgconn
        decoder = self._decoder
        decoder.follow(self._tables())
        feed, receive = decoder.feed, pgconn.get_copy_data
        transactions: list[CommittedTransaction] = []
        rows = 0
        consumed = False
        try:
            for _ in range(SLICE_MESSAGES):
                size, data = receive(1)
                if size > 0:
                    message = bytes(data)
                    if message[0] == _DATA:
                        transaction = feed(message, _PAYLOAD)
                        if transaction is not None:
                            transactions.append(transaction)
                            rows += decoder.rows
                            if rows >= max_rows or decoder.altered:
                                return transactions, True
                    elif message[0] == _ALIVE:
                        self._alive(message)
                elif size == 0:
                    if consumed:
                        return transactions, False
                    pgconn.consume_input()
                    consumed = True
                    continue
                else:
                    self._ended(pgconn.get_result())
                consumed = False
        except psycopg.Error as problem:
            raise self._lost(problem) from None
        except MalformedStream as problem:
            raise StreamLost(f"The change stream could not be decoded: {problem}.", retryable=True) from problem
        return transactions, True

    def _alive(self, message: bytes) -> None:
        _, wal_end, _, wants_reply = _KEEPALIVE(message)
        self._decoder.advance(wal_end)
        if self._asked:
            self._asked = False
            self._answered = True
        if wants_reply:
            self._send_status()

    async def _readable(self) -> bool:
        """Wait until the server has sent something; return False if it is silent for too long.

        The socket is watched only meanwhile: a readable socket that is not read would spin the loop.
        """
        assert self._connection is not None
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        try:
            socket = self._connection.pgconn.socket
        except psycopg.Error as problem:
            raise self._lost(problem) from None
        loop.add_reader(socket, _settle, ready, True)
        # Measured from the last message, since the wait may have been cancelled and repeated.
        silence = loop.call_later(self._heard_s + self._silence_s - time.monotonic(), _settle, ready, False)
        try:
            heard = bool(await ready)
        finally:
            silence.cancel()
            loop.remove_reader(socket)
        if heard:
            self._heard_s = time.monotonic()
        return heard

    async def _database_answers(self) -> bool:
        """Return whether the database answers on another connection; if not, the time of silence starts again."""
        self._heard_s = time.monotonic()
        try:
            async with asyncio.timeout(self._connect_timeout_s), await self._connect() as other:
                await other.execute("SELECT 1")
        except (psycopg.Error, TimeoutError):
            return False
        return True

    # ── Status updates ───────────────────────────────────────────────────────────────────────────────────────────────

    def request_position(self) -> None:
        """Ask the server for its position; `next_batch` returns when it answers (0.1 ms)."""
        self._asked = True
        self._send_status(wants_reply=True)

    async def wait_followed(self) -> None:
        """Return at once: the decoder applies layouts from the next transaction on."""

    def acknowledge(self, position: int) -> None:
        """Allow the server to remove the log up to `position`."""
        if position > self._acknowledged:
            self._acknowledged = position
            if time.monotonic() - self._status_at >= ACKNOWLEDGE_S:
                self._send_status()

    def _tick(self) -> None:
        self._send_status(wants_reply=True)
        self._timer = asyncio.get_running_loop().call_later(self._status_s, self._tick)

    def _send_status(self, wants_reply: bool = False) -> None:
        """Send a status update; `next_batch` raises the error of a broken connection."""
        if self._connection is None:
            return
        written = max(self._decoder.position, self._acknowledged)
        now_us = int((time.time() - _EPOCH_S) * 1_000_000)
        status = _STATUS(b"r", written, self._acknowledged, self._acknowledged, now_us, wants_reply)
        self._status_at = time.monotonic()
        try:
            self._connection.pgconn.put_copy_data(status)
            self._connection.pgconn.flush()
        except psycopg.Error:
            pass

    async def close(self) -> None:
        """Close the connection, which drops the temporary slot."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    # ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ended(self, result: psycopg.pq.abc.PGresult | None) -> NoReturn:
        """Raise StreamLost for the end of the stream, with the server's error if it sent one."""
        if result is None or result.status != ExecStatus.FATAL_ERROR:
            raise StreamLost("The server ended the change stream.", retryable=True)
        raise self._lost(psycopg.errors.error_from_result(result))

    def _lost(self, problem: BaseException) -> StreamLost:
        failure = classify(problem, self._conninfo)
        return StreamLost(
            failure.detail, failure.retryable, _hint_for(failure, getattr(problem, "sqlstate", None), self._conninfo)
        )


def _settle(ready: "asyncio.Future[bool]", result: bool) -> None:
    if not ready.done():
        ready.set_result(result)


def _create_slot(name: str) -> sql.Composed:
    return sql.SQL("CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput (SNAPSHOT 'export')").format(
        sql.Identifier(name)
    )


async def _import_snapshot(ordinary: psycopg.AsyncConnection, exported: str) -> PostgresSnapshot:
    """Return the slot's snapshot. It is valid until the slot's connection runs another command."""
    async with ordinary.transaction():
        await ordinary.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        await ordinary.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported)))
        row = await (await ordinary.execute("SELECT pg_catalog.pg_current_snapshot()::text")).fetchone()
    assert row is not None
    return PostgresSnapshot.parse(row[0])


def create_publication_sql(publication: str) -> str:
    """Return the statement that creates an empty publication; tables are added as views need them."""
    return f'CREATE PUBLICATION "{publication.replace(chr(34), chr(34) * 2)}";'


def _hint_for(failure: PostgresFailure, state: str | None, conninfo: str) -> str | None:
    if "wal_level" in failure.detail:
        return "Run: ALTER SYSTEM SET wal_level = 'logical'; and restart PostgreSQL."
    if state == "53400":
        return "Raise max_replication_slots: ALTER SYSTEM SET max_replication_slots = 20; and restart PostgreSQL."
    if state == "42501" and failure.hint is None:
        return replication_hint(conninfo)
    return failure.hint
