"""The change stream of a PostgreSQL server: one replication connection, one temporary slot.

psycopg has no replication API, so this speaks the streaming replication protocol (PostgreSQL manual, "Streaming
Replication Protocol") through libpq's copy functions, without ever blocking the loop.

*Invariants*: `position` never goes back, and everything that committed at or before it has been returned. Continuity is
all or nothing: after `StreamLost` the source is of no use, a new one starts at a new snapshot.

Not here: the messages' meaning (`postgres.pgoutput`), starting again (`service.runtime`).
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
from cdc.postgres.session import liveliness, session_sql
from cdc.stream import StreamStart

log = logging.getLogger(__name__)

_STATUS = Struct("!cQQQqB").pack
_KEEPALIVE = Struct("!cQqB").unpack_from
_DATA, _ALIVE = b"wk"
#: Of the message in a data message: kind, start, end and time come before it.
_PAYLOAD = 25
#: 2000-01-01, PostgreSQL's epoch, in Unix seconds.
_EPOCH_S = 946_684_800

#: How often the server hears from us at least, and is asked for a reply; it drops who is silent for `_SENDER_PATIENCE`.
STATUS_S = 10.0
#: Of the time for which the server may be silent, what passes between two requests for a reply at most.
_ASKED_SHARE = 1 / 3
#: A stream that has not begun by then waits for somebody.
PATIENT_S = 2.0
#: Of the transactions that have an id, the oldest: of which backend, or prepared under which name.
_OLDEST = """
SELECT pid, gid, role, extract(epoch FROM now() - began)::int, statement FROM (
    SELECT pid, NULL AS gid, usename AS role, xact_start AS began,
           left(regexp_replace(query, '\\s+', ' ', 'g'), 100) AS statement
    FROM pg_catalog.pg_stat_activity WHERE backend_xid IS NOT NULL
    UNION ALL SELECT NULL, gid, owner, prepared, NULL FROM pg_catalog.pg_prepared_xacts) open
