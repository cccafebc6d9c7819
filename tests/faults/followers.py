"""Subscribers and changes of the catalog that go on beside faults: whoever is cut off resumes, or begins anew."""

import asyncio
import threading
from contextlib import suppress
from urllib.parse import urlencode

import httpx

from load.subscribers.rows import LostTrack, SubscriberRows
from load.subscribers.stream import EventSource, StreamEvent
from tests.fixtures.service import LIMIT_S, until
from tests.integration.consistency import Client, Load, Unanswered, ask, comparable
from tests.integration.news_workload import OWNERS, USERS, VIEWS

FOLLOWED = [(name, value) for name in ("stories_of_author", "karma") for value in USERS[:6]] + [
    ("wealth", owner) for owner in OWNERS
]
_AGAIN_S = 0.2


class Follower:
    """One subscriber. *State*: `rows`, as its events say; `failure`, what did not fit."""

    def __init__(self, name: str, value: str) -> None:
        self.name, self.value = name, value
        self.rows = SubscriberRows()
        self.failure: LostTrack | None = None
        self.connections = 0
        self._last_id = ""
        self._source: EventSource | None = None

    async def follow(self, http: str) -> None:
        """Subscribe once, until that ends."""
        if self.rows.over or not self._last_id:
            self.rows, self._last_id = SubscriberRows(), ""
        parameters = urlencode({VIEWS[self.name][1]: self.value})
        url = f"{http}/v1/views/{self.name}/subscribe?{parameters}"
        self._source = source = await EventSource.open(url, self._hear, self._last_id)
        self.connections += 1
        try:
            while not source.ended.done() and not self.rows.over:
                await asyncio.wait([source.ended], timeout=_AGAIN_S)
                self._last_id = source.events.last_id or self._last_id
        finally:
            source.close()
        if source.status in (httpx.codes.CONFLICT, httpx.codes.GONE):
            self._last_id = ""

    def _hear(self, event: StreamEvent) -> None:
        try:
            self.rows.hear(event)
        except LostTrack as lost:
            self.failure = self.failure or lost


class Followers(threading.Thread):
    """Many of them, until they are stopped."""

    def __init__(self, load: Load) -> None:
        super().__init__(daemon=True)
        self._load = load
        self._stop_asked = threading.Event()
        self.followers = [Follower(name, value) for name, value in FOLLOWED]

    def run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        following = [asyncio.create_task(self._follow(follower)) for follower in self.followers]
        while not self._stop_asked.is_set():
            await asyncio.sleep(_AGAIN_S)
        for task in following:
            task.cancel()

    async def _follow(self, follower: Follower) -> None:
        while True:
            # Whoever hangs does not answer a subscription, either.
            with suppress(OSError, TimeoutError):
                await follower.follow(self._load.service.http)
            await asyncio.sleep(_AGAIN_S)

    def stop(self) -> None:
        """Ask them to end, and wait."""
        self._stop_asked.set()
        self.join(LIMIT_S)

    def check(self) -> None:
        """Wait until all have what the database has. AssertionError, LostTrack."""
        with self._load.still() as snapshot:
            for follower in self.followers:
                expected = comparable(follower.name, snapshot.rows(VIEWS[follower.name][0], follower.value))
                until(lambda follower=follower, expected=expected: self._has(follower, expected))

    def _has(self, follower: Follower, expected: object) -> bool:
        if follower.failure is not None:
            raise follower.failure
        return bool(comparable(follower.name, [list(row.values()) for row in follower.rows.rows]) == expected)

    @property
    def connections(self) -> int:
        """How often one of them has subscribed."""
        return sum(follower.connections for follower in self.followers)


class Installer(Client):
    """Puts a view, reads it, and drops it."""

    def once(self, http: httpx.Client) -> None:
        number, author = self.random.randrange(8), self.random.choice(USERS)
        path = f"{self.service.admin}/v1/catalog/views/put_{number}"
        columns = self.random.choice(("id, title", "id, author", "count(*) AS n", "max(id) AS newest"))
        self._change(http, "PUT", path, json={"sql": f"SELECT {columns} FROM stories WHERE author = :author"})
        ask(http, "GET", f"{self.service.http}/v1/views/put_{number}", params={"author": author})
        self._change(http, "DELETE", path)

    def _change(self, http: httpx.Client, method: str, path: str, **options: object) -> None:
        """Raises `Unanswered` also where the change cannot be kept."""
        try:
            ask(http, method, path, **options)
        except AssertionError as refused:
            if "cannot be kept over a restart" in str(refused):
                raise Unanswered(str(refused)) from refused
            raise
