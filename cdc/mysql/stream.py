"""The change stream of a MariaDB or MySQL server, from its binary log.

*Invariants*: `cdc.stream`. The stream begins at a position that every later snapshot covers; a broken connection is
replaced by one that continues after the last complete transaction, if the server still has the same log there.

A position is a file and an offset of one server's log, as in snapshots of lookups: GTIDs identify the log, they are not
positions. Another server, even one with the same transactions, is another stream.

Not here: events (`assembler`), the connections (`dump`, `server`).
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pymysql

from cdc.change import Batch, CommittedTransaction, StreamLost, TableLayout
from cdc.gtid import GtidPosition
from cdc.mysql import server
from cdc.mysql.assembler import BinlogAssembler, MalformedLog
from cdc.mysql.bracket import BracketSnapshot
from cdc.mysql.dump import Dump, DumpEnded, open_dump
from cdc.mysql.failures import lost, may_reconnect
from cdc.mysql.place import BinlogPlace
from cdc.mysql.position import BinlogSnapshot, position_of
from cdc.mysql.server import Server
from cdc.stream import StreamPlace, StreamStart

#: Events decoded before the event loop runs other tasks, so that a huge transaction does not block them.
SLICE_EVENTS = 2000
#: Heartbeats with a position before the end of the log after which a connection is replaced.
PATIENT_HEARTBEATS = 3
#: First and longest pause between two attempts to reconnect.
RETRY_S, LONGEST_RETRY_S = 0.05, 2.0
#: Largest offset that the request for the log can name.
_LARGEST_OFFSET = (1 << 32) - 1

T = TypeVar("T")

_BROKEN = (pymysql.err.Error, OSError, DumpEnded)


class MySqlStream:
    """Committed transactions of the followed tables, in commit order, from the binary log.

    `options` are those of ``pymysql.connect``. `tables` returns the layouts of the tables to follow, with
    `column_types`, by `names.qualified_name`.

    A table that is added to `tables` later lacks the changes before the stream's position.
    """

    held_up: str | None = None

    def __init__(
        self,
        options: Mapping[str, Any],
        tables: Callable[[], Mapping[str, TableLayout]],
        max_transaction_rows: int,
        connect_timeout_s: float = 10.0,
        reconnect_s: float = 60.0,
        silence_s: float = 30.0,
    ) -> None:
        self._options = options
        self._tables = tables
        self._max_transaction_rows = max_transaction_rows
        self._connect_timeout_s = connect_timeout_s
        #: Maximum time of attempts to replace a broken connection.
        self._reconnect_s = reconnect_s
        #: A connection that is silent for so long is broken: heartbeats come every second.
        self._silence_s = silence_s
        #: Runs blocking statements, one at a time.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="binlog")
        self._control: server.Connection | None = None
        self._server: Server | None = None
        #: MariaDB: global ids of the position at which the stream began.
        self._gtids: GtidPosition | None = None
        self._dump: Dump | None = None
        self._assembler = BinlogAssembler("binlog.000000", 0, max_transaction_rows)
        #: The new connection while it is opened; retained if `next_batch` is cancelled.
        self._opening: asyncio.Task[Dump] | None = None
        #: The connection was silent for too long.
        self._silent = False
        #: Time of the last data on the log's connection.
        self._heard_s = 0.0
        self._asking: asyncio.Task[None] | None = None
        #: A position was requested that no statement has read yet.
        self._wanted = False
        #: End of the log at the last request, to be reported when the stream reaches it; None: reported.
        self._target: int | None = None
        #: End of the log when it was last read.
        self._log_end = 0
        self._log_was_reset = False
        #: Heartbeats so far, and consecutive ones at a position before the known end of the log.
        self._heartbeats = 0
        self._stuck = 0
        self._waiting: asyncio.Future[None] | None = None
        #: A position of the log's end that was there at the start.
        self._began_at = 0
        #: Position of the last batch: an idle stream returns one batch for each position.
        self._reported = 0
        #: The file's first event has been read: from the next batch on there is a place.
        self._opened = False
        #: The next batch is the first one of another connection.
        self._resumed = False
        self._closed = False

    async def start(self) -> StreamStart:
        """Connect, take a snapshot, and request the log from its position on. Raises StreamLost."""
        return await self._started(None)

    async def start_at(self, place: str) -> StreamStart:
        """Connect, and request the log from a place on if that has it, else as `start`. Raises StreamLost."""
        return await self._started(place)

    async def _started(self, place: str | None) -> StreamStart:
        try:
            file, offset, snapshot = await self._in_thread(self._begin)
            self._began_at = snapshot.position
            at, refusal = (None, "") if place is None else await self._continued(place, snapshot)
            if at is None:
                self._gtids = await self._in_thread(self._gtids_at, file, offset)
                await self._request(file, offset)
        except _BROKEN as problem:
            await self.close()
            raise lost(problem) from None
        except BaseException:
            await self.close()
            raise
        assert self._server is not None
        self._reported = self._assembler.position
        gtids = snapshot.seen if isinstance(snapshot, BracketSnapshot) else self._gtids
        return StreamStart(self._reported, snapshot, gtids, self._server.name, at is not None, refusal)

    async def _request(self, file: str, offset: int, file_time: int | None = None) -> None:
        """Request the log from a position on."""
        assert self._server is not None
        self._assembler = BinlogAssembler(
            file,
            offset,
            self._max_transaction_rows,
            charsets=self._server.charsets,
            fold_names=self._server.fold_names,
            mariadb=self._server.mariadb,
            file_time=file_time,
        )
        self._dump = await self._in_thread(self._open, file, offset)
        self._heard_s = time.monotonic()

    async def _continued(self, text: str, snapshot: BinlogSnapshot | BracketSnapshot) -> tuple[BinlogPlace | None, str]:
        """Request the log from a place on and read its first event; None, and the reason, if it is another log.

        The snapshot sees all that precedes the place: that was committed before the server was asked.
        """
        try:
            place = BinlogPlace.parse(text)
            refusal = await self._in_thread(self._refusal, place)
            if not refusal and snapshot.position < place.position:
                refusal = f"The binary log ends before {place.file}:{place.offset}."
            if refusal:
                return None, refusal
            await self._request(place.file, place.offset, place.file_time)
            await self._read_first_event()
        except (StreamLost, MalformedLog, ValueError) as problem:
            self._disconnect()
            return None, str(problem)
        except _BROKEN as problem:
            self._disconnect()
            if may_reconnect(problem):
                raise
            return None, lost(problem).reason
        self._gtids = GtidPosition.parse(place.gtids)
        return place, ""

    async def _read_first_event(self) -> None:
        """Read the event that has the file's time. Raises StreamLost if it is another file."""
        async with asyncio.timeout(self._connect_timeout_s):
            while not self._assembler.opened:
                assert self._dump is not None
                for event in self._dump.events():
                    self._assembler.feed(*event)
                    if self._assembler.opened:
                        return
                if not self._dump.receive():
                    await self._readable()

    async def refusal(self, place: str) -> str:
        """Return why the log does not have a place, at which or before which this stream was continued; empty if it
        certainly has. Raises StreamLost."""
        try:
            other = BinlogPlace.parse(place)
            if self._began_at < other.position:
                return f"The binary log ends before {other.file}:{other.offset}."
            return await self._in_thread(self._refusal, other)
        except ValueError as problem:
            return str(problem)
        except _BROKEN as problem:
            raise lost(problem) from None

    @property
    def place(self) -> StreamPlace | None:
        """The place behind the last batch. MySQL's log has none: its global ids do not say what precedes a position."""
        assembler, server = self._assembler, self._server
        if server is None or not server.mariadb or self._gtids is None or assembler.file_time is None:
            return None
        gtids = self._gtids
        for transaction in assembler.last.values():
            gtids = gtids.add(transaction)
        place = BinlogPlace(
            server.name, server.version, assembler.file, assembler.offset, assembler.file_time, str(gtids)
        )
        return StreamPlace(assembler.position, place.text())

    async def mark_place(self) -> None:
        """Return at once: the log of MariaDB has a place behind each batch."""

    def unmark(self) -> None:
        """Do nothing, like `leave`."""

    def leave(self) -> None:
        """Do nothing: the server's settings decide how long it keeps its log."""

    def reconnect(self) -> None:
        """Do nothing: another server is another log."""

    # ── The stream ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for transactions, notices, or a later position. Raises StreamLost."""
        while True:
            if self._dump is None:
                self._dump = await self._reconnected()
                self._heard_s = time.monotonic()
                self._resumed = True
            transactions: list[CommittedTransaction] = []
            try:
                more = self._drain(transactions, max_rows)
            except _BROKEN as problem:
                self._disconnect()
                if not may_reconnect(problem):
                    raise lost(problem) from None
                more = True
            except MalformedLog as problem:
                raise StreamLost(f"The binary log could not be decoded: {problem}.", retryable=True) from problem
            self._check_heartbeat()
            batch = self._batch(transactions)
            if batch is not None:
                return batch
            if self._log_was_reset:
                raise StreamLost("The server's binary log was reset.", retryable=True)
            if more:
                await asyncio.sleep(0)
            else:
                await self._readable()

    def _batch(self, transactions: list[CommittedTransaction]) -> Batch | None:
        position = self._assembler.position
        notices = self._assembler.take_notices()
        answered = self._target is not None and position >= self._target
        opened, self._opened = self._assembler.opened and not self._opened, self._assembler.opened
        if not (transactions or notices or answered or opened or self._resumed or position > self._reported):
            return None
        if answered:
            self._target = None
        self._reported = position
        passed, redefined = self._assembler.take_passed(), self._assembler.take_redefined()
        resumed, self._resumed = self._resumed, False
        return Batch(transactions, position, notices, passed, redefined=redefined, resumed=resumed)

    def _drain(self, transactions: list[CommittedTransaction], max_rows: int) -> bool:
        """Decode without waiting, and add the transactions; return whether more may be ready."""
        dump, assembler = self._dump, self._assembler
        assert dump is not None
        assembler.follow(self._tables())
        feed = assembler.feed
        rows = left = 0
        left = SLICE_EVENTS
        while True:
            for data, start, end in dump.events():
                transaction = feed(data, start, end)
                if transaction is not None:
                    transactions.append(transaction)
                    rows += assembler.rows
                    if rows >= max_rows:
                        return True
                left -= 1
                if not left:
                    return True
            if not dump.receive():
                return False
            self._heard_s = time.monotonic()

    async def _readable(self) -> None:
        """Wait until the server has sent something, or the end of the log has been read.

        The socket is watched only meanwhile: a readable socket that is not read would spin the loop.
        """
        assert self._dump is not None
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        descriptor = self._dump.fileno()
        loop.add_reader(descriptor, self._hear)
        # Measured from the last data, since other events end the wait, too.
        silence = loop.call_later(self._heard_s + self._silence_s - time.monotonic(), self._fall_silent)
        try:
            await self._waiting
        finally:
            silence.cancel()
            self._waiting = None
            loop.remove_reader(descriptor)
        if self._silent:
            self._silent = False
            self._disconnect()

    def _hear(self) -> None:
        self._heard_s = time.monotonic()
        self._wake()

    def _fall_silent(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._silent = True
            self._wake()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # ── Position ─────────────────────────────────────────────────────────────────────────────────────────────────────

    def request_position(self) -> None:
        """Read the end of the server's log; `next_batch` returns when the stream reaches it."""
        self._wanted = True
        self._start_asking()

    def _start_asking(self) -> None:
        if not self._closed and (self._asking is None or self._asking.done()):
            self._asking = asyncio.get_running_loop().create_task(self._ask())

    async def _ask(self) -> None:
        while True:
            wanted, self._wanted = self._wanted, False
            before = self._assembler.position
            try:
                self._log_end = await self._in_thread(self._end)
            except (*_BROKEN, StreamLost, ValueError):
                # The stream's own connection reports errors of the server.
                return
            self._log_was_reset = self._log_end < before
            if wanted:
                self._target = self._log_end
            if wanted or self._log_was_reset:
                self._wake()
            if not self._wanted:
                return

    def _check_heartbeat(self) -> None:
        """Check a heartbeat's position against the log: after RESET MASTER a server sends heartbeats of the old log."""
        if self._heartbeats == self._assembler.heartbeats:
            return
        self._heartbeats = self._assembler.heartbeats
        self._stuck = self._stuck + 1 if self._assembler.position < self._log_end else 0
        if self._stuck > PATIENT_HEARTBEATS:
            self._stuck = 0
            self._disconnect()
        else:
            self._start_asking()

    async def wait_followed(self) -> None:
        """Return at once: the assembler applies layouts from the next transaction on."""

    def acknowledge(self, position: int) -> None:
        """Do nothing: the server's settings decide how long it keeps its log."""

    async def close(self) -> None:
        """Close all connections and the thread."""
        self._closed = True
        self._disconnect()
        if self._asking is not None:
            self._asking.cancel()
        if self._opening is not None:
            self._opening.cancel()
        await asyncio.gather(*(t for t in (self._asking, self._opening) if t is not None), return_exceptions=True)
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)
        self._forget_control()
        self._disconnect()

    # ── Connections ──────────────────────────────────────────────────────────────────────────────────────────────────

    def _disconnect(self) -> None:
        if self._dump is not None:
            self._dump.close()
            self._dump = None

    async def _reconnected(self) -> Dump:
        """Return a new connection that continues after the last transaction. Raises StreamLost."""
        if self._closed:
            raise StreamLost("The stream is closed.", retryable=True)
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._reopen())
        dump = await asyncio.shield(self._opening)
        self._opening = None
        self._assembler.reconnected()
        return dump

    async def _reopen(self) -> Dump:
        """Reconnect, with growing pauses, for `reconnect_s`."""
        loop = asyncio.get_running_loop()
        give_up, delay_s = loop.time() + self._reconnect_s, RETRY_S
        while True:
            try:
                return await self._in_thread(self._resume, self._assembler.file, self._assembler.offset)
            except _BROKEN as problem:
                if not may_reconnect(problem) or loop.time() + delay_s > give_up:
                    raise lost(problem) from None
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_RETRY_S)

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    # In the thread:

    def _begin(self) -> tuple[str, int, BinlogSnapshot | BracketSnapshot]:
        control = self._connected_control()
        self._server = server.describe(control)
        return server.begin(control, self._server.mariadb)

    def _gtids_at(self, file: str, offset: int) -> GtidPosition | None:
        assert self._server is not None
        return server.gtids_at(self._connected_control(), file, offset) if self._server.mariadb else None

    def _refusal(self, place: BinlogPlace) -> str:
        assert self._server is not None
        if not self._server.mariadb:
            return "The binary log of MySQL cannot be continued."
        return place.refusal(self._connected_control(), self._server)

    def _open(self, file: str, offset: int) -> Dump:
        if offset > _LARGEST_OFFSET:
            raise StreamLost(
                f"The binary log {file} exceeds 4 GiB and cannot be read from its end.",
                retryable=True,
                hint="Run: FLUSH BINARY LOGS;",
            )
        return open_dump(self._options, self._connect_timeout_s, file, offset)

    def _resume(self, file: str, offset: int) -> Dump:
        self._forget_control()
        control = self._connected_control()
        known, self._server = self._server, server.describe(control)
        assert known is not None
        if self._server.identity != known.identity or self._server.mariadb != known.mariadb:
            raise StreamLost("Another database server answers at the stream's address.", retryable=True)
        last = self._assembler.last.values()
        if known.mariadb:
            before = self._gtids
            for transaction in last:
                before = (before or GtidPosition()).add(transaction)
            same = server.gtids_at(control, file, offset) == before
        else:
            same = server.has_executed(control, last)
        if not same:
            raise StreamLost(
                f"The binary log has other transactions before {file}:{offset} than before.", retryable=True
            )
        return self._open(file, offset)

    def _end(self) -> int:
        kept = self._control is not None
        try:
            return position_of(*server.current_end(self._connected_control()))
        except (pymysql.err.Error, OSError):
            self._forget_control()
            if not kept:
                raise
        return position_of(*server.current_end(self._connected_control()))

    def _connected_control(self) -> server.Connection:
        if self._control is None:
            self._control = server.connect(self._options, self._connect_timeout_s)
        return self._control

    def _forget_control(self) -> None:
        if self._control is not None:
            control, self._control = self._control, None
            server.force_close(control)
