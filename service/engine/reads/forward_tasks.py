"""Statements of forwarded reads; concurrent reads of one statement share its result.

A popular miss must not become many equal statements. A statement's snapshot is taken after it begins, so it serves
every read that arrived before. A statement whose result was too large is refused for a while.

*Maintains*: of equal statements one runs at a time; abandoned statements are not started, and running ones are
cancelled after `GRACE_S`.

Not here: the statements (`forwards`), the use of their rows (`misses`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager
from hashlib import blake2b
from time import monotonic

from service.engine.reads.slots import Slots
from service.engine.upstream.results import AnswerSize, ForwardRows, UpstreamError
from service.engine.upstream.upstream import Lookups

#: Statements of one snapshot, with the texts of their parameters.
Queries = Sequence[tuple[str, Sequence[str | None]]]
Found = asyncio.Future[ForwardRows]
_Equal = tuple[tuple[str, tuple[str | None, ...]], ...]
#: Time that an abandoned statement may continue: most end within it, and a cancellation takes connections.
GRACE_S = 0.5
#: Time during which a result that was too large is assumed to be still too large.
REFUSED_S = 60.0
_MAX_REFUSED = 1000


class ForwardTasks:
    """Running and waiting statements.

    *State*: `_waiting`, futures of the reads that share the next statement; `_tasks`, one for each running statement;
    `_refused`, by digest, the error and the end of a refusal.
    """

    def __init__(self, lookups: Lookups, slots: Slots, most: AnswerSize) -> None:
        self._lookups = lookups
        self._slots = slots
        self._most = most
        self._refused: OrderedDict[bytes, tuple[float, UpstreamError]] = OrderedDict()
        self._waiting: dict[_Equal, list[Found]] = {}
        self._tasks: dict[_Equal, asyncio.Task[None]] = {}

    def ask(self, queries: Queries, tables: Collection[str]) -> Found:
        """Returns the upstream's result, or raises the error of the statement. Cancel the call to abandon it. `tables`:
        the tables that the queries read, if known."""
        equal = tuple((sql, tuple(parameters)) for sql, parameters in queries)
        found: Found = asyncio.get_running_loop().create_future()
        if (refusal := self._refusal(equal)) is not None:
            found.set_exception(refusal)
            return found
        self._waiting.setdefault(equal, []).append(found)
        if equal not in self._tasks:
            self._tasks[equal] = asyncio.get_running_loop().create_task(self._run(equal, tables))
        return found

    async def _run(self, equal: _Equal, tables: Collection[str]) -> None:
        try:
            while equal in self._waiting:
                waiting: list[Found] = []
                try:
                    async with self._slots.slot(tables):
                        waiting = [found for found in self._waiting.pop(equal) if not found.done()]
                        if waiting:
                            async with _while_waited_for(waiting):
                                rows = await self._lookups.forward(equal, self._most)
                except Exception as error:
                    # Still waiting without a slot. An abandoned statement has no waiters.
                    self._fail(equal, waiting or self._waiting.pop(equal, []), error)
                else:
                    for found in waiting:
                        if not found.done():
                            found.set_result(rows)
        finally:
            del self._tasks[equal]

    def _fail(self, queries: _Equal, waiting: list[Found], error: Exception) -> None:
        if isinstance(error, UpstreamError) and error.code == "too_large":
            self._refuse(queries, error)
        for found in waiting:
            if not found.done():
                found.set_exception(error)

    def _refuse(self, equal: _Equal, error: UpstreamError) -> None:
        while len(self._refused) >= _MAX_REFUSED:
            self._refused.popitem(last=False)
        self._refused[_digest(equal)] = (monotonic() + REFUSED_S, error)

    def _refusal(self, equal: _Equal) -> UpstreamError | None:
        """Returns the error that currently refuses these statements, if any."""
        if not self._refused:
            return None
        digest = _digest(equal)
        until_s, refusal = self._refused.get(digest, (0.0, None))
        if refusal is not None and monotonic() >= until_s:
            del self._refused[digest]
            return None
        # A new exception each time, since raising one extends its traceback.
        return None if refusal is None else UpstreamError(refusal.code, refusal.detail, refusal.hint)


@asynccontextmanager
async def _while_waited_for(waiting: Sequence[Found]) -> AsyncIterator[None]:
    """Cancels the body, by TimeoutError, once no read waits for it."""
    loop = asyncio.get_running_loop()
    ended = False
    async with asyncio.timeout(None) as limit:

        def left(_: Found) -> None:
            if not ended and limit.when() is None and all(found.done() for found in waiting):
                limit.reschedule(loop.time() + GRACE_S)

        for found in waiting:
            found.add_done_callback(left)
        try:
            yield
        finally:
            ended = True


def _digest(equal: _Equal) -> bytes:
    """Short key for statements and parameters, whose texts may be long."""
    return blake2b(repr(equal).encode(errors="surrogatepass"), digest_size=16).digest()
