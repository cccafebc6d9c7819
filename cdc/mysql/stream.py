"""The change stream of a MariaDB or MySQL server, from its binary log.

*Invariants*: the stream begins at a place of the log that every later snapshot covers; a broken connection is replaced
by one that goes on at the end of the last whole transaction, if the server still has the same log there.

A place is a file and an offset of one server's log, which is what snapshots of lookups are, too: GTIDs say whether it
is still the same log, not where to go on. Another server, even one with all the same transactions, is another stream.

Not here: what events mean (`assembler`); the connections (`dump`, `server`).
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
from cdc.mysql.failures import is_passing, lost
from cdc.mysql.position import BinlogSnapshot, position_of
from cdc.mysql.server import Server
from cdc.stream import StreamStart

#: Events handled before the loop gets a turn: a huge transaction must not stop everything else.
SLICE_EVENTS = 2000
#: After so many heartbeats from behind what the log has, a connection is replaced.
PATIENT_HEARTBEATS = 3
#: Between two attempts to connect anew, the first and the longest.
RETRY_S, LONGEST_RETRY_S = 0.05, 2.0
#: What the request for the log can say.
_LARGEST_OFFSET = (1 << 32) - 1

T = TypeVar("T")

_BROKEN = (pymysql.err.Error, OSError, DumpEnded)


class MySqlStream:
    """Committed transactions of the followed tables, in commit order, from the binary log.

    Used by one task. `options` are those of ``pymysql.connect``: where the server is, and as whom it is asked. `tables`
    gives the layouts of the tables to follow, with `kinds`, by the names that `names.qualified_name` gives them; it is
    asked anew before transactions are decoded, others are skipped unread.

    A table that becomes one of `tables` later on lacks what went by before, as far as the stream was by then.
    """

    #: Its beginning waits for no transaction.
    held_up: str | None = None

    def __init__(
        self,
        options: Mapping[str, Any],
        tables: Callable[[], Mapping[str, TableLayout]],
        max_transaction_rows: int = 200_000,
        connect_timeout_s: float = 10.0,
        reconnect_s: float = 60.0,
        silence_s: float = 30.0,
    ) -> None:
        self._options = options
        self._tables = tables
        self._max_transaction_rows = max_transaction_rows
        self._connect_timeout_s = connect_timeout_s
        #: How long a lost connection is tried to be replaced.
        self._reconnect_s = reconnect_s
        #: Heartbeats come every second: a connection that is silent for so long is gone.
        self._silence_s = silence_s
        #: Blocking questions to the server, one at a time.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="binlog")
        self._control: server.Connection | None = None
        self._server: Server | None = None
        #: MariaDB: where the stream began, in global ids.
        self._gtids: GtidPosition | None = None
        self._dump: Dump | None = None
        self._assembler = BinlogAssembler("binlog.000000", 0, max_transaction_rows)
        #: A new connection while it is made; kept when nobody waits for it.
        self._opening: asyncio.Task[Dump] | None = None
        #: Nothing has come for so long that nothing will.
        self._silent = False
        #: When the log's connection last had something.
        self._heard_s = 0.0
        self._asking: asyncio.Task[None] | None = None
        #: Somebody wants to know where the stream is, and has not been asked for yet.
        self._wanted = False
        #: Where the log ended when somebody wanted to know; None if that is told.
        self._target: int | None = None
        #: Where the log ended when that was last asked, for whatever reason.
        self._log_end = 0
        self._log_was_reset = False
        #: Heartbeats so far, and how many in a row said less than what the log was known to have.
        self._heartbeats = 0
        self._stuck = 0
        self._waiting: asyncio.Future[None] | None = None
        #: What the last batch said, so that an idle stream is told of once.
        self._reported = 0
        self._closed = False

    async def start(self) -> StreamStart:
        """Connect, find where the log is, and ask for it from there on. Raises StreamLost."""
        try:
            file, offset, snapshot = await self._in_thread(self._begin)
            assert self._server is not None
            self._assembler = BinlogAssembler(
                file,
                offset,
                self._max_transaction_rows,
                charsets=self._server.charsets,
                fold_names=self._server.fold_names,
                mariadb=self._server.mariadb,
            )
            self._dump = await self._in_thread(self._open, file, offset)
            self._heard_s = time.monotonic()
        except _BROKEN as problem:
            await self.close()
            raise lost(problem) from None
        except BaseException:
            await self.close()
            raise
        self._reported = self._assembler.position
        gtids = snapshot.seen if isinstance(snapshot, BracketSnapshot) else self._gtids
        return StreamStart(self._reported, snapshot, gtids, self._server.name)

    # ── The stream ───────────────────────────────────────────────────────────────────────────────────────────────────

    async def next_batch(self, max_rows: int = 1000) -> Batch:
        """Wait for something: whole transactions (up to the first that brings the rows to `max_rows`), or an advance.

        Raises StreamLost. Cancelling it loses nothing.
        """
        while True:
            if self._dump is None:
                self._dump = await self._reconnected()
                self._heard_s = time.monotonic()
            transactions: list[CommittedTransaction] = []
            try:
                more = self._drain(transactions, max_rows)
            except _BROKEN as problem:
                self._disconnect()
                if not is_passing(problem):
                    raise lost(problem) from None
                more = True
            except MalformedLog as problem:
                raise StreamLost(f"The binary log could not be decoded: {problem}.", retryable=True) from problem
            self._check_heartbeat()
            batch = self._batch(transactions)
            if batch is not None:
                return batch
            if self._log_was_reset:
                raise StreamLost("The server's binary log was begun anew.", retryable=True)
            if more:
                await asyncio.sleep(0)
            else:
                await self._readable()

    def _batch(self, transactions: list[CommittedTransaction]) -> Batch | None:
        position = self._assembler.position
        notices = self._assembler.take_notices()
        answered = self._target is not None and position >= self._target
        if not (transactions or notices or answered or position > self._reported):
            return None
        if answered:
            self._target = None
        self._reported = position
        passed, redefined = self._assembler.take_passed(), self._assembler.take_redefined()
        return Batch(transactions, position, notices, passed, redefined=redefined)

    def _drain(self, transactions: list[CommittedTransaction], max_rows: int) -> bool:
        """What can be decoded now without waiting is added; returns whether there may be more."""
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
        """Wait until the server has sent something, or a question is answered.

        The socket is watched only meanwhile: who does not read must not spin.
        """
        assert self._dump is not None
        loop = asyncio.get_running_loop()
        self._waiting = loop.create_future()
        descriptor = self._dump.fileno()
        loop.add_reader(descriptor, self._hear)
        # Answers to questions end the wait, too.
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

    # ── How far it is ────────────────────────────────────────────────────────────────────────────────────────────────

    def request_position(self) -> None:
        """Ask where the server's log ends; `next_batch` returns when the stream is there."""
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
                # What is wrong with the server is noticed by the stream itself.
                return
            self._log_was_reset = self._log_end < before
            if wanted:
                self._target = self._log_end
            if wanted or self._log_was_reset:
                self._wake()
            if not self._wanted:
                return

    def _check_heartbeat(self) -> None:
        """The server has nothing to send, it says. After RESET MASTER it says so for ever, of a log that is gone."""
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
        """At once."""

    def acknowledge(self, position: int) -> None:
        """The server keeps its log for as long as it is told to, whoever reads it."""

    async def close(self) -> None:
        """Let go of everything."""
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
        """A new connection that goes on at the last transaction's end. Raises StreamLost."""
        if self._closed:
            raise StreamLost("The stream is closed.", retryable=True)
        if self._opening is None:
            self._opening = asyncio.get_running_loop().create_task(self._reopen())
        dump = await asyncio.shield(self._opening)
        self._opening = None
        self._assembler.reconnected()
        return dump

    async def _reopen(self) -> Dump:
        """Tries for a while."""
        loop = asyncio.get_running_loop()
        give_up, delay_s = loop.time() + self._reconnect_s, RETRY_S
        while True:
            try:
                return await self._in_thread(self._resume, self._assembler.file, self._assembler.offset)
            except _BROKEN as problem:
                if not is_passing(problem) or loop.time() + delay_s > give_up:
                    raise lost(problem) from None
            await asyncio.sleep(delay_s)
            delay_s = min(2 * delay_s, LONGEST_RETRY_S)

    async def _in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    # In the thread:

    def _begin(self) -> tuple[str, int, BinlogSnapshot | BracketSnapshot]:
        control = self._connected_control()
        self._server = server.describe(control)
        file, offset, snapshot = server.begin(control, self._server.mariadb)
        if self._server.mariadb:
            self._gtids = server.gtids_at(control, file, offset)
        return file, offset, snapshot

    def _open(self, file: str, offset: int) -> Dump:
        if offset > _LARGEST_OFFSET:
            raise StreamLost(
                f"The binary log {file} is too large to be read from its end.",
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
            raise StreamLost("Another server answers where the stream's was.", retryable=True)
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
                f"The binary log has other transactions before {file}:{offset} than it had.", retryable=True
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
            server.let_go(control)
