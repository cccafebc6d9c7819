"""Random transactions and evictions while answers are followed: every event is exact at the version that it names."""

import asyncio
from bisect import bisect_right
from pathlib import Path
from random import Random
from typing import Any

import pytest

from dataflow.engine.events import Apply, EvictKey, EvictSome
from dataflow.types import Key, ViewId
from service.ground.errors import ApiError
from service.worker.subscriptions.entries import EventKind
from service.worker.subscriptions.topics import Subscription
from tests.fixtures.postgres import Database
from tests.service.engine.running import until
from tests.service.worker.subscriptions.rebuilding import Rebuilt
from tests.service.worker.subscriptions.site import ASKED, SCHEMA, VIEWS, Asked, Writer
from tests.service.worker.subscriptions.workers import LIMIT_S, Followed, Worker, following

TRANSACTIONS = 120


class Run:
    """One run: a writer, what the stream says where its transactions end, and subscribers who check."""

    def __init__(self, followed: Followed, writer: Writer, seed: int) -> None:
        self.followed = followed
        self.writer = writer
        self.random = Random(seed)
        self.ends: list[int] = []
        self.followers = [Follower(self, asked, worker) for asked in ASKED for worker in followed.workers]
        self.refetched = self.resumed = self.changes = 0
        self._record_ends()

    def _record_ends(self) -> None:
        dispatcher, step = self.followed.runtime.dispatcher, self.followed.runtime.dispatcher.step

        def recording(event: Any) -> None:
            if isinstance(event, Apply):
                self.ends += [t.end for t in event.transactions if "public.marks" in t.tables]
            step(event)

        dispatcher.step = recording  # type: ignore[method-assign]

    def is_known(self) -> bool:
        """Return whether the writer has seen what follows from all that the stream has brought."""
        return len(self.writer.states) > len(self.ends)

    async def write(self, *statements: str) -> None:
        """A transaction that every follower comes to know of."""
        await asyncio.to_thread(self.writer.write, *statements)
        await until(self.is_there, LIMIT_S)

    def is_there(self) -> bool:
        """Return whether all followers have what the database has."""
        return all(follower.is_there() for follower in self.followers)

    def expected(self, asked: Asked, position: int) -> Any:
        return self.writer.states[bisect_right(self.ends, position)][asked]

    def covered(self) -> list[tuple[ViewId, Key]]:
        """The keys that the leaf store has."""
        engine = self.followed.runtime.dispatcher.engine
        assert engine is not None
        leaves = [*engine.graph.leaves.values(), *engine.refreshes.leaves.values()]
        return [(leaf.view_id, key) for leaf in leaves for key in leaf.coverage.keys]

    def evict(self) -> None:
        """Evict like the policy, an operator or incongruence would."""
        dispatcher = self.followed.runtime.dispatcher
        keys = self.covered()
        if keys and self.random.random() < 0.9:
            dispatcher.step(EvictKey(*self.random.choice(keys)))
        else:
            dispatcher.step(EvictSome(3))

    def disconnect(self) -> None:
        """A worker loses its connection to the engine."""
        connection = self.random.choice(self.followed.workers).client._connection
        if connection is not None:
            connection._writer.close()


class Follower:
    """Follows one answer at one worker, or, after it has left, at another one."""

    def __init__(self, run: Run, asked: Asked, worker: Worker) -> None:
        self.run = run
        self.asked = asked
        self.worker = worker
        self.rebuilt = Rebuilt(self._check)
        self.subscription: Subscription | None = None
        self.task = asyncio.ensure_future(self._follow())

    def _check(self, position: int, rows: list[Any]) -> None:
        found, expected = self.asked.shown(rows), self.run.expected(self.asked, position)
        assert found == expected, f"{self.asked} at {position}: {found} is not {expected}"

    async def _follow(self) -> None:
        while True:
            self.subscription = subscription = await self._subscribe()
            try:
                while entries := await subscription.next():
                    # The writer may not have seen yet what has arrived here.
                    await until(self.run.is_known)
                    self.run.changes += sum(entry.kind is EventKind.CHANGE for entry in entries)
                    self.rebuilt.take(entries)
            finally:
                subscription.close()

    async def _subscribe(self) -> Subscription:
        token = self.rebuilt.token
        while True:
            try:
                subscription = await self.worker.subscribe(self.asked.view, *self.asked.values, after=token)
            except ApiError as error:
                if error.code == "must_refetch":
                    self.run.refetched += 1
                    token = None
                elif not error.retryable:
                    raise
                # Of a view that is kept whole, and was evicted, it has to be tried again.
                await asyncio.sleep(0.01)
            else:
                self.run.resumed += token is not None
                return subscription

    async def leave(self) -> None:
        """Comes back later, at any worker, with the token of what it had."""
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.worker = self.run.random.choice(self.run.followed.workers)
        self.task = asyncio.ensure_future(self._come_back(len(self.run.writer.states) + self.run.random.randrange(6)))

    async def _come_back(self, transactions: int) -> None:
        await until(lambda: len(self.run.writer.states) >= min(transactions, TRANSACTIONS))
        await self._follow()

    def is_there(self) -> bool:
        if self.task.done():
            self.task.result()
        return bool(self.asked.shown(self.rebuilt.rows) == self.run.writer.states[-1][self.asked])


@pytest.mark.postgres
@pytest.mark.parametrize("seed", [1, 2])
def test_every_event_is_exact_at_its_version(database: Database, tmp_path: Path, seed: int) -> None:
    database.execute(*SCHEMA)
    views = {name: sql for name, (sql, _) in VIEWS.items()}

    async def main() -> None:
        # In one run nothing makes up for a change of which nobody is told; in the other only one of the workers says
        # now and then how far it is.
        first = {"up_to_date_s": (3600, 0.02)[seed % 2], "linger_s": (0.1, 60)[seed % 2]}
        async with following(database, tmp_path, first, {"up_to_date_s": 3600}, views=views) as followed:
            writer = Writer(database, seed)
            run = Run(followed, writer, seed)
            try:
                await write_and_disturb(run)
                await until(run.is_there, LIMIT_S)
                for key in run.covered():
                    followed.runtime.dispatcher.step(EvictKey(*key))
                await run.write("UPDATE stories SET votes = 7 WHERE id % 2 = 0", "UPDATE users SET name = name || '.'")
                await run.write("TRUNCATE stories")
            finally:
                writer.close()
                for follower in run.followers:
                    follower.task.cancel()
            assert len(run.ends) == TRANSACTIONS + 2
            assert run.changes > TRANSACTIONS
            assert run.resumed

    asyncio.run(main())


async def write_and_disturb(run: Run) -> None:
    for number in range(TRANSACTIONS):
        await asyncio.to_thread(run.writer.write)
        kind = run.random.random()
        if kind < 0.25:
            run.evict()
        # In the second half, nothing makes up for what was not told.
        elif kind < 0.3 and number < TRANSACTIONS // 2:
            run.disconnect()
        elif kind < 0.45 and number < TRANSACTIONS // 2:
            await run.random.choice(run.followers).leave()
        if run.random.random() < 0.5:
            # What was written arrives in between, sometimes one by one and sometimes together.
            await until(lambda: len(run.ends) == len(run.writer.states) - 1)
        for follower in run.followers:
            follower.is_there()
