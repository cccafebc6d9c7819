"""The change stream of a PostgreSQL server, from one replication slot.

*Invariants*: `cdc.stream`. A broken connection is replaced by one that continues behind the last transaction decoded,
if the slot is permanent and still has the log from there on. Otherwise the stream is lost.

Not here: decoding (`pgoutput`), the connection (`replication`), the slot (`slot`), conditions of the continuation
(`resumption`), starting a new stream (`service.engine`).
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

import psycopg

from cdc.change import Batch, CommittedTransaction, StreamLost, TableLayout
from cdc.postgres import slot as slots
from cdc.postgres.delays import delay_reason
from cdc.postgres.failures import check_conninfo, classify, stream_hint
from cdc.postgres.pgoutput import Decoder, MalformedStream
from cdc.postgres.place import ALIVE, DATA, PAYLOAD, SlotPlace, wal_end, write_transaction
from cdc.postgres.publication import require_publication
from cdc.postgres.replication import ReplicationConnection, connect, raise_end, read_snapshot
from cdc.postgres.resumption import Resumption
from cdc.postgres.slot import TEMPORARY, Slot, SlotOptions
from cdc.stream import StreamPlace, StreamStart

log = logging.getLogger(__name__)

#: Maximum interval of status updates with a request for a reply; the server drops a client that is silent for long.
STATUS_S = 10.0
#: Maximum interval of requests for a reply, as a share of `silence_s`.
_ASKED_SHARE = 1 / 3
#: Seconds after which a stream that has not started is waiting for an open transaction.
PATIENT_S = 2.0
#: Minimum interval of acknowledgements.
ACKNOWLEDGE_S = 1.0
#: Messages decoded before the event loop runs other tasks, so that a huge transaction does not block them.
SLICE_MESSAGES = 2000
#: First and longest pause between two attempts to reconnect.
RETRY_S, LONGEST_RETRY_S = 0.05, 2.0
#: Maximum duration of dropping the slot when the stream is closed.
DROP_S = 3.0
#: Errors, by the code of `failures`, after which another connection may continue the stream: the server cannot be
#: reached, or has no connection to spare.
_PASSING = frozenset({"unavailable", "overloaded", "timeout"})


class PostgresStream:
    """Committed transactions of the followed tables, in commit order, from one replication slot.

    `tables` returns the layouts of the tables to follow by qualified name
    (`service.engine.databases.postgres.catalog`).

    A table that is added to `tables` later is like one just added to the publication: transactions that committed
    before, but are not yet visible to lookups, were skipped.

    *State*: `_resumption`, if the slot is permanent; `_broken`, the reason why the connection has ended; `_left`, the
    slot is not dropped when the stream is closed.
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
        slot: SlotOptions = TEMPORARY,
    ) -> None:
        self._conninfo = conninfo
        self._publication = publication
        self._tables = tables
        self._max_transaction_rows = max_transaction_rows
        self._start_timeout_s = start_timeout_s
        self._connect_timeout_s = connect_timeout_s
        self._slot_options = slot
        #: A connection that is silent for so long is broken if the database answers on another one: a proxy or
        #: firewall dropped it, or the server's process hangs.
        self._silence_s = silence_s
        self._status_s = min(STATUS_S, silence_s * _ASKED_SHARE)
        self._connection: ReplicationConnection | None = None
        self._resumption: Resumption | None = None
        self._broken: StreamLost | None = None
        #: No other connection can continue the stream.
        self._final = False
        #: The next batch is the first one of another connection.
        self._resumed = False
        self._closed = False
        self._left = False
        self._continued_at = ""
        #: Set once there is a place. While it is there, nothing is acknowledged.
        self._placed: asyncio.Event | None = None
        self._decoder = Decoder(0, max_transaction_rows)
        self._timer: asyncio.TimerHandle | None = None
        #: A decoded transaction that altered the schema, to be returned next.
        self._altering: CommittedTransaction | None = None
        #: Position of the last batch: an idle stream returns one batch for each position.
        self._reported = 0
        self._acknowledged = 0
        self._status_at = 0.0
        self._asked = False
        self._answered = False
        self.held_up: str | None = None

    async def start(self) -> StreamStart:
        """Connect, create the slot with its snapshot and start streaming. Raises StreamLost."""
        self._check_url()
        waiting = asyncio.get_running_loop().create_task(self._report_delay())
        try:
            async with asyncio.timeout(self._start_timeout_s):
                return await self._start()
        except TimeoutError:
            reason = await delay_reason(self._conninfo, self._connect_timeout_s)
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

    async def start_at(self, place: str) -> StreamStart:
        """Continue at a place if the slot certainly has all that follows it, else as `start`. Raises StreamLost."""
        self._check_url()
        try:
            async with asyncio.timeout(self._start_timeout_s):
                return await self._continue(SlotPlace.parse(place))
        except (StreamLost, ValueError) as problem:
            refusal = str(problem)
        except (psycopg.Error, TimeoutError) as problem:
            if self._is_passing(problem):
                await self.close()
                raise self._lost(problem) from None
            refusal = self._lost(problem).reason
        except BaseException:
            await self.close()
            raise
        await self._disconnect()
        return replace(await self.start(), refusal=refusal)

    def _check_url(self) -> None:
        try:
            check_conninfo(self._conninfo)
        except ValueError as problem:
            raise StreamLost(str(problem), retryable=False) from None

    async def _report_delay(self) -> None:
        await asyncio.sleep(PATIENT_S)
        self.held_up = await delay_reason(self._conninfo, self._connect_timeout_s)
        log.warning("the change stream cannot begin yet: %s", self.held_up)

    async def _start(self) -> StreamStart:
        async with await self._connect() as ordinary:
            await require_publication(ordinary, self._publication)
            slot = await slots.choose(ordinary, self._slot_options)
            connection = self._connection = await ReplicationConnection.open(self._conninfo, self._connect_timeout_s)
            server = await connection.identify()
            if slot.permanent:
                self._resumption = Resumption(slot, self._publication, server, {connection.pid})
            position, snapshot = await connection.create_slot(slot.name, ordinary, temporary=not slot.permanent)
        await connection.begin(slot.name, self._publication, 0)
        self._decoder = Decoder(snapshot.xmax, self._max_transaction_rows)
        self._decoder.position = self._reported = self._acknowledged = position
        self._timer = asyncio.get_running_loop().call_later(self._status_s, self._tick)
        return StreamStart(position, snapshot, server=str(server))

    async def _continue(self, place: SlotPlace) -> StreamStart:
        """Continue at a place, which is visible. Raises StreamLost if that is impossible, and psycopg's errors."""
        async with await self._connect() as ordinary:
            await require_publication(ordinary, self._publication)
            await place.check(ordinary, self._slot_options)
            snapshot = await read_snapshot(ordinary)
        resumption = Resumption(Slot(place.slot, permanent=True), self._publication, place.server)
        self._connection = await resumption.attempt(
            self._conninfo, self._connect_timeout_s, place.position, place.last.start
        )
        self._decoder = Decoder(place.last.xid, self._max_transaction_rows)
        await place.recognize(self._connection, self._decoder)
        self._resumption, self._left, self._continued_at = resumption, True, place.text()
        self._reported, self._acknowledged = self._decoder.position, place.last.start
        self._timer = asyncio.get_running_loop().call_later(self._status_s, self._tick)
        return StreamStart(self._reported, snapshot, server=str(resumption.server), continued=True)

    # ── The place ────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def place(self) -> StreamPlace | None:
        """The place behind the last batch, if it was wanted; None unless the slot has the last transaction."""
        resumption, decoder, connection = self._resumption, self._decoder, self._connection
        last, position = decoder.last, self._reported
        if self._placed is None or resumption is None or connection is None or last is None:
            return None
        if last.start < self._acknowledged or position != decoder.position or self._altering is not None:
            return None
        server = resumption.server
        place = SlotPlace(server.system, server.timeline, connection.version, resumption.slot.name, position, last)
        return StreamPlace(position, place.text(), hidden=True)

    async def mark_place(self) -> None:
        """Write a transaction, unless there is one since the last acknowledgement, and wait until it has been read.
        Nothing is acknowledged from then on. Return at once if the slot may not be left behind."""
        if self._resumption is None or not (self._resumption.slot.bounded and self._slot_options.outlives_service):
            return
        self._placed = placed = asyncio.Event()
        if self.place is None:
            try:
                async with await self._connect() as ordinary:
                    await write_transaction(ordinary)
            except psycopg.Error as problem:
                log.warning("the place of the change stream could not be marked: %s", self._lost(problem))
            await placed.wait()

    async def refusal(self, place: str) -> str:
        """Return "" for the very place at which the stream was continued: no later transaction was compared."""
        return "" if place == self._continued_at else "The stream continues at an earlier place, of another engine."

    def unmark(self) -> None:
        """Give up the place: from now on the server may discard what is acknowledged."""
        self._placed = None

    def leave(self) -> None:
        """Let the slot be when the stream is closed."""
        self._left = True

    def reconnect(self) -> None:
        """Break the connection; `next_batch` replaces it."""
        if self._connection is not None:
            self._connection.shut_down()

    async def _connect(self) -> psycopg.AsyncConnection:
        return await connect(self._conninfo, self._connect_timeout_s)

    # ── The stream ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for transactions, notices, or a later position. Raises StreamLost."""
        while True:
            if self._altering is not None:
                return self._altered(self._altering)
            if self._broken is not None:
                await self._resume(self._broken)
            transactions, more = self._drain(max_rows)
            if (transactions or more) and self._connection is not None:
                self._connection.heard_s = time.monotonic()
            if transactions and self._decoder.altered:
                self._altering = transactions.pop()
                if not transactions:
                    continue
            batch = self._batch(transactions)
            if batch is not None:
                return batch
            if more:
                await asyncio.sleep(0)
            else:
                await self._wait()

    def _batch(self, transactions: list[CommittedTransaction]) -> Batch | None:
        position = self._decoder.position if self._altering is None else transactions[-1].end
        notices = self._decoder.take_notices()
        if not (transactions or notices or self._answered or self._resumed or position > self._reported):
            return None
        self._answered = False
        self._reported = position
        return self._resumed_batch(Batch(transactions, position, notices))

    def _resumed_batch(self, batch: Batch) -> Batch:
        """Return a batch that says whether it is the first one of another connection, and of which server."""
        batch.resumed, self._resumed = self._resumed, False
        if batch.resumed and self._resumption is not None:
            batch.server = str(self._resumption.server)
        return batch

    def _altered(self, transaction: CommittedTransaction) -> Batch:
        """Return the batch of a transaction that altered the schema, the last one that was decoded."""
        self._altering = None
        self._answered = False
        self._reported = self._decoder.position
        transactions = [transaction] if transaction.tables else []
        altered = (transaction.id, transaction.end)
        return self._resumed_batch(Batch(transactions, self._reported, self._decoder.take_notices(), altered=altered))

    def _drain(self, max_rows: int) -> tuple[list[CommittedTransaction], bool]:
        """Decode without waiting; return the transactions, and whether more may be ready.

        A transaction that altered the schema is the last one. Those decoded before the connection broke are returned.
        """
        if self._connection is None:
            raise StreamLost("The stream is closed.", retryable=True)
        connection = self._connection
        pgconn = connection.pgconn
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
                    if message[0] == DATA:
                        transaction = feed(message, PAYLOAD)
                        if transaction is not None:
                            transactions.append(transaction)
                            rows += decoder.rows
                            if rows >= max_rows or decoder.altered:
                                return transactions, True
                    elif message[0] == ALIVE:
                        self._alive(message)
                elif size == 0:
                    if consumed:
                        return transactions, False
                    pgconn.consume_input()
                    consumed = True
                    continue
                else:
                    raise_end(pgconn.get_result())
                consumed = False
        except psycopg.Error as problem:
            self._break(problem)
        except MalformedStream as problem:
            raise StreamLost(f"The change stream could not be decoded: {problem}.", retryable=True) from problem
        return transactions, True

    def _alive(self, message: bytes) -> None:
        position, wants_reply = wal_end(message)
        self._decoder.advance(position)
        if self._asked:
            self._asked = False
            self._answered = True
        if wants_reply:
            self._send_status()

    async def _wait(self) -> None:
        """Wait until the server has sent something, or the connection is broken."""
        assert self._connection is not None
        try:
            heard = await self._connection.readable(self._silence_s)
        except psycopg.Error as problem:
            self._break(problem)
            return
        if not heard and await self._database_answers():
            self._broken = StreamLost(
                f"The change stream was silent for {self._silence_s:g} s, and the database answers otherwise.",
                retryable=True,
            )

    async def _database_answers(self) -> bool:
        """Return whether the database answers on another connection; if not, the time of silence starts again."""
        assert self._connection is not None
        self._connection.heard_s = time.monotonic()
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
        """Allow the server to remove the log up to `position`, unless a place is wanted."""
        if self._placed is not None:
            if position == self._reported and self.place is not None:
                self._placed.set()
        elif position > self._acknowledged:
            self._left = False
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
        self._status_at = time.monotonic()
        self._connection.send_status(written, self._acknowledged, wants_reply=wants_reply)

    async def close(self) -> None:
        """Close the connection and drop the slot, unless it is left behind."""
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        await self._disconnect()
        resumption, self._resumption = self._resumption, None
        if resumption is not None and not self._left:
            await self._drop(resumption)

    async def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            await connection.close()

    async def _drop(self, resumption: Resumption) -> None:
        name = resumption.slot.name
        try:
            async with asyncio.timeout(DROP_S), await self._connect() as ordinary:
                if await resumption.drop(ordinary):
                    return
            reason = "it is in use"
        except (psycopg.Error, TimeoutError) as problem:
            reason = classify(problem, self._conninfo).detail
        log.warning(
            "the slot %s could not be dropped (%s); the next start of this service drops it. Otherwise, run: "
            "SELECT pg_drop_replication_slot('%s');",
            name,
            reason,
            name,
        )

    # ── Broken connections ───────────────────────────────────────────────────────────────────────────────────────────

    def _break(self, problem: psycopg.Error) -> None:
        """Note that the connection has ended; `next_batch` replaces it, or raises StreamLost."""
        self._broken = self._lost(problem)
        # Another connection would end with the same error of the server.
        self._final = problem.sqlstate is not None and not self._is_passing(problem)

    def _is_passing(self, problem: BaseException) -> bool:
        if isinstance(problem, psycopg.errors.ObjectInUse):
            return True
        return classify(problem, self._conninfo).code in _PASSING

    async def _resume(self, broken: StreamLost) -> None:
        """Continue on another connection, with growing pauses while the server cannot be reached. Raises StreamLost."""
        resumption = self._resumption
        if resumption is None or self._final or self._closed:
            raise broken
        await self._disconnect()
        log.warning("the connection of the change stream broke, and is replaced: %s", broken)
        delay_s, said = RETRY_S, ""
        while (problem := await self._reopen(resumption)) is not None:
            if problem.reason != said:
                said = problem.reason
                log.warning("the change stream cannot continue yet: %s", problem)
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_RETRY_S)
        self._broken = None
        self._resumed = True
        self._decoder.restart()
        if self._asked:
            self._send_status(wants_reply=True)
        log.warning("the change stream continues from the slot %s; nothing is lost", resumption.slot.name)

    async def _reopen(self, resumption: Resumption) -> StreamLost | None:
        """Try to continue on a new connection; return the reason if a later attempt may succeed. Raises StreamLost."""
        try:
            async with asyncio.timeout(2 * self._connect_timeout_s + slots.RELEASE_S):
                self._connection = await resumption.attempt(
                    self._conninfo, self._connect_timeout_s, self._decoder.position
                )
        except (psycopg.Error, TimeoutError) as problem:
            if not self._is_passing(problem):
                raise self._lost(problem) from None
            if classify(problem, self._conninfo).code != "unavailable":
                await self._free(resumption)
            return self._lost(problem)
        return None

    async def _free(self, resumption: Resumption) -> None:
        """Free what the broken connection still uses on a server that answers. Raises StreamLost if the slot was
        dropped because it holds too much."""
        try:
            async with asyncio.timeout(self._connect_timeout_s), await self._connect() as ordinary:
                await resumption.free(ordinary, self._slot_options.keep_bytes)
        except (psycopg.Error, TimeoutError):
            # The next attempt reports it.
            return

    # ── Failures ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def _lost(self, problem: BaseException) -> StreamLost:
        failure = classify(problem, self._conninfo)
        return StreamLost(failure.detail, failure.retryable, stream_hint(failure, problem, self._conninfo))
