"""Subscriptions of one worker: who follows which answer, from which state on.

*Invariants*: one topic an answer, however many follow it; a subscriber holds nothing but a place in the topic's log,
so one that does not read costs nothing, and is told to fetch anew once the log has forgotten its place.

Not here: HTTP (`sse`, `long_poll`, `websocket`), keeping topics up to date (`updates`).
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from dataflow.engine.limits import Limits, key_bytes
from service.ground.errors import ApiError
from service.protocol.wire import EngineClient
from service.settings.sections import SubscriptionSettings
from service.web.principal import Principal
from service.worker.reads.reads import Reads, WantedRead
from service.worker.subscriptions.entries import Entry, EventKind, must_refetch
from service.worker.subscriptions.tokens import Resume, names, read_token
from service.worker.subscriptions.topic import Topic, TopicKey, TopicMemory, key_of
from service.worker.subscriptions.updates import TopicUpdates

__all__ = ["Entry", "EventKind", "Subscribes", "Subscription", "Subscriptions"]

#: How long those who wait for a topic to start have to come for it.
_START_S = 1.0
#: Larger keys are not held by the engine.
_MAX_KEY_BYTES = Limits().key_bytes


class Subscription:
    """A place in a topic's log."""

    def __init__(
        self, owner: "Subscriptions", topic: Topic, at: int, first: Sequence[Entry], client: str | None
    ) -> None:
        self._owner = owner
        self._topic = topic
        self._client = client
        self._at = at
        self._first = first
        self._fresh = topic.fresh
        self._over = False
        self._closed = False

    async def next(self) -> Sequence[Entry]:
        """What is new, as soon as there is anything; nothing when the stream has ended."""
        while True:
            # Before it is looked for: what comes later sets this one.
            news = self._topic.news
            entries = self._take()
            if entries or self._over or self._owner.closing:
                return entries
            await news.wait()

    def _take(self) -> Sequence[Entry]:
        if self._over or self._owner.closing:
            return ()
        first, self._first = self._first, ()
        if first:
            return first
        topic = self._topic
        missed = topic.log.behind(self._at)
        if missed is None:
            self._over = True
            self._owner.slow += 1
            return [must_refetch("The subscriber is too slow: what it has not read is not remembered any more.")]
        self._at = topic.log.last
        if topic.ended is not None:
            self._over = True
            return [*missed, topic.ended]
        fresh, self._fresh = self._fresh, topic.fresh
        if missed or fresh is topic.fresh or topic.fresh is None:
            return missed
        return [topic.fresh]

    def close(self) -> None:
        """The subscriber has gone."""
        if not self._closed:
            self._closed = True
            self._over = True
            self._owner.left(self._topic, self._client)


class Subscribes(Protocol):
    """What follows answers."""

    async def subscribe(
        self, wanted: WantedRead, after: str | None = None, principal: Principal | None = None
    ) -> Subscription:
        """Follows an answer: from now on, or from the version on behind which `after` is. ApiError."""
        ...


