"""Hot keys: those that were read most of late, filled again by a session that begins without them.

A session begins with an empty cache where its stream cannot continue the one before, as after the end of a process that
was killed. The list of hot keys, without rows, is written to the state directory from time to time; the next session
fills them, hottest first, before readers miss them one by one.

*Theory*: a key is a hint and no state. It is looked up as for any miss, so a list that is old costs lookups, but cannot
change an answer. A digest of its view's plan shows whether the key still has the same meaning.

Keys that were filled and not read again follow in the list while it has room: in a small cache they are most of it.

*Invariants*: the list is replaced only after its keys have been filled, so it survives a process that is killed again
meanwhile. It has at most `MOST_KEYS` keys.

Not here: filling with low priority (`service.engine.reads.prewarm`), readiness meanwhile (`warm_up`), rows across a
restart (`service.engine.checkpoint`).
"""

import asyncio
import marshal
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from heapq import merge
from itertools import islice
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import structlog

from dataflow.engine.chunks import bounds_of, interval_of
from dataflow.engine.engine import Engine
from dataflow.engine.events import Wanted
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.ranking import LeafKey
from dataflow.engine.state_digests import StateDigests
from dataflow.plan.parts import WHOLE
from dataflow.types import Key
from service.engine.checkpoint.files import hot_keys_path, other_hot_keys
from service.engine.checkpoint.frames import FrameKind, read_frames, write_frame, write_magic
from service.engine.checkpoint.store import open_private
from service.engine.loop.dispatcher import Dispatcher
from service.engine.reads.prewarm import FillProgress, Prewarm
from service.protocol.engine_requests import Touch

log = structlog.get_logger()

T = TypeVar("T")

#: Keys of a list, and of a frame of its file.
MOST_KEYS = 10_000
_FRAME_KEYS = 256
#: Keys between two turns of the event loop: about half a millisecond.
_SLICE = 400
#: Counts of reads shrink to this share with each list: keys that are not read any more leave it.
_FADING = 0.9
#: Keys counted between two lists.
_MOST_COUNTED = 4 * MOST_KEYS

#: Plain values: the digest of a view's state, a key, and the bounds of its covered part or None for the whole.
HotKey = tuple[bytes, Key, Any]


class HotKeys:
    """The list of one of the engines of a service, in `directory`. `every_s`: seconds between two lists; 0: none is
    written or used.

    *State*: `_counts`, of the reads of the current engine's keys; `filling`, progress of the latest attempt to fill a
    list; `filled`, whether this process has filled one, or found none when it began; `filling_list`, whether the
    current session has one that it has not filled yet.
    """

    def __init__(
        self, dispatcher: Dispatcher, prewarm: Prewarm, directory: Path, engine: int, engines: int, every_s: float
    ) -> None:
        self._dispatcher = dispatcher
        self._prewarm = prewarm
        self._directory = directory
        self._engine = engine
        self._engines = engines
        self._every_s = every_s
        self._counts: dict[LeafKey, float] = {}
        self.filling = FillProgress("*", 0)
        self.filled = True
        self.filling_list = False

    @property
    def _path(self) -> Path:
        return hot_keys_path(self._directory, self._engine, self._engines)

    async def look(self) -> None:
        """Looks for a list of the process before, and removes those of another number of engines, which had other keys.
        To be called once, before the first session."""
        for path in other_hot_keys(self._directory, self._engines) if self._engine == 0 else ():
            with suppress(OSError):
                path.unlink(missing_ok=True)
        if self._every_s:
            self.filling = FillProgress("*", len(await asyncio.to_thread(read_list, self._path)))
            self.filled = not self.filling.keys

    def touched(self, touches: Iterable[Touch]) -> None:
        """Counts reads of keys, other than those of views that are kept whole."""
        engine, counts = self._dispatcher.engine, self._counts
        leaves = {} if engine is None else engine.graph.leaves
        for view, key, times in touches:
            if view in leaves and not leaves[view].full:
                before = counts.get((view, key), 0.0)
                # Further keys are counted once the next list has left few.
                if before or len(counts) < _MOST_COUNTED:
                    counts[view, key] = before + times

    async def keep(self) -> None:
        """Fills the keys of the last list, then writes a list whenever some time has passed; until cancelled."""
        self._counts.clear()
        if not self._every_s:
            await asyncio.Event().wait()
        self.filling_list = True
        keys = await asyncio.to_thread(read_list, self._path)
        while not await self._fill(keys):
            await asyncio.sleep(self._every_s)
        self.filled, self.filling_list = True, False
        while True:
            await asyncio.sleep(self._every_s)
            engine = self._dispatcher.engine
            if engine is not None and self._counts:
                await self._write(engine)

    async def _write(self, engine: Engine) -> None:
        """Writes a list. The event loop has a turn after each few hundred keys."""
        counts, self._counts = self._counts, {}
        hottest = await _hottest(counts)
        async for some in _slices(hottest):
            for item, times in some:
                self._counts[item] = self._counts.get(item, 0.0) + times * _FADING
        # The first read of a key is a miss, which is not counted.
        items = dict.fromkeys(item for item, _ in hottest)
        others = (item for item in engine.ranked() if item not in items)
        items |= dict.fromkeys(list(islice(others, MOST_KEYS - len(items))))
        names = _Names(engine.graph)
        named: list[HotKey] = []
        async for slice_ in _slices(items):
            named += names.of(slice_)
        await asyncio.to_thread(write_list, self._path, named)

    async def _fill(self, keys: Sequence[HotKey]) -> bool:
        """Returns False if it failed and is to be tried again."""
        engine = self._dispatcher.engine
        if not keys:
            return True
        if engine is None:
            return False
        try:
            wanted = list(_wanted(engine.graph, keys))
        except (TypeError, ValueError):
            log.warning("the list of hot keys has another format", path=str(self._path))
            return True
        self.filling = FillProgress("*", len(wanted))
        return await self._prewarm.cover(wanted, self.filling)


