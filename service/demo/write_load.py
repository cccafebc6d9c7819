"""The live write load of the demo: what visitors of the site do to its database, some fifty transactions a second.

Not here: reading (`visitors`), comparing (`check`).
"""

import asyncio
import random as randomness
from collections.abc import Awaitable, Callable
from contextlib import suppress

from psycopg import AsyncConnection
from psycopg.errors import DeadlockDetected

from service.demo.dataset import TAGS, DatasetSize, remark, title, user_name
from service.demo.views import draw_story, draw_user

_Deed = Callable[["_Visitor"], Awaitable[None]]


class WriteLoad:
    """Writers at a steady rate, which can be paused so that the database stands still for a moment.

    *Maintains*: between `pause` and `resume` no transaction of the load is open, and all that it committed is durable.
    """

    def __init__(self, conninfo: str, size: DatasetSize, per_second: float = 50.0, writers: int = 2) -> None:
        self._conninfo = conninfo
        self._size = size
        self._interval = writers / per_second
        self._writers = writers
        self._tasks: list[asyncio.Task[None]] = []
        self._running = asyncio.Event()
        self._turns = [asyncio.Lock() for _ in range(writers)]
        #: Transactions committed since the start.
        self.transactions = 0

    async def start(self) -> None:
        """Connect the writers and let them go."""
        self._running.set()
        for number in range(self._writers):
            connection = await AsyncConnection.connect(self._conninfo, autocommit=True)
            self._tasks.append(asyncio.create_task(self._write(number, connection)))

    async def pause(self) -> None:
        """Return once no transaction of the load is open."""
        self._running.clear()
        for turn in self._turns:
            async with turn:
                pass

    def resume(self) -> None:
        self._running.set()

    async def stop(self) -> None:
        """End the writers; an open transaction is rolled back."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    @property
    def failure(self) -> BaseException | None:
        """Why a writer ended by itself, if one did."""
        ended = (task for task in self._tasks if task.done() and not task.cancelled())
        return next((error for task in ended if (error := task.exception())), None)

    async def _write(self, number: int, connection: AsyncConnection) -> None:
        visitor = _Visitor(connection, randomness.Random(number + 1), self._size)
        loop = asyncio.get_running_loop()
        due = loop.time()
        async with connection:
            while True:
                due = max(due + self._interval, loop.time() - 1.0)
                await asyncio.sleep(max(0.0, due - loop.time()))
                await self._running.wait()
                async with self._turns[number]:
                    # Paused between the wait and the turn: not now.
                    if self._running.is_set():
                        await visitor.do_something()
                        self.transactions += 1


class _Visitor:
    """Somebody who does one thing after another to the site, each in one transaction."""

    def __init__(self, connection: AsyncConnection, random: randomness.Random, size: DatasetSize) -> None:
        self._connection = connection
        self._random = random
        self._size = size

    async def do_something(self) -> None:
        """One transaction. A deadlock with another visitor rolls it back: that happens, and is nothing to repair."""
        deed = self._random.choices(_DEEDS, _WEIGHTS, k=1)[0]
        with suppress(DeadlockDetected):
            async with self._connection.transaction():
                await deed(self)

    @property
    def story(self) -> str:
        """A story that people talk about."""
        return draw_story(self._random, self._size)

    @property
    def user(self) -> str:
        return user_name(self._random.randrange(self._size.users))

    @property
    def author(self) -> str:
        """Somebody who writes much."""
        return draw_user(self._random, self._size)

    async def vote(self) -> None:
        """A vote, unless it was cast before, and the score that it changes."""
        story, value = self.story, self._random.choice((1, 1, 1, 1, -1))
        added = await self._connection.execute(
            "INSERT INTO votes (story_id, user_id, value) SELECT id, %s, %s FROM stories WHERE id = %s"
            " ON CONFLICT DO NOTHING",
            (self.user, value, story),
        )
        await self._connection.execute(
            "UPDATE stories SET score = score + %s WHERE id = %s", (value * added.rowcount, story)
        )

    async def change_vote(self) -> None:
        """Somebody thinks better of it."""
        story = self.story
        changed = await self._connection.execute(
            "UPDATE votes SET value = -value WHERE story_id = %s AND user_id ="
            " (SELECT user_id FROM votes WHERE story_id = %s LIMIT 1) RETURNING value",
            (story, story),
        )
        for (value,) in await changed.fetchall():
            await self._connection.execute("UPDATE stories SET score = score + %s WHERE id = %s", (2 * value, story))

    async def take_vote_back(self) -> None:
        """A vote goes, and with it its part of the score."""
        story = self.story
        gone = await self._connection.execute(
            "DELETE FROM votes WHERE story_id = %s AND user_id ="
            " (SELECT user_id FROM votes WHERE story_id = %s LIMIT 1) RETURNING value",
            (story, story),
        )
        for (value,) in await gone.fetchall():
            await self._connection.execute("UPDATE stories SET score = score - %s WHERE id = %s", (value, story))

    async def comment(self) -> None:
        """A remark; its author was here just now."""
        user = self.user
        await self._connection.execute(
            "INSERT INTO comments (story_id, author, body) SELECT id, %s, %s FROM stories WHERE id = %s",
            (user, remark(self._random.randrange(1000)), self.story),
        )
        await self._connection.execute("UPDATE users SET last_seen = now() WHERE name = %s", (user,))

    async def delete_comment(self) -> None:
        """A remark goes, with all answers to it."""
        await self._connection.execute(
            "DELETE FROM comments WHERE id = (SELECT max(id) FROM comments WHERE story_id = %s)", (self.story,)
        )
        await self._connection.execute("UPDATE users SET last_seen = now() WHERE name = %s", (self.user,))

    async def submit(self) -> None:
        """A new story with its tags and its author's vote."""
        author, number = self.author, self._random.randrange(10_000)
        inserted = await self._connection.execute(
            "INSERT INTO stories (title, url, author) VALUES (%s, %s, %s) RETURNING id",
            (title(number), f"https://example.org/new/{number}", author),
        )
        row = await inserted.fetchone()
        story = row[0] if row else None
        for tag in self._random.sample(TAGS, 2):
            await self._connection.execute(
                "INSERT INTO taggings (story_id, tag_id) SELECT %s, id FROM tags WHERE name = %s", (story, tag)
            )
        await self._connection.execute(
            "INSERT INTO votes (story_id, user_id, value) VALUES (%s, %s, 1)", (story, author)
        )
        await self._connection.execute("UPDATE stories SET score = score + 1 WHERE id = %s", (story,))

    async def retag(self) -> None:
        """A story moves from one tag's page to another's."""
        story, tag = self.story, self._random.choice(TAGS)
        await self._connection.execute(
            "DELETE FROM taggings WHERE story_id = %s AND tag_id ="
            " (SELECT min(tag_id) FROM taggings WHERE story_id = %s)",
            (story, story),
        )
        await self._connection.execute(
            "INSERT INTO taggings (story_id, tag_id) SELECT s.id, t.id FROM stories s, tags t"
            " WHERE s.id = %s AND t.name = %s ON CONFLICT DO NOTHING",
            (story, tag),
        )

    async def moderate(self) -> None:
        """A story is removed, or comes back, and another gets a better title."""
        await self._connection.execute("UPDATE stories SET removed = NOT removed WHERE id = %s", (self.story,))
        await self._connection.execute(
            "UPDATE stories SET title = %s WHERE id = %s", (title(self._random.randrange(10_000)), self.story)
        )

    async def rename(self) -> None:
        """A user wants to be called otherwise, and a story turns out to be somebody else's."""
        user = self.user
        await self._connection.execute(
            "UPDATE users SET display_name = %s WHERE name = %s",
            (f"{user.capitalize()} {self._random.choice('ABCDEFGH')}.", user),
        )
        await self._connection.execute("UPDATE stories SET author = %s WHERE id = %s", (self.author, self.story))


#: What is done how often, in percent.
_MIX: dict[_Deed, int] = {
    _Visitor.vote: 50,
    _Visitor.change_vote: 5,
    _Visitor.take_vote_back: 5,
    _Visitor.comment: 15,
    _Visitor.delete_comment: 3,
    _Visitor.submit: 6,
    _Visitor.retag: 6,
    _Visitor.moderate: 5,
    _Visitor.rename: 5,
}
_DEEDS = tuple(_MIX)
_WEIGHTS = tuple(_MIX.values())