class Subscriptions:
    """All of a worker. *Maintains*: `_topics` are those that have not ended, by what they follow."""

    def __init__(self, reads: Reads, engine: EngineClient, settings: SubscriptionSettings) -> None:
        self.closing = False
        #: Subscribers that were too slow.
        self.slow = 0
        self._reads = reads
        self._settings = settings
        self._held = TopicMemory()
        self._following = TopicUpdates(reads, engine, settings.up_to_date_s, self._grown, self._ended)
        self._topics: dict[TopicKey, Topic] = {}
        self._starting: dict[TopicKey, asyncio.Task[Topic]] = {}
        #: How many, by client.
        self._subscribers: Counter[str | None] = Counter()

    async def subscribe(
        self, wanted: WantedRead, after: str | None = None, principal: Principal | None = None
    ) -> Subscription:
        """Follows an answer: from now on, or from the version on behind which `after` is. ApiError: as of reads,
        ``must_refetch``, ``too_large``, ``rate_limited``."""
        resume = None if after is None else read_token(after)
        if self.closing:
            raise ApiError("engine_unavailable", "This server is stopping.", "Connect again.")
        # Those that wait count, too.
        client = None if principal is None else principal.name
        self._comes(client)
        try:
            topic = await self._topic(wanted)
        except BaseException:
            self._goes(client)
            raise
        topic.subscribers += 1
        topic.lingers(None)
        try:
            return Subscription(self, topic, topic.log.last, await self._first(topic, resume), client)
        except BaseException:
            self.left(topic, client)
            raise

    def _comes(self, client: str | None) -> None:
        """A subscriber more. ApiError: there may be no more, or no more of a client that has a name."""
        if self._subscribers.total() >= self._settings.subscribers:
            raise ApiError("rate_limited", "This worker has reached its maximum of subscriptions.", "Try again later.")
        if client is not None and self._subscribers[client] >= self._settings.client_subscribers:
            raise ApiError(
                "rate_limited",
                "This client has reached its maximum of subscriptions at this worker.",
                "Try again later.",
            )
        self._subscribers[client] += 1

    def _goes(self, client: str | None) -> None:
        self._subscribers[client] -= 1
        if not self._subscribers[client]:
            del self._subscribers[client]

    async def _first(self, topic: Topic, resume: Resume | None) -> Sequence[Entry]:
        """The entries with which a subscriber begins. ApiError ``must_refetch``."""
        if resume is None:
            return [topic.snapshot()]
        if not names(resume, topic.epoch):
            raise _must_refetch("It is of another continuity: the change stream was started anew since.")
        if resume.position > topic.log.until:
            await self._reads.wait_for(resume.position, None)
            self._following.read_now(topic)
        if topic.ended is not None:
            raise _must_refetch("It has ended in this moment.")
        at = topic.log.find(resume.position)
        missed = None if at is None else topic.log.behind(at)
        if at is None or missed is None:
            raise _must_refetch("What has changed since then is not known here.")
        return missed or [topic.up_to_date()]

    async def _topic(self, wanted: WantedRead) -> Topic:
        """The topic of an answer, as new as the leaf store: nobody is told what is older than what could be read."""
        key = key_of(wanted)
        while True:
            if (topic := self._topics.get(key)) is not None:
                self._following.read_now(topic)
                if topic.ended is None:
                    return topic
            starting = self._starting.get(key)
            if starting is None:
                starting = self._starting[key] = asyncio.ensure_future(self._start(wanted))
                starting.add_done_callback(_retrieved)
                starting.add_done_callback(lambda _: self._starting.pop(key, None))
            await asyncio.shield(starting)

    async def _start(self, wanted: WantedRead) -> Topic:
        topic = Topic(wanted, self._settings, self._held)
        try:
            if any(key_bytes(part) > _MAX_KEY_BYTES for part in topic.keys):
                raise ApiError("too_large", "The parameters are too large for a subscription.", "Read it instead.")
            self._make_room()
            await self._following.start(topic)
        except BaseException:
            topic.gone()
            raise
        self._topics[topic.key] = topic
        # Those who have waited for it are about to come.
        self._linger(topic, _START_S)
        return topic

    def _make_room(self) -> None:
        """Topics that linger go for a new one, and what is remembered of the others."""
        while (self._is_full() or self._are_too_many()) and self._forget_lingering():
            pass
        if self._is_full():
            for topic in self._topics.values():
                topic.shorten()
        if self._is_full() or self._are_too_many():
            raise ApiError(
                "rate_limited", "This worker has reached its maximum of subscribed answers.", "Try again later."
            )

    def _grown(self, topic: Topic) -> bool:
        """A topic has something new. Whether there is room for it."""
        while self._is_full() and self._forget_lingering():
            pass
        if self._is_full():
            topic.shorten()
        return not self._is_full()

    def _is_full(self) -> bool:
        return self._held.bytes > self._settings.memory

    def _are_too_many(self) -> bool:
        """With those that start."""
        return len(self._topics) + len(self._starting) > self._settings.topics or self._held.keys > self._settings.keys

    def _forget_lingering(self) -> bool:
        """Forgets a topic that nobody follows, if there is one."""
        topic = next((topic for topic in self._topics.values() if not topic.subscribers), None)
        if topic is not None:
            self._forget(topic)
        return topic is not None

    def left(self, topic: Topic, client: str | None) -> None:
        """A subscriber less."""
        self._goes(client)
        topic.subscribers -= 1
        if topic.subscribers == 0:
            self._linger(topic)

    def _linger(self, topic: Topic, at_least_s: float = 0.0) -> None:
        """Nobody follows a topic; who comes back soon finds it as it was."""
        linger_s = max(self._settings.linger_s, at_least_s)
        topic.lingers(asyncio.get_running_loop().call_later(linger_s, self._forget, topic))

    def _forget(self, topic: Topic) -> None:
        self._following.drop(topic)
        self._ended(topic)

    def _ended(self, topic: Topic) -> None:
        topic.lingers(None)
        topic.gone()
        if self._topics.get(topic.key) is topic:
            del self._topics[topic.key]

    def counters(self) -> dict[str, int]:
        """How much there is, and what was told."""
        return {
            "topics": len(self._topics),
            "subscribers": self._subscribers.total(),
            "changes": self._following.changes,
            "must_refetches": self._following.ended + self.slow,
            "bytes": self._held.bytes,
        }

    async def close(self) -> None:
        """Ends all streams: what is told already is not taken back, and nothing follows."""
        self.closing = True
        for topic in list(self._topics.values()):
            topic.lingers(None)
            topic.tell()
        await self._following.close()


def _must_refetch(reason: str) -> ApiError:
    return ApiError("must_refetch", f"This subscription cannot be resumed. {reason}", "Subscribe without 'after'.")


def _retrieved(task: "asyncio.Task[Topic]") -> None:
    """Its failure is known, whether anybody still waits for it or not."""
    if not task.cancelled():
        task.exception()