ORDER BY began LIMIT 1
"""
#: ``wal_sender_timeout`` of our connection. Long: nobody answers while one step fills a view of millions of rows, and
#: to be dropped then would mean to begin it again, for ever.
_SENDER_PATIENCE = b"10min"
#: How often an acknowledgement is sent on at most.
ACKNOWLEDGE_S = 1.0
#: Messages decoded before the loop gets a turn: a huge transaction must not stop everything else.
SLICE_MESSAGES = 2000


class PostgresStream:
    """Committed transactions of the followed tables, in commit order, from one replication slot.

    Used by one task. `tables` gives the layouts of the tables to follow by qualified name (as
    `service.engine.databases.postgres.catalog` makes them); it is asked anew before transactions are decoded, others
    are skipped unread.

    A table that becomes one of `tables` later on is like one just added to the publication: transactions that committed
    before, but that a lookup may not see yet, went by unread.
    """

    def __init__(
        self,
        conninfo: str,
        publication: str,
        tables: Callable[[], Mapping[str, TableLayout]],
        max_transaction_rows: int = 200_000,
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
        #: A stream in which nothing comes for so long is lost, if the database answers otherwise: a proxy or a firewall
        #: has forgotten it, or the server's process hangs.
        self._silence_s = silence_s
        self._status_s = min(STATUS_S, silence_s * _ASKED_SHARE)
        self._connection: psycopg.AsyncConnection | None = None
        self._decoder = Decoder(0, max_transaction_rows)
        self._timer: asyncio.TimerHandle | None = None
        #: A transaction that altered the schema, decoded and not returned yet.
        self._altering: CommittedTransaction | None = None
        #: What the last batch said, so that an idle stream is told of once.
        self._reported = 0
        self._acknowledged = 0
        self._status_at = 0.0
        #: When the server last sent something.
        self._heard_s = 0.0
        self._asked = False
        self._answered = False
        #: The transaction that it waits for before it can begin, in words.
        self.held_up: str | None = None

    async def start(self) -> StreamStart:
        """Connect, create the slot with its snapshot and start streaming. Raises StreamLost."""
        try:
            check_conninfo(self._conninfo)
        except ValueError as problem:
            raise StreamLost(str(problem), retryable=False) from None
        waiting = asyncio.get_running_loop().create_task(self._say_who_is_waited_for())
        try:
            async with asyncio.timeout(self._start_timeout_s):
                return await self._start()
        except TimeoutError:
            reason = await self._why_waiting()
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

    async def _say_who_is_waited_for(self) -> None:
        await asyncio.sleep(PATIENT_S)
        self.held_up = await self._why_waiting()
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
            **liveliness(self._conninfo),
            **parameters,
        )

    async def _check_publication(self, ordinary: psycopg.AsyncConnection) -> None:
        """Newer servers stream nothing at all, instead of an error, for a publication that is not there."""
        found = await ordinary.execute("SELECT FROM pg_catalog.pg_publication WHERE pubname = %s", [self._publication])
        if await found.fetchone() is None:
            raise StreamLost(
                f"There is no publication {self._publication}.",
                False,
                hint=f"Run: {create_publication_sql(self._publication)}",
            )

    async def _start_streaming(self, slot: str) -> None:
        assert self._connection is not None
        pgconn = self._connection.pgconn
        options = {"proto_version": "1", "publication_names": f'"{self._publication.replace(chr(34), chr(34) * 2)}"'}
        if pgconn.server_version >= 140000:
            # A transactional logical message arrives at once: how a stream is pushed past what nobody flushes.
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

    async def _why_waiting(self) -> str:
        """A slot starts at a moment when all transactions that were open have ended; say which one does not."""
        try:
            async with asyncio.timeout(self._connect_timeout_s), await self._connect() as ordinary:
                oldest = await (await ordinary.execute(_OLDEST)).fetchone()
        except (psycopg.Error, TimeoutError):
            oldest = None
        if oldest is None:
            return "no transaction is known that it would wait for."
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
        """Wait for something: whole transactions (up to the first that brings the rows to `max_rows`), or an advance.

        Raises StreamLost. Cancelling it loses nothing.
        """
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
            elif not await self._readable() and await self._answers_otherwise():
                raise StreamLost(
                    f"Nothing came in the change stream for {self._silence_s:g} s, and the database answers otherwise.",
                    retryable=True,
                )

    def _altered(self, transaction: CommittedTransaction) -> Batch:
        """The batch of a transaction that altered the schema. The decoder has not gone on behind it."""
        self._altering = None
        self._answered = False
        self._reported = self._decoder.position
        transactions = [transaction] if transaction.tables else []
        altered = (transaction.id, transaction.end)
        return Batch(transactions, self._reported, self._decoder.take_notices(), altered=altered)

    def _drain(self, max_rows: int) -> tuple[list[CommittedTransaction], bool]:
        """What can be decoded now without waiting, and whether there may be more. It ends with a transaction that
        altered the schema."""
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
        """Wait until the server has sent something. Watched only meanwhile: who does not read must not spin. False: it
        has not, for too long."""
        assert self._connection is not None
        loop = asyncio.get_running_loop()
        ready = loop.create_future()
        try:
            socket = self._connection.pgconn.socket
        except psycopg.Error as problem:
            raise self._lost(problem) from None
        loop.add_reader(socket, _settle, ready, True)
        # It may have been waited for several times since: who waits may be cancelled.
        silence = loop.call_later(self._heard_s + self._silence_s - time.monotonic(), _settle, ready, False)
        try:
            heard = bool(await ready)
        finally:
            silence.cancel()
            loop.remove_reader(socket)
        if heard:
            self._heard_s = time.monotonic()
        return heard

    async def _answers_otherwise(self) -> bool:
        """Whether the database answers on another connection. If not, silence begins anew."""
        self._heard_s = time.monotonic()
        try:
            async with asyncio.timeout(self._connect_timeout_s), await self._connect() as other:
                await other.execute("SELECT 1")
        except (psycopg.Error, TimeoutError):
            return False
        return True

    # ── What we tell the server ──────────────────────────────────────────────────────────────────────────────────────

    def request_position(self) -> None:
        """Ask the server how far the stream is; `next_batch` returns when it answers (0.1 ms)."""
        self._asked = True
        self._send_status(wants_reply=True)

    async def wait_followed(self) -> None:
        """At once."""

    def acknowledge(self, position: int) -> None:
        """What ends at or before `position` will never be asked for again: the server may drop its log."""
        if position > self._acknowledged:
            self._acknowledged = position
            if time.monotonic() - self._status_at >= ACKNOWLEDGE_S:
                self._send_status()

    def _tick(self) -> None:
        self._send_status(wants_reply=True)
        self._timer = asyncio.get_running_loop().call_later(self._status_s, self._tick)

    def _send_status(self, wants_reply: bool = False) -> None:
        """A connection that is gone is noticed, and told of, by `next_batch`."""
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
        """End the connection; the temporary slot goes with it."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    # ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _ended(self, result: psycopg.pq.abc.PGresult | None) -> NoReturn:
        """The server ended the stream, with an error or without."""
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
    """The transactions that the slot's snapshot sees. Possible only until the slot's connection runs anything else."""
    async with ordinary.transaction():
        await ordinary.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
        await ordinary.execute(sql.SQL("SET TRANSACTION SNAPSHOT {}").format(sql.Literal(exported)))
        row = await (await ordinary.execute("SELECT pg_catalog.pg_current_snapshot()::text")).fetchone()
    assert row is not None
    return PostgresSnapshot.parse(row[0])


def create_publication_sql(publication: str) -> str:
    """The statement that makes an empty publication; tables are added to it as views need them."""
    return f'CREATE PUBLICATION "{publication.replace(chr(34), chr(34) * 2)}";'


def _hint_for(failure: PostgresFailure, state: str | None, conninfo: str) -> str | None:
    if "wal_level" in failure.detail:
        return "Run: ALTER SYSTEM SET wal_level = 'logical'; and restart PostgreSQL."
    if state == "53400":
        return "Raise max_replication_slots: ALTER SYSTEM SET max_replication_slots = 20; and restart PostgreSQL."
    if state == "42501" and failure.hint is None:
        return replication_hint(conninfo)
    return failure.hint
