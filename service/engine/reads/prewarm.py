"""Fills keys that will be read before anybody reads them: at the start of a session, and when somebody asks.

Keys come hottest first, as the access log has them: the texts of a view's parameters in the order of its parameters, a
list's as JSON. They are ordinary reads, many keys at once, so that what they miss is looked up with ``= ANY``.

*Invariants*: one batch is under way at a time, and none is begun while readers wait for what they missed (for a short
while: a busy site has always one that does); nothing is filled above `SHARE` of the memory budget, so that filling
evicts nothing; keys that cannot be filled are counted and left out, and never end the others.

Not here: which keys are worth it (`dataflow.spark`, docs/workload.md).
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import orjson
import structlog

from dataflow.types import Value
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.memory_budget import MemoryBudget
from service.engine.reads.misses import Misses
from service.engine.views.registry import ViewRegistry
from service.ground.backoff import Backoff
from service.ground.errors import ApiError
from service.leaf_store.catalog import ParameterRole, ViewInfo
from service.leaf_store.writer import LeafWriter
from service.protocol.wire import AnswerSource, ReadItem
from service.web.arguments import Arguments

log = structlog.get_logger()

#: Keys of one read: about as many as one lookup takes.
BATCH_KEYS = 200
#: Of the memory budget; what readers ask for finds room beside it.
SHARE = 0.8
#: How long a batch waits for readers' misses, at most, and how often it looks.
_POLITE_S, _LOOK_S = 0.2, 0.005
#: A batch that fails and may be tried again is, so often.
_TRIES = 5
#: Problems that one key may have and others not.
_OF_A_KEY = frozenset({"upstream_refused", "query_failed", "parameter_type", "too_large"})
#: Fillings that are remembered.
_KEPT = 50


@dataclass(slots=True)
class Filling:
    """What became of one request: of `keys`, how many were filled (or were there), and how many cannot be."""

    view: str
    keys: int
    filled: int = 0
    refused: int = 0
    #: ``waiting``, ``running``, ``done``, or ``stopped`` for `reason`.
    status: str = "waiting"
    reason: str | None = None

    def stop(self, reason: str) -> None:
        """No more of it is filled."""
        self.status, self.reason = "stopped", reason


class Prewarm:
    """Fills keys, one request after another.

    *State*: `_fillings`, those asked for last, the newest last; `_tasks`, those that nobody waits for.
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
        self._fillings: deque[Filling] = deque(maxlen=_KEPT)
        self._tasks: set[asyncio.Task[Filling]] = set()

    async def fill(self, view: str, keys: Sequence[Sequence[str | None]]) -> Filling:
        """Fills these keys of a view, in their order; returns when it is done or has stopped, and says which.

        Raises `ApiError` ``view_not_found``.
        """
        return await self._run(self._asked(view, keys), keys)

    def begin(self, view: str, keys: Sequence[Sequence[str | None]]) -> Filling:
        """As `fill`, without waiting for it: `fillings` says how far it is."""
        filling = self._asked(view, keys)
        task = asyncio.get_running_loop().create_task(self._run(filling, keys))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return filling

    def fillings(self) -> list[dict[str, Any]]:
        """How far the last ones are, for ``GET /v1/prewarm``."""
        return [asdict(filling) for filling in self._fillings]

    async def close(self) -> None:
        """Ends what is under way."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _asked(self, view: str, keys: Sequence[object]) -> Filling:
        if view not in self._registry.views:
            raise ApiError("view_not_found", f"View {view!r} does not exist.")
        filling = Filling(view, len(keys))
        self._fillings.append(filling)
        return filling

    async def _run(self, filling: Filling, keys: Sequence[Sequence[str | None]]) -> Filling:
        try:
            async with self._turn:
                filling.status = "running"
                await self._fill(filling, keys)
        except asyncio.CancelledError:
            filling.stop("The engine process stops.")
            raise
        except ApiError as error:
            filling.stop(error.detail)
        except Exception:
            # A bug of ours. Nobody may wait for this task.
            log.exception("pre-warming failed", view=filling.view)
            filling.stop("It failed inside the service; its log says more.")
        if filling.status == "running":
            filling.status = "done"
        log.info("pre-warmed", **asdict(filling))
        return filling

    async def _fill(self, filling: Filling, keys: Sequence[Sequence[str | None]]) -> None:
        info = self._info(filling.view)
        if info is None or not keys:
            filling.filled = len(keys)
            return
        items = items_of(info, keys)
        filling.refused = len(keys) - len(items)
        for start in range(0, len(items), BATCH_KEYS):
            if self._budget.used_bytes >= SHARE * self._budget.limit_bytes:
                filling.stop(f"{SHARE:.0%} of the memory budget is used.")
                return
            await self._politely()
            await self._read(filling, items[start : start + BATCH_KEYS])

    def _info(self, view: str) -> ViewInfo | None:
        """What readers know of it; None if it is kept whole, so that nothing is to be filled. ApiError."""
        registered = self._registry.views.get(view)
        installed = None if registered is None else registered.installed
        if registered is None or installed is None or installed.is_buried:
            raise ApiError("view_broken", f"View {view!r} does not answer.")
        engine = self._dispatcher.engine
        leaf = None if engine is None else engine.graph.leaves.get(installed.id)
        return None if leaf is not None and leaf.full else self._leaf.info(installed.id)

    async def _politely(self) -> None:
        """Lets readers go first who wait for what they missed."""
        loop = asyncio.get_running_loop()
        limit = loop.time() + _POLITE_S
        while self._reads.pending and loop.time() < limit:
            await asyncio.sleep(_LOOK_S)

    async def _read(self, filling: Filling, items: Sequence[ReadItem], tries: int = _TRIES) -> None:
        """Reads a batch. One that is refused, or answered past the store, for a reason of one of its keys is taken
        apart: the others may be filled. (Both pass, too: nothing is stored of a table that has just joined.)"""
        waits = Backoff()
        for left in reversed(range(tries)):
            try:
                reply = await self._reads.read(items)
            except ApiError as error:
                if error.code in _OF_A_KEY and not error.retryable:
                    break
                if not (error.retryable and left):
                    raise
            else:
                if reply.source not in (AnswerSource.FORWARDED, AnswerSource.CURRENT) or self._forwards(items[0]):
                    filling.filled += len(items)
                    return
            if left:
                await asyncio.sleep(waits.failed())
        if len(items) == 1:
            filling.refused += 1
            return
        half = len(items) // 2
        await self._read(filling, items[:half], tries=1)
        await self._read(filling, items[half:], tries=1)

    def _forwards(self, item: ReadItem) -> bool:
        """Whether what is missing is always answered by the upstream, and filled behind that."""
        registered = self._registry.views.get(item.view)
        return registered is not None and registered.definition.options.serving.forwards


def items_of(info: ViewInfo, keys: Sequence[Sequence[str | None]]) -> list[ReadItem]:
    """Reads of those of these keys that are the view's."""
    arguments = Arguments(info, BATCH_KEYS)
    found: list[ReadItem] = []
    for key in keys:
        try:
            # By name: the view may be replaced by one with the same parameters meanwhile.
            found.append(ReadItem(info.name, arguments.values(_by_name(info, key))))
        except (ApiError, ValueError):
            continue
    return found


def _by_name(info: ViewInfo, key: Sequence[str | None]) -> dict[str, Value | list[Value]]:
    """Parameters by name. ValueError: they are not the view's, or come from tokens, of which logs have hashes."""
    if info.claims:
        raise ValueError("the view answers by the token of who asks")
    given: dict[str, Value | list[Value]] = {}
    for parameter, text in zip(info.parameters, key, strict=True):
        if parameter.role is ParameterRole.LIST and text is not None:
            given.setdefault(parameter.name, orjson.loads(text))
        else:
            given.setdefault(parameter.name, text)
    return given
