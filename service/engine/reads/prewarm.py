"""Prewarming: fills keys before they are read, at the start of a session and on request.

Keys are ordered by frequency, hottest first; those of a request have the form of the access log: texts of a view's
parameters in their order, lists as JSON arrays. They are ordinary reads of many keys at once, so their misses are
looked up with ``= ANY``.

*Invariants*: one batch runs at a time, and none begins while readers wait for misses (up to a short limit, since a busy
site always has one); no key is filled above `SHARE` of the memory budget, so prewarming evicts nothing; keys that
cannot be filled are counted and skipped.

Not here: the choice of keys (`dataflow.spark`, docs/workload.md).
"""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import zip_longest
from typing import Any, TypeVar

import orjson
import structlog

from dataflow.engine.events import Wanted
from dataflow.plan.nodes import Members
from dataflow.types import Value
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import MemoryBudget
from service.engine.reads.misses import Misses
from service.engine.views.registry import ViewRegistry
from service.ground.backoff import Backoff
from service.ground.errors import ApiError
from service.leaf_store.catalog import ParameterRole, ViewInfo
from service.leaf_store.writer import LeafWriter
from service.protocol.reads import AnswerSource, ReadItem, StoredReply
from service.web.arguments import Arguments

log = structlog.get_logger()

#: Keys of one read: about as many as one lookup takes.
BATCH_KEYS = 200
#: Fraction of the memory budget that may be used; the rest is left to readers.
SHARE = 0.8
#: Maximum time that a batch waits for readers' misses, and the interval of checks.
_POLITE_S, _LOOK_S = 0.2, 0.005
#: Number of attempts for a batch that fails with a retryable error.
_TRIES = 5
#: Errors that may concern one key only.
_OF_A_KEY = frozenset({"upstream_refused", "query_failed", "parameter_type", "too_large"})
#: Number of requests remembered.
_KEPT = 50
T = TypeVar("T")
#: Reads a batch; returns whether it is filled.
Fill = Callable[[Sequence[T]], Awaitable[bool]]


@dataclass(slots=True)
class FillProgress:
    """Progress of one request: of `keys`, how many are filled, and how many cannot be."""

    view: str
    keys: int
    filled: int = 0
    refused: int = 0
    #: ``waiting``, ``running``, ``done``, or ``stopped`` for `reason`.
    status: str = "waiting"
    reason: str | None = None

    def stop(self, reason: str) -> None:
        """Ends the request for `reason`."""
        self.status, self.reason = "stopped", reason


