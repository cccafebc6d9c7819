"""Access log of one worker: reads are recorded while requests are answered, and written later.

*Theory*: logging may add little to the cost of a hit, so only available data is recorded: times, the path, the query
string. The keys are computed in slices between requests, on the same event loop, since a thread would hold the
interpreter for longer than a hit takes; a thread only writes the files. Recent keys are cached.

*Invariants*: at most `buffer_reads` are waiting; further ones are dropped and counted. Request headers are never
written.
"""

import asyncio
from collections import deque
from contextlib import suppress
from random import Random
from urllib.parse import unquote

import structlog

from service.ground.errors import ApiError
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.layout import key_in
from service.leaf_store.request import Values
from service.settings.telemetry import AccessLogSettings
from service.worker.access_log.files import Files, Line
from service.worker.access_log.keys import KeyTexts, LoggedKey
from service.worker.reads.known_views import KnownViews
from service.worker.reads.notes import Noted, Outcome
from service.worker.reads.reads import ViewRoute
from service.worker.reads.view_reads import VIEWS_PATH

#: Interval at which recorded reads are written.
_WRITE_S = 0.5
#: Reads whose keys are computed without a turn for requests: some tenths of a millisecond.
_SLICE = 128
#: Maximum cached keys.
_MAX_REMEMBERED = 1 << 16
#: Maximum lines of one write.
_MAX_LINES = 4096
_log = structlog.get_logger(__name__)

#: A hit of the hot route: time, duration (ns), path, query string, status, bytes of the rows.
Hit = tuple[int, int, bytes, bytes, int, int | None]
#: Any other request with reads: time, duration (ns), status, its notes.
Request = tuple[int, int, int, Noted]


