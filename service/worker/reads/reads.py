"""Reads of a worker: from the leaf store, and misses from the engine; all paths but the hot one.

*Theory*: the engine fills missing keys and replies that they are stored; then all answers are read in one transaction.
Until then a key may change or be evicted. A read of a later commit is as right, since each commit has all views at one
version; a hole is asked for once more, with its rows in the reply, which nothing can take away.

*Invariants*: all answers of one call are exact at one version, not before that of the engine's reply. Without an
engine, covered keys are still answered.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from difflib import get_close_matches
from functools import partial

from dataflow.types import Key, Position, ViewId
from service.ground.errors import ApiError, broken_view, building_view
from service.ground.version import Minimum, version_text
from service.leaf_store.answer import LeafState, PageWindow, StoredAnswer
from service.leaf_store.catalog import ELSEWHERE, LeafCatalog
from service.leaf_store.layout import view_of
from service.leaf_store.previous import PreviousReader
from service.leaf_store.read_ahead import NOTHING, Ahead, AtOnce, ReadAhead
from service.leaf_store.reader import LeafReader, null_answer, picked_in, rows_in
from service.leaf_store.request import Values, names_of, request_of
from service.leaf_store.serving_options import OnLag
from service.leaf_store.transaction import LeafTransaction
from service.protocol.counters import ReadCounters
from service.protocol.engine_client import EngineClient
from service.protocol.reads import AnswerSource, ReadItem, ReadReply, StoredReply
from service.settings.sections import HttpSettings
from service.web.arguments import Arguments
from service.web.messages import CACHE_CONTROL, PRIVATE
from service.web.principal import Principal, readable, require_read
from service.worker.reads.engine_queue import Waiting
from service.worker.reads.lag import bound_of, too_old, what_to_do
from service.worker.reads.minimum import Minimums
from service.worker.reads.notes import NOTED, note_stored
from service.worker.reads.stale import ReadKey, StaleAnswers
from service.worker.reads.touches import Touches

_Ask = Callable[[Sequence[ReadItem], float], Awaitable[ReadReply | StoredReply]]


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True, slots=True)
class WantedRead:
    """One read of a request."""

    view: "ViewRoute"
    values: Values
    window: PageWindow | None = None


@dataclass(frozen=True, slots=True)
class Answers:
    """The answers of a request, all exact at `position`; `hit`: without the engine, otherwise `source` names their
    origin and whether they have a version."""

    answers: list[StoredAnswer]
    position: Position
    at_ms: int
    hit: bool
    source: AnswerSource = AnswerSource.STORED

    @property
    def version(self) -> str | None:
        """The version as clients see it; None if the answers are exact at no known version."""
        return version_text(self.position) if self.source.has_version else None

    @property
    def version_json(self) -> bytes:
        return b"null" if (version := self.version) is None else b'"%b"' % version.encode()

    @property
    def age_ms(self) -> int:
        """Upper bound of the time by which the answers are behind the upstream."""
        return max(0, _now_ms() - self.at_ms)


class ViewRoute:
    """A view as this worker serves it."""

    __slots__ = ("arguments", "bare", "cache_control", "counters", "cut", "entry_of", "info", "max_lag_ms", "stale_ms")

    def __init__(self, arguments: Arguments, counters: ReadCounters) -> None:
        self.arguments = arguments
        self.entry_of = arguments.entry_of
        self.info = arguments.info
        #: Whether an answer may omit rows of its key.
        self.cut = arguments.info.cut or arguments.info.within > 0
        #: Whether the answer of an entry with one row is that row's JSON, at the entry's end.
        self.bare = not self.cut and self.info.direct and not self.info.storage
        self.counters = counters
        #: Maximum age of served answers; None: unlimited.
        self.max_lag_ms = bound_of(self.info)
        #: Time for which the last answer of a read may be served on a miss.
        self.stale_ms = self.info.serving.stale_ms
        own = self.info.cache_control
        usual = PRIVATE if self.info.claims else CACHE_CONTROL
        #: The Cache-Control header of its answers.
        self.cache_control = usual if own is None else (b"cache-control", own.encode())

    def rows_in(self, txn: LeafTransaction, name: bytes, entry: bytes, query: bytes) -> tuple[bytes, bytes]:
        """Return the rows that a query string selects of its entry, without the brackets, and their tag's bytes.

        Raises NotCoveredError, also if they are too many to be read at once.
        """
        if self.info.within:
            return picked_in(txn, name, entry, self.arguments.place_of(query))
        if not self.cut:
            AtOnce().take(entry)
        return rows_in(txn, self.info, name, entry)


class Reads:
    """Reads of one worker. *Maintains*: `routes` has the listed views of the catalog that `refresh` saw last."""

    def __init__(self, reader: LeafReader, engine: EngineClient, limits: HttpSettings) -> None:
        self.reader = reader
        self._previous = PreviousReader(reader.environment)
        self.limits = limits
        self.routes: dict[str, ViewRoute] = {}
        #: By name, over catalog changes: a replaced view continues to count.
        self.counters: dict[str, ReadCounters] = {}
        #: Sample of the keys read.
        self.touches = Touches()
        self.waiting = Waiting(limits.waiting_reads)
        self._stale = StaleAnswers()
        self._large = ReadAhead()
        #: Fills in progress after stale answers.
        self._refilling: dict[ReadKey, asyncio.Task[None]] = {}
        self.minimums = Minimums(engine)
        self._engine = engine
        self.catalog: LeafCatalog | None = None
        self._started = False

    @property
    def started(self) -> bool:
        """True if the engine has committed anything yet."""
        return self._started

    def refresh(self) -> None:
        with self.reader.begin() as txn:
            self.follow(txn)

    def follow(self, txn: LeafTransaction) -> LeafState | None:
        """Follow the catalog in a transaction; return its state."""
        state = self.reader.state_in(txn)
        catalog = self.reader.catalog_in(txn, state)
        self._started = state is not None
        if catalog is not self.catalog:
            self.catalog = catalog
            self.routes = {
                name: ViewRoute(Arguments(info, self.limits.max_keys), self.counters.setdefault(name, ReadCounters()))
                for name, info in catalog.by_name.items()
            }
        return state

    def route(self, name: str, principal: Principal | None) -> ViewRoute:
        """Follow the catalog and return a readable view.

        Raises ApiError(forbidden, view_not_found, view_broken, engine_unavailable).
        """
        self.refresh()
        return self.listed(name, principal)

    def listed(self, name: str, principal: Principal | None) -> ViewRoute:
        """Return a readable view of the latest known catalog. Raises ApiError."""
        require_read(principal, name)
        route = self.routes.get(name)
        if route is None:
            raise self._not_found(name, principal)
        if route.info.status == "broken":
            raise broken_view(name, route.info.reason)
        if route.info.status == ELSEWHERE:
            detail = f"View {name!r} is fully materialized in another shard."
            raise ApiError("misdirected", detail, "Try again in a moment.", members={"view": name})
        return route

    def _not_found(self, name: str, principal: Principal | None) -> ApiError:
        if not self._started:
            return ApiError("engine_unavailable", "The engine has not started yet.", "Try again in a moment.")
        if self.catalog is not None and not self.catalog.known:
            hint = "Try again in a moment: the engine has started and is planning them."
            return ApiError("view_building", "The catalog of views is not loaded yet.", hint)
        named = [view for view, route in self.routes.items() if not route.info.serving.hidden]
        near = get_close_matches(name, readable(principal, named), 1)
        hint = f"Did you mean {near[0]!r}?" if near else "GET /openapi.json lists the views."
        return ApiError("view_not_found", f"View {name[:80]!r} does not exist.", hint)

    async def serve(
        self,
        wanted: Sequence[WantedRead],
        wait_s: float | None = None,
        minimum: Position | None = None,
        *,
        missed: bool = False,
    ) -> Answers:
        """Read with the views' handling of outdated answers; `minimum`: the version that was waited for; `missed`: as
        of `read`. Raises ApiError."""
        noted = NOTED.get()
        if noted is None:
            return await self._serve(wanted, wait_s, minimum, missed=missed)
        asked = [(w.view.info, w.values) for w in wanted]
        try:
            answers = await self._serve(wanted, wait_s, minimum, missed=missed)
        except ApiError:
            noted.failed(asked)
            raise
        noted.answered(asked, answers.answers, None if answers.hit else answers.source)
        return answers

    async def _serve(
        self, wanted: Sequence[WantedRead], wait_s: float | None, minimum: Position | None, *, missed: bool
    ) -> Answers:
        state = self.reader.state() if any(w.view.max_lag_ms is not None for w in wanted) else None
        if state is not None:
            age_ms, views = _now_ms() - state.at_ms, [w.view for w in wanted]
            lag = what_to_do(views, age_ms)
            if lag is not OnLag.SERVE:
                try:
                    return await self._serve_newer(lag, wanted, wait_s, minimum)
                except ApiError as error:
                    raise too_old(views, age_ms, error) from None
        if len(wanted) == 1 and wanted[0].view.stale_ms:
            return await self._read_or_stale(wanted[0], wait_s, minimum)
        return await self.read(wanted, wait_s, missed=missed, as_before=minimum is None)

    async def _serve_newer(
        self, lag: OnLag, wanted: Sequence[WantedRead], wait_s: float | None, minimum: Position | None
    ) -> Answers:
        """Read without what the leaf store has now, which is too old. Raises ApiError."""
        if lag is OnLag.FORWARD:
            for w in wanted:
                w.view.counters.misses += 1
            return await self._ask_rows(wanted, self._limit_s(wait_s), partial(self._engine.forward, minimum=minimum))
        asked_ms = _now_ms()
        await self._catch_up(self._limit_s(wait_s))
        answers = await self.read(wanted, wait_s)
        return replace(answers, at_ms=max(asked_ms, answers.at_ms))

    async def _read_or_stale(self, wanted: WantedRead, wait_s: float | None, minimum: Position | None) -> Answers:
        """Return the previous answer of a read that misses, if it is recent, and fill the key in the background."""
        asked = (wanted.view.info.id, wanted.values, wanted.window)
        (found,), _ = self._look([wanted])
        kept = self._stale.find(asked, minimum or 0, _now_ms() - wanted.view.stale_ms) if found is None else None
        if kept is None:
            return await self._read_and_keep(wanted, wait_s, as_before=minimum is None)
        if asked not in self._refilling:
            self._refilling[asked] = asyncio.get_running_loop().create_task(self._refill(asked, wanted))
        wanted.view.counters.hits += 1
        answer, position, at_ms = kept
        return Answers([answer], position, at_ms, hit=False, source=AnswerSource.STALE)

    async def _read_and_keep(self, wanted: WantedRead, wait_s: float | None, *, as_before: bool = False) -> Answers:
        answers = await self.read([wanted], wait_s, as_before=as_before)
        if answers.source is not AnswerSource.STALE:
            asked = (wanted.view.info.id, wanted.values, wanted.window)
            self._stale.keep(asked, answers.answers[0], answers.position, answers.at_ms)
        return answers

    async def _refill(self, asked: ReadKey, wanted: WantedRead) -> None:
        try:
            # Reads that wait for the fill get its error; the answered one does not need it.
            with suppress(ApiError):
                await self._read_and_keep(wanted, None)
        finally:
            del self._refilling[asked]

    async def read(
        self,
        wanted: Sequence[WantedRead],
        wait_s: float | None = None,
        *,
        missed: bool = False,
        as_before: bool = False,
    ) -> Answers:
        """Return the answers, in order, at one version. `wait_s`: the client's time limit; `missed`: the leaf store
        was just seen to have none of them; `as_before`: until the cache is warm, answers of the session before will do.
        Raises ApiError."""
        found: Sequence[StoredAnswer | None] = [None] * len(wanted)
        state = None
        if not missed:
            found, state = await self._look_ahead(wanted)
        if as_before and None in found and (before := self._before(wanted)) is not None:
            self.count_hits(wanted)
            return before
        note_stored(found)
        for w, answer in zip(wanted, found, strict=True):
            if answer is None:
                w.view.counters.misses += 1
            else:
                w.view.counters.hits += 1
                self.touches.note_read(w.view.info, w.values)
        answers = [answer for answer in found if answer is not None]
        if state is not None and len(answers) == len(found):
            return Answers(answers, state.position, state.at_ms, hit=True)
        return await self._fill(wanted, found, self._limit_s(wait_s))

    def _before(self, wanted: Sequence[WantedRead]) -> Answers | None:
        """Return the answers of the session before, if it had all, and they are not too old."""
        with self.reader.begin() as txn:
            previous = self._previous.find(txn)
            if previous is None:
                return None
            found = previous.answers(txn, [(w.view.info, w.values, w.window) for w in wanted])
        if found is None:
            return None
        position, at_ms = previous.state.position, previous.state.at_ms
        age_ms = _now_ms() - at_ms
        if any(0 < w.view.stale_ms < age_ms for w in wanted):
            return None
        lag = what_to_do([w.view for w in wanted], age_ms)
        return Answers(found, position, at_ms, hit=False, source=AnswerSource.STALE) if lag is OnLag.SERVE else None

    def count_hits(self, wanted: Iterable[WantedRead]) -> None:
        """Count all reads as hits."""
        for w in wanted:
            w.view.counters.hits += 1
            self.touches.note_read(w.view.info, w.values)

    def _limit_s(self, wait_s: float | None) -> float:
        return max(self.limits.read_timeout_s, self._allowed_s(wait_s))

    async def _catch_up(self, limit_s: float) -> None:
        """Wait until the leaf store has everything committed so far. Raises ApiError."""
        until_s = time.monotonic() + limit_s
        with self.waiting:
            position = await self._engine.checkpoint(limit_s)
            await self._engine.reach(position, max(0.0, until_s - time.monotonic()))

    def _allowed_s(self, wait_s: float | None) -> float:
        """Return the client's time limit, within the configured one."""
        return self.limits.read_timeout_s if wait_s is None else min(wait_s, self.limits.max_wait_s)

    def _look(
        self, wanted: Sequence[WantedRead], ahead: Ahead = NOTHING
    ) -> tuple[list[StoredAnswer | None], LeafState | None]:
        return self.reader.read([(w.view.info.id, w.values, w.window) for w in wanted], ahead)

    async def _look_ahead(self, wanted: Sequence[WantedRead]) -> tuple[list[StoredAnswer | None], LeafState | None]:
        """Do as `_look`, with the rows of large keys read ahead."""
        whole = [w for w in wanted if w.window is None and w.view.info.whole and not w.view.info.cut]
        names = [name for w in whole for name in names_of(w.view.info, w.values)]
        return self._look(wanted, await self._large.read(self.reader.begin, names))

    async def _fill(
        self, wanted: Sequence[WantedRead], found: Sequence[StoredAnswer | None], limit_s: float
    ) -> Answers:
        """Let the engine fill the missing keys, then read all of them at the version of that time."""
        missing = [w for w, answer in zip(wanted, found, strict=True) if answer is None]
        _refuse_building(missing, alone=len(wanted) == 1)
        until_s = time.monotonic() + limit_s
        filled = await self._ask(missing, limit_s, self._engine.fill)
        if isinstance(filled, Answers) and len(missing) == len(wanted):
            return filled
        again, state = await self._look_ahead(wanted)
        if state is not None:
            own = _unstored(filled, found, state.position)
            answers = [answer for new, mine in zip(again, own, strict=True) if (answer := new or mine) is not None]
            is_new = state.position >= filled.position
            if len(answers) == len(wanted) and is_new:
                source = filled.source if isinstance(filled, Answers) else AnswerSource.STORED
                return Answers(answers, state.position, state.at_ms, hit=False, source=source)
        return await self._ask_rows(wanted, max(0.0, until_s - time.monotonic()), self._engine.read)

    async def _ask_rows(self, wanted: Sequence[WantedRead], limit_s: float, how: _Ask) -> Answers:
        """Do as `_ask`, if the replies have rows."""
        answers = await self._ask(wanted, limit_s, how)
        assert isinstance(answers, Answers)
        return answers

    async def _ask(self, wanted: Sequence[WantedRead], limit_s: float, how: _Ask) -> Answers | StoredReply:
        """Return the engine's answers of all reads, at one version, or where they are."""
        asked = [ReadItem(w.view.info.name, w.values, w.window, w.view.info.id) for w in wanted]
        # Answers without a matching row usually do not depend on the engine's state.
        depend = [
            item
            for w, item in zip(wanted, asked, strict=True)
            if w.view.info.null_rows is None or request_of(w.view.info, w.values).keys
        ]
        items = list(dict.fromkeys(depend))
        with self.waiting:
            reply = await how(items, limit_s)
        if isinstance(reply, StoredReply):
            return reply
        filled = dict(zip(items, reply.answers, strict=True))
        answers = [filled.get(item) or null_answer(w.view.info) for w, item in zip(wanted, asked, strict=True)]
        return Answers(answers, reply.position, reply.at_ms, hit=False, source=reply.source)

    def stream(self, wanted: WantedRead, wait_s: float | None, minimum: Position | None) -> AsyncGenerator[bytes]:
        """Return the rows of a streamed answer, in pieces. Raises ApiError, even between pieces."""
        info = wanted.view.info
        item = ReadItem(info.name, wanted.values, None, info.id)
        return self._engine.stream(item, self._limit_s(wait_s), minimum)

    def are_replaced(self, views: Iterable[ViewRoute]) -> bool:
        """Return whether one of the names denotes another view by now, whose parameters may have another meaning."""
        self.refresh()
        return any(
            route is not None and route.info.id != view.info.id
            for view in views
            for route in [self.routes.get(view.info.name)]
        )

    def take_touches(self) -> list[tuple[ViewId, Key, int]]:
        """Return a sample of the hits since the last call: keys of listed views, with their counts."""
        arguments = {route.info.id: route.arguments for route in self.routes.values()}
        taken = []
        for touched, times in self.touches.take():
            if isinstance(touched, tuple):
                taken.append((*touched, times))
                continue
            view = view_of(touched)
            known = arguments.get(view)
            key = None if known is None else known.key_of(touched)
            if key is not None:
                taken.append((view, key, times))
        return taken

    async def wait_for(self, minimum: Minimum, wait_s: float | None) -> Position:
        """Wait until the leaf store has reached the minimum, and return its position. Raises
        ApiError(version_timeout) after `wait_s` (default: the read limit)."""
        state = self.reader.state()
        if state is None or not self.minimums.has(state, minimum):
            with self.waiting:
                await self.minimums.wait(state, minimum, self._allowed_s(wait_s))
            state = self.reader.state() or state
        if isinstance(minimum, Position):
            return minimum
        return 0 if state is None else state.position

    async def checkpoint(self) -> Position:
        with self.waiting:
            return await self._engine.checkpoint(self.limits.read_timeout_s)


def _refuse_building(wanted: Iterable[WantedRead], *, alone: bool) -> None:
    """Raises ApiError(view_building) for reads of a view that is being loaded and does not forward them. One `alone`,
    of a view without parameters, may be forwarded all the same, if that is loaded again."""
    for w in wanted:
        info = w.view.info
        if info.status == "building" and not info.serving.forwards and (info.parameters or not alone):
            raise building_view(info.name, info.reason)


def _unstored(
    filled: Answers | StoredReply, found: Sequence[StoredAnswer | None], position: Position
) -> list[StoredAnswer | None]:
    """Return the answers that the engine did not store, in the places of the holes in `found`, if they are exact at
    `position`: they are at no version but their own."""
    own = filled.answers if isinstance(filled, Answers) and filled.source.has_version else []
    late = iter(own if filled.position == position else ())
    return [next(late, None) if answer is None else None for answer in found]