class Prewarm:
    """Fills keys, one request after another.

    *State*: `_fillings`, the latest requests, newest last; `_tasks`, requests that run in the background.
    """

    def __init__(
        self, reads: Misses, registry: ViewRegistry, leaf: LeafWriter, dispatcher: Dispatcher, budget: MemoryBudget
    ) -> None:
        self._reads = reads
        self._registry = registry
        self._leaf = leaf
        self._dispatcher = dispatcher
        self._budget = budget
        self._turn = asyncio.Lock()
        self._fillings: deque[FillProgress] = deque(maxlen=_KEPT)
        self._tasks: set[asyncio.Task[FillProgress]] = set()

    async def fill(self, view: str, keys: Sequence[Sequence[str | None]]) -> FillProgress:
        """Fills keys of a view in the given order and returns the final progress.

        Raises ApiError(view_not_found).
        """
        return await self._run(self._asked(view, keys), keys)

    def begin(self, view: str, keys: Sequence[Sequence[str | None]]) -> FillProgress:
        """Starts a `fill` in the background; `fillings` shows its progress."""
        filling = self._asked(view, keys)
        task = asyncio.get_running_loop().create_task(self._run(filling, keys))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return filling

    async def cover(self, keys: Sequence[Wanted], filling: FillProgress) -> bool:
        """Fills keys of any views in the given order, those that are holes; `filling` shows the progress. Returns False
        if an error ended that."""
        await self._ended(filling, partial(self._fill_batches, filling, keys, self._covered))
        return filling.status == "done" or self._is_full

    def fillings(self) -> list[dict[str, Any]]:
        """Progress of the latest requests, for ``GET /v1/prewarm``."""
        return [asdict(filling) for filling in self._fillings]

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _asked(self, view: str, keys: Sequence[object]) -> FillProgress:
        if view not in self._registry.views:
            raise ApiError("view_not_found", f"View {view!r} does not exist.")
        filling = FillProgress(view, len(keys))
        self._fillings.append(filling)
        return filling

    async def _run(self, filling: FillProgress, keys: Sequence[Sequence[str | None]]) -> FillProgress:
        return await self._ended(filling, partial(self._fill, filling, keys))

    async def _ended(self, filling: FillProgress, fill: Callable[[], Awaitable[None]]) -> FillProgress:
        try:
            async with self._turn:
                filling.status = "running"
                await fill()
        except asyncio.CancelledError:
            filling.stop("The engine process is shutting down.")
            raise
        except ApiError as error:
            filling.stop(error.detail)
        except Exception:
            # A bug in the service. The task may have no awaiter, so its error is logged here.
            log.exception("pre-warming failed", view=filling.view)
            filling.stop("Prewarming failed because of an internal error; the service's log has the cause.")
        if filling.status == "running":
            filling.status = "done"
        log.info("pre-warmed", **asdict(filling))
        return filling

    async def _fill(self, filling: FillProgress, keys: Sequence[Sequence[str | None]]) -> None:
        info = self._info(filling.view)
        if info is None or not keys:
            filling.filled = len(keys)
            return
        items = items_of(info, keys)
        filling.refused = len(keys) - len(items)
        await self._fill_batches(filling, items, self._filled)

    async def _fill_batches(self, filling: FillProgress, items: Sequence[T], fill: Fill[T]) -> None:
        for start in range(0, len(items), BATCH_KEYS):
            if self._is_full:
                filling.stop(f"{SHARE:.0%} of the memory budget is used.")
                return
            await self._politely()
            await self._read(filling, items[start : start + BATCH_KEYS], fill)

    @property
    def _is_full(self) -> bool:
        return self._budget.used_bytes >= SHARE * self._budget.limit_bytes

    def _info(self, view: str) -> ViewInfo | None:
        """Returns the readers' description of the view; None for a fully materialized view, which has nothing to fill.
        Raises `ApiError`."""
        registered = self._registry.views.get(view)
        installed = None if registered is None else registered.installed
        if registered is None or installed is None or installed.is_buried:
            raise ApiError("view_broken", f"View {view!r} cannot be read.")
        engine = self._dispatcher.engine
        leaf = None if engine is None else engine.graph.leaves.get(installed.id)
        return None if leaf is not None and leaf.full else self._leaf.info(installed.id)

    async def _politely(self) -> None:
        """Waits for readers' pending misses, up to a limit."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + _POLITE_S
        while self._reads.pending and loop.time() < limit:
            await asyncio.sleep(_LOOK_S)

    async def _filled(self, items: Sequence[ReadItem]) -> bool:
        reply = await self._reads.fill(items)
        stored = isinstance(reply, StoredReply) or reply.source is AnswerSource.UNSTORED
        return stored or self._forwards(items[0])

    async def _covered(self, keys: Sequence[Wanted]) -> bool:
        engine = self._dispatcher.engine
        leaves = {} if engine is None else engine.graph.leaves
        holes = []
        for want in keys:
            leaf = leaves.get(want[0])
            if leaf is not None and not leaf.stopped and want[1] not in leaf.coverage:
                holes.append(want)
        if holes:
            await self._reads.cover(holes)
        return True

    async def _read(self, filling: FillProgress, items: Sequence[T], fill: Fill[T], tries: int = _TRIES) -> None:
        """Reads a batch. One that is refused, or answered upstream, because of one of its keys is split, so that the
        others are filled. (Both cases can be temporary: nothing is cached for a table just added to the publication.)
        """
        waits = Backoff()
        for left in reversed(range(tries)):
            try:
                if await fill(items):
                    filling.filled += len(items)
                    return
            except ApiError as error:
                if error.code in _OF_A_KEY and not error.retryable:
                    break
                if not (error.retryable and left):
                    raise
            if left:
                await asyncio.sleep(waits.failed())
        if len(items) == 1:
            filling.refused += 1
            return
        half = len(items) // 2
        await self._read(filling, items[:half], fill, tries=1)
        await self._read(filling, items[half:], fill, tries=1)

    def _forwards(self, item: ReadItem) -> bool:
        """True if the upstream always answers misses of the item, which are filled in the background."""
        registered = self._registry.views.get(item.view)
        return registered is not None and registered.definition.options.forwards


def items_of(info: ViewInfo, keys: Sequence[Sequence[str | None]]) -> list[ReadItem]:
    """Builds the reads of those keys that fit the view's parameters."""
    arguments = Arguments(info, BATCH_KEYS)
    found: list[ReadItem] = []
    for key in keys:
        try:
            # By name, since the view may be replaced meanwhile by one with the same parameters.
            found.append(ReadItem(info.name, arguments.values(_by_name(info, key))))
        except (ApiError, ValueError):
            continue
    return found


def _by_name(info: ViewInfo, key: Sequence[str | None]) -> dict[str, Value | list[Value]]:
    """Returns parameters by name. Raises `ValueError` if they do not fit the view, or are claims of tokens, which logs
    contain only as hashes."""
    if info.claims:
        raise ValueError("the view has a parameter that is a claim of the reader's token")
    given: dict[str, Value | list[Value]] = {}
    for parameter, text in zip(info.parameters, key, strict=True):
        if parameter.members is not None and text is not None:
            given |= _among_members(parameter.members, _listed(text))
        elif parameter.role is ParameterRole.LIST and text is not None:
            given.setdefault(parameter.name, _listed(text))
        else:
            given.setdefault(parameter.name, text)
    return given


def _listed(text: str) -> list[Value]:
    """Returns the values of a list parameter: those of a JSON array; any other text is one value."""
    try:
        listed = orjson.loads(text)
    except ValueError:
        return [text]
    return listed if isinstance(listed, list) else [text]


def _among_members(members: Members, listed: list[Value]) -> dict[str, Value | list[Value]]:
    """Returns the parameters that make a list of these values. Raises `ValueError` if there are too few."""
    values = [v for v in listed if str(v) not in members.constants]
    if len(values) > len(members.names):
        raise ValueError("the list has more values than parameters")
    return dict(zip_longest(members.names, values))
