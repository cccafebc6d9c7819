"""Subscriptions of one worker: subscribers, their topics and their places.

*Invariants*: each answer has one topic for all its subscribers; a subscriber holds only a place in the topic's log,
so one that does not read costs nothing, and must refetch when the log has forgotten its place.

Not here: HTTP (`sse`, `long_poll`, `websocket`), reading of topics (`updates`).
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Protocol

from dataflow.engine.limits import Limits, key_bytes
from service.ground.errors import ApiError
from service.protocol.counters import SubscriptionCounts
from service.protocol.engine_client import EngineClient
from service.settings.sections import SubscriptionSettings
from service.web.principal import Principal
from service.worker.reads.reads import Reads, WantedRead
from service.worker.subscriptions.entries import Entry, EventKind, must_refetch
from service.worker.subscriptions.tokens import Resume, names, read_token
from service.worker.subscriptions.topic import Topic, TopicKey, TopicMemory, key_of
from service.worker.subscriptions.updates import TopicUpdates

__all__ = ["Entry", "EventKind", "Subscribes", "Subscription", "Subscriptions"]

#: Time for which a started topic waits for the requests that started it.
_START_S = 1.0
#: The engine does not store larger keys.
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
        """Wait for new entries and return them; none when the stream has ended."""
        while True:
            # Taken before the log is read: later entries set this event.
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
            return [must_refetch("The subscriber is too slow: its next change is no longer in the log.")]
        self._at = topic.log.last
        if topic.ended is not None:
            self._over = True
            return [*missed, topic.ended]
        fresh, self._fresh = self._fresh, topic.fresh
        if missed or fresh is topic.fresh or topic.fresh is None:
            return missed
        return [topic.fresh]

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._over = True
            self._owner.left(self._topic, self._client)


class Subscribes(Protocol):
    """Interface of subscriptions."""

    async def subscribe(
        self, wanted: WantedRead, after: str | None = None, principal: Principal | None = None
    ) -> Subscription:
        """Follow an answer from now on, or from the version of `after`. Raises ApiError."""
        ...


class Subscriptions:
    """All subscriptions of a worker. *Maintains*: `_topics` has the topics that have not ended, by key."""

    def __init__(self, reads: Reads, engine: EngineClient, settings: SubscriptionSettings) -> None:
        self.closing = False
        #: Number of subscribers that were too slow.
        self.slow = 0
        self._reads = reads
        self._settings = settings
        self._held = TopicMemory()
        self._following = TopicUpdates(reads, engine, settings.up_to_date_s, self._grown, self._ended)
        self._topics: dict[TopicKey, Topic] = {}
        self._starting: dict[TopicKey, asyncio.Task[Topic]] = {}
        #: Number of subscribers by client.
        self._subscribers: Counter[str | None] = Counter()

    async def subscribe(
        self, wanted: WantedRead, after: str | None = None, principal: Principal | None = None
    ) -> Subscription:
        """Follow an answer from now on, or from the version of `after`.

        Raises ApiError: as reads, and must_refetch, too_large, rate_limited.
        """
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
        """Count a new subscriber. Raises ApiError at the limit of all, or of a named client."""
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
        """Return a subscriber's first entries. Raises ApiError(must_refetch)."""
        if resume is None:
            return [topic.snapshot()]
        if topic.wanted.view.info.timed:
            raise _must_refetch("Its rows depend on the current time, so that no version identifies them.")
        if not names(resume, topic.epoch):
            raise _must_refetch("Its epoch has ended: the change stream has restarted since.")
        if resume.position > topic.log.until:
            await self._reads.wait_for(resume.position, None)
            self._following.read_now(topic)
        if topic.ended is not None:
            raise _must_refetch("It has just ended.")
        at = topic.log.find(resume.position)
        missed = None if at is None else topic.log.behind(at)
        if at is None or missed is None:
            raise _must_refetch("The changes since then are unknown.")
        return missed or [topic.up_to_date()]

    async def _topic(self, wanted: WantedRead) -> Topic:
        """Return the topic of an answer, as new as the leaf store: subscribers get nothing older than a read would."""
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
        # The requests that waited for it are about to subscribe.
        self._linger(topic, _START_S)
        return topic

    def _make_room(self) -> None:
        """Drop topics without subscribers, then old states of the others."""
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
        """Make room for a topic's new state; return whether there is enough."""
        while self._is_full() and self._forget_lingering():
            pass
        if self._is_full():
            topic.shorten()
        return not self._is_full()

    def _is_full(self) -> bool:
        return self._held.bytes > self._settings.memory

    def _are_too_many(self) -> bool:
        """Return whether there are too many topics, including starting ones."""
        return len(self._topics) + len(self._starting) > self._settings.topics or self._held.keys > self._settings.keys

    def _forget_lingering(self) -> bool:
        """Drop a topic without subscribers, if there is one."""
        topic = next((topic for topic in self._topics.values() if not topic.subscribers), None)
        if topic is not None:
            self._forget(topic)
        return topic is not None

    def left(self, topic: Topic, client: str | None) -> None:
        self._goes(client)
        topic.subscribers -= 1
        if topic.subscribers == 0:
            self._linger(topic)

    def _linger(self, topic: Topic, at_least_s: float = 0.0) -> None:
        """Keep a topic without subscribers for a while: a client that returns soon can resume."""
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

    def counters(self) -> SubscriptionCounts:
        """Return the numbers of topics and subscribers, and of sent entries."""
        return SubscriptionCounts(
            topics=len(self._topics),
            subscribers=self._subscribers.total(),
            changes=self._following.changes,
            must_refetches=self._following.ended + self.slow,
            bytes=self._held.bytes,
        )

    async def close(self) -> None:
        """End all streams after the entries that were already sent."""
        self.closing = True
        for topic in list(self._topics.values()):
            topic.lingers(None)
            topic.tell()
        await self._following.close()


def _must_refetch(reason: str) -> ApiError:
    return ApiError("must_refetch", f"This subscription cannot be resumed. {reason}", "Subscribe without 'after'.")


def _retrieved(task: "asyncio.Task[Topic]") -> None:
    """Retrieve the error, which a waiting subscriber may or may not have seen."""
    if not task.cancelled():
        task.exception()