async def _slices(items: Iterable[T]) -> AsyncIterator[list[T]]:
    """Yields the items a few at a time, with a turn of the event loop after each slice."""
    rest = iter(items)
    while some := list(islice(rest, _SLICE)):
        yield some
        await asyncio.sleep(0)


async def _hottest(counts: Mapping[LeafKey, float]) -> list[tuple[LeafKey, float]]:
    """Returns the keys of a list, hottest first: sorting slices and merging them holds up the event loop less."""
    count = itemgetter(1)
    ordered = [sorted(some, key=count, reverse=True) async for some in _slices(counts.items())]
    merged = islice(merge(*ordered, key=count, reverse=True), MOST_KEYS)
    return [item async for some in _slices(merged) for item in some]


class _Names:
    """Keys of an engine as another one can find them."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._digests = StateDigests(graph)
        self._known: dict[Leaf, bytes | None] = {}

    def of(self, items: Iterable[LeafKey]) -> Iterator[HotKey]:
        """Yields those that are covered."""
        for view, key in items:
            leaf = self._graph.leaves.get(view)
            if leaf is None or leaf.full or key not in leaf.coverage:
                continue
            if leaf not in self._known:
                self._known[leaf] = self._digests.of(leaf)
            digest = self._known[leaf]
            if digest is not None:
                first = leaf.coverage.covered(key)[0]
                yield digest, key, None if first == WHOLE else bounds_of(first)


def _wanted(graph: Graph, keys: Iterable[HotKey]) -> Iterator[Wanted]:
    """Yields the keys as this engine names them, without those of views that it does not have."""
    digests = StateDigests(graph)
    views: dict[bytes | None, list[Leaf]] = {}
    for leaf in graph.leaves.values():
        if not leaf.full:
            views.setdefault(digests.of(leaf), []).append(leaf)
    for digest, key, bounds in keys:
        for leaf in views.get(digest, ()):
            yield leaf.view_id, key, None if bounds is None else interval_of(bounds)


def write_list(path: Path, keys: Sequence[HotKey]) -> None:
    """Replaces the file; errors are logged. It need not be on disk: a list that is lost costs misses."""
    made = path.with_suffix(".new")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with open_private(made) as file:
            write_magic(file)
            for start in range(0, len(keys), _FRAME_KEYS):
                some: Any = keys[start : start + _FRAME_KEYS]
                # Keys whose values are not plain are left out, with those of their frame.
                with suppress(ValueError):
                    write_frame(file, FrameKind.HOT_KEYS, marshal.dumps(some))
        made.replace(path)
    except OSError as problem:
        log.warning("the list of hot keys cannot be written", reason=problem.strerror, path=str(path))


def read_list(path: Path) -> list[HotKey]:
    """Returns the keys of a file, hottest first; none of frames that are damaged, and none of another format."""
    try:
        with path.open("rb") as file:
            bodies = [body for kind, body in read_frames(file) if kind is FrameKind.HOT_KEYS and body is not None]
        return [key for body in bodies for key in marshal.loads(body)]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, EOFError, TypeError) as problem:
        log.warning("the list of hot keys cannot be read", reason=str(problem), path=str(path))
        return []