class AccessLog:
    """The access log of one worker.

    *State*: `_waiting` has requests that are not written yet, of `_waiting_reads` reads; `_hits` caches keys by path
    and query string, `_entries` by leaf store entry, both for `_catalog`.
    """

    def __init__(self, settings: AccessLogSettings, reads: KnownViews, texts: KeyTexts, worker: int) -> None:
        self._files = Files(settings, worker)
        self._reads = reads
        self._texts = texts
        self._most = settings.buffer_reads
        self._share = settings.sample_rate if settings.sample == "reads" else 1.0
        self._random = Random().random
        self._waiting: deque[Hit | Request] = deque()
        self._waiting_reads = 0
        self._catalog: object = None
        self._hits: dict[tuple[bytes, bytes], LoggedKey | None] = {}
        self._entries: dict[tuple[str, bytes], LoggedKey | None] = {}
        #: Since the start: written reads, and reads dropped for lack of room or a file.
        self.lines = 0
        self.dropped = 0
        self._failing = False
        self._stopping = asyncio.Event()

    def hit(self, at_ns: int, took_ns: int, path: bytes, query: bytes, status: int, rows_bytes: int | None) -> None:
        """Record a read that the hot route answered."""
        if self._share < 1 and self._random() >= self._share:
            return
        if self._waiting_reads >= self._most:
            self.dropped += 1
            return
        self._waiting_reads += 1
        self._waiting.append((at_ns, took_ns, path, query, status, rows_bytes))

    def request(self, at_ns: int, took_ns: int, status: int, noted: Noted) -> None:
        """Record a request whose reads were noted."""
        n = len(noted.names) + len(noted.reads)
        if self._share < 1 and self._random() >= self._share:
            return
        if self._waiting_reads + n > self._most:
            self.dropped += n
            return
        self._waiting_reads += n
        self._waiting.append((at_ns, took_ns, status, noted))

    async def run(self) -> None:
        """Write recorded reads periodically until `stop`; not to be cancelled, since a thread writes."""
        try:
            await asyncio.to_thread(self._files.finish_left)
        except OSError as error:
            self._failed(error)
        while not self._stopping.is_set():
            with suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _WRITE_S)
            await self.write()
        await self.close()

    def stop(self) -> None:
        """Let `run` write the rest and end."""
        self._stopping.set()

    async def close(self) -> None:
        """Write the recorded reads and finish the file."""
        await self.write()
        try:
            await asyncio.to_thread(self._files.close)
        except OSError as error:
            self._failed(error)

    async def write(self) -> None:
        """Write the recorded reads."""
        # Later reads are written next time.
        upto = len(self._waiting)
        while upto > 0:
            lines: list[Line] = []
            while upto > 0 and len(lines) < _MAX_LINES:
                n = min(upto, _SLICE)
                upto -= n
                for _ in range(n):
                    self._add(self._waiting.popleft(), lines)
                await asyncio.sleep(0)
            await self._to_file(lines)
        # The file may be due to be finished.
        await self._to_file([])

    async def _to_file(self, lines: list[Line]) -> None:
        try:
            await asyncio.to_thread(self._files.write, lines)
        except OSError as error:
            self.dropped += len(lines)
            self._failed(error)
        else:
            self.lines += len(lines)
            self._failing = self._failing and not lines

    def _failed(self, error: OSError) -> None:
        if not self._failing:
            _log.error("the access log cannot be written", reason=error.strerror or str(error), path=error.filename)
        self._failing = True

    def _add(self, waiting: Hit | Request, lines: list[Line]) -> None:
        if len(waiting) == 4:
            self._add_request(*waiting, lines)
            return
        at_ns, took_ns, path, query, status, rows_bytes = waiting
        self._waiting_reads -= 1
        if self._reads.catalog is not self._catalog:
            self._catalog = self._reads.catalog
            self._hits.clear()
            self._entries.clear()
        try:
            logged = self._hits[path, query]
        except KeyError:
            logged = self._of_hit(path, query)
        if logged is not None:
            lines.append(Line(at_ns // 1000, logged, Outcome.HIT, rows_bytes, took_ns // 1000, status, 1))

    def _of_hit(self, path: bytes, query: bytes) -> LoggedKey | None:
        route = self._reads.routes.get(unquote(path.decode("ascii", "replace").removeprefix(VIEWS_PATH)))
        values = None if route is None else _values(route, query)
        if route is None or values is None:
            # The view was replaced in the meantime.
            self.dropped += 1
            return None
        if len(self._hits) >= _MAX_REMEMBERED:
            self._hits.clear()
        logged = self._hits[path, query] = self._texts.of(route.info, values)
        return logged

    def _add_request(self, at_ns: int, took_ns: int, status: int, noted: Noted, lines: list[Line]) -> None:
        n = len(noted.names) + len(noted.reads)
        self._waiting_reads -= n
        time_us, took_us = at_ns // 1000, took_ns // 1000
        if noted.of is not None:
            for name, size in zip(noted.names, noted.sizes, strict=True):
                logged = self._of_entry(noted.of, name)
                if logged is not None:
                    lines.append(Line(time_us, logged, Outcome.HIT, size, took_us, status, n))
        for info, values, outcome, rows_bytes in noted.reads:
            logged = self._texts.of(info, values)
            if logged is not None:
                lines.append(Line(time_us, logged, outcome, rows_bytes, took_us, status, n))

    def _of_entry(self, info: ViewInfo, name: bytes) -> LoggedKey | None:
        try:
            return self._entries[info.name, name]
        except KeyError:
            if len(self._entries) >= _MAX_REMEMBERED:
                self._entries.clear()
            logged = self._entries[info.name, name] = self._texts.of(info, key_in(name) if info.parameters else ())
            return logged


def _values(route: ViewRoute, query: bytes) -> Values | None:
    """Return the values of a query string. Views with claims are never read this way."""
    name = route.entry_of(query) if route.info.plain else None
    key = None if name is None else route.arguments.key_of(name)
    if key is not None:
        return key
    try:
        return route.arguments.parse(query)[0]
    except ApiError:
        return None
