"""Updates of a worker's topics: they are pinned at the engine and read when it reports a change.

All changed topics are read in one transaction of the leaf store, so several commits may become one change, and a
part of a commit never does. Answers that the leaf store does not have, because they were evicted or an ordered key
ran short, are requested from the engine. Answers that depend on the current time are read every second, too.

*Invariants*: a topic is pinned before its answer is read, so that no later commit is missed; after a lost
connection, all are pinned and read again.
"""

import asyncio
from collections.abc import Callable, Iterator, Sequence

import structlog

from dataflow.types import Position
from service.ground.errors import ApiError
from service.leaf_store.answer import LeafState
from service.protocol.engine_client import EngineClient
from service.worker.reads.followed_leaf import FollowedAnswer, look
from service.worker.reads.reads import Reads
from service.worker.subscriptions.entries import must_refetch
from service.worker.subscriptions.topic import Topic

_log = structlog.get_logger(__name__)

#: Pause before the engine is called again, at first and at most.
_ASK_S, _ASK_MOST_S = 0.05, 5.0
#: Topics that are compared before other tasks have a turn.
_TOPICS_AT_ONCE = 50
#: Pause between attempts to reconnect to the engine.
_CONNECT_S = 0.2
#: Interval in which rows of time windows enter and leave.
_CLOCK_S = 1.0
_CONTINUITY = "The change stream was restarted."


class TopicUpdates:
    """Updates topics. *State*: `topics` by number, starting ones included; `_changed`, topics to be read."""

    def __init__(
        self,
        reads: Reads,
        engine: EngineClient,
        up_to_date_s: float,
        on_growth: Callable[[Topic], bool],
        on_end: Callable[[Topic], None],
    ) -> None:
        self.topics: dict[int, Topic] = {}
        #: Changes sent, and topics that ended before their subscribers.
        self.changes = 0
        self.ended = 0
        self._reads = reads
        self._engine = engine
        self._up_to_date_s = up_to_date_s
        #: Returns whether there is room for a topic that has grown.
        self._on_growth = on_growth
        self._on_end = on_end
        self._changed: dict[int, Topic] = {}
        self._lost = False
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        engine.listen(self)

    # Reports of the engine

    def changed(self, topics: Sequence[int], position: Position) -> None:  # noqa: ARG002
        """Note that commits have touched these topics."""
        for number in topics:
            if (topic := self.topics.get(number)) is not None:
                self._changed[number] = topic
        self._wake.set()

    def disconnected(self) -> None:
        """Note that the engine process or the connection is lost, and with it all pins."""
        self._lost = True
        self._wake.set()

    # Topics

    async def start(self, topic: Topic) -> None:
        """Pin a topic and read its first rows. Raises ApiError."""
        if not self._tasks:
            self._tasks = [asyncio.ensure_future(part) for part in (self._follow(), self._refresh(), self._tick())]
        self.topics[topic.number] = topic
        try:
            # Fills all keys at once; a pin alone would fill them one by one.
            await self._reads.read([topic.wanted])
            while not await self._begin(topic):
                await asyncio.sleep(_ASK_S)
        except BaseException:
            self.drop(topic)
            raise

    async def _begin(self, topic: Topic) -> bool:
        """Begin a topic from the leaf store; return whether it was possible."""
        state, _ = look(self._reads, [])
        if state is None:
            return False
        topic.epoch = state.epoch
        await self._pin(topic)
        state, found = look(self._reads, [topic.wanted])
        if state is None or state.epoch != topic.epoch:
            return False
        if found[0].gone is not None:
            raise ApiError("view_building", found[0].gone, "Try again in a moment.", retryable=True)
        if found[0].answer is not None:
            topic.begin(found[0].answer.rows, state.position, found[0].since, listed=True)
            return True
        answers = await self._reads.read([topic.wanted])
        state, found = look(self._reads, [topic.wanted])
        if state is None or state.epoch != topic.epoch or found[0].gone is not None or found[0].answer is not None:
            return False
        if not answers.source.has_version:
            return False
        topic.begin(answers.answers[0].rows, answers.position, answers.position, listed=False)
        self._ask(topic)
        return True

    def drop(self, topic: Topic) -> None:
        if self.topics.pop(topic.number, None) is not None:
            self._engine.unpin(topic.number)
        self._changed.pop(topic.number, None)
        if topic.asking is not None:
            topic.asking.cancel()

    async def close(self) -> None:
        for topic in list(self.topics.values()):
            self.drop(topic)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def read_now(self, topic: Topic) -> None:
        """Read a topic now, without a report of the engine."""
        self._read([topic])

    async def _pin(self, topic: Topic) -> None:
        if topic.keys:
            view = topic.wanted.view.info.id
            await self._engine.pin(topic.number, topic.epoch, view, topic.keys, self._reads.limits.read_timeout_s)

    # Changes

    async def _follow(self) -> None:
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                if self._lost:
                    await self._connect_again()
                changed, self._changed = self._changed, {}
                for _ in self._reading(list(changed.values())):
                    await asyncio.sleep(0)
            except Exception:
                _log.exception("following_failed")
                self._end_all("The worker failed to update the subscription; the log has the reason.")

    def _read(self, topics: Sequence[Topic]) -> None:
        """Read topics at one version and send their changes."""
        for _ in self._reading(topics):
            pass

    def _reading(self, topics: Sequence[Topic]) -> Iterator[None]:
        """Do as `_read`, with pauses in which newer answers may be taken; older ones are then skipped."""
        topics = [topic for topic in topics if topic.started and topic.ended is None]
        if not topics:
            return
        state, found = look(self._reads, [topic.wanted for topic in topics])
        if state is None:
            # A stream is just beginning.
            self._changed.update({topic.number: topic for topic in topics})
            asyncio.get_running_loop().call_later(_ASK_S, self._wake.set)
            return
        for number, (topic, now) in enumerate(zip(topics, found, strict=True)):
            if number % _TOPICS_AT_ONCE == _TOPICS_AT_ONCE - 1:
                yield
            self._take(topic, now, state)

    def _take(self, topic: Topic, now: FollowedAnswer, state: LeafState) -> None:
        """Take the leaf store's answer of a topic."""
        if self.topics.get(topic.number) is not topic:
            return
        if topic.epoch != state.epoch:
            self._end(topic, _CONTINUITY)
        elif now.gone is not None:
            self._end(topic, now.gone)
        elif now.answer is None:
            self._ask(topic)
        else:
            if topic.asking is not None:
                topic.asking.cancel()
                topic.asking = None
            self._apply(topic, now.answer.rows, state.position, now.since, listed=True)

    def _apply(self, topic: Topic, rows: bytes, position: Position, since: Position, *, listed: bool) -> None:
        try:
            is_news = topic.apply(rows, position, since, listed=listed)
        except ApiError as error:
            self._end(topic, error.detail)
            return
        self.changes += is_news
        if is_news and not self._on_growth(topic):
            self._end(topic, "This worker has no room for more subscriptions.")

    # Answers that the leaf store does not have

    def _ask(self, topic: Topic) -> None:
        if topic.asking is None:
            topic.asking = asyncio.ensure_future(self._ask_until_there(topic))

    async def _ask_until_there(self, topic: Topic) -> None:
        """Request the answer until the leaf store has it: `_take` then cancels this task."""
        delay_s = _ASK_S
        while True:
            try:
                answers = await self._reads.read([topic.wanted])
            except ApiError as error:
                if not error.retryable:
                    self._end(topic, error.detail)
                    return
                if error.code == "read_timeout":
                    # The engine continues only while the answer is requested.
                    delay_s = _ASK_S
            except Exception:
                _log.exception("asking_failed")
            else:
                changes = self.changes
                if answers.source.has_version:
                    self._take_asked(topic, answers.answers[0].rows, answers.position)
                if self.changes > changes:
                    # The answer is never stored because it changes all the time; its subscribers still need it.
                    delay_s = _ASK_S
            delay_s = min(2 * delay_s, _ASK_MOST_S)
            await asyncio.sleep(delay_s)

    def _take_asked(self, topic: Topic, rows: bytes, position: Position) -> None:
        """Take the engine's answer, unless the leaf store has a newer one."""
        state, found = look(self._reads, [topic.wanted])
        if state is None:
            return
        if topic.epoch != state.epoch or found[0].gone is not None or found[0].answer is not None:
            self._read([topic])
        else:
            self._apply(topic, rows, position, position, listed=False)

    # Endings

    def _end(self, topic: Topic, reason: str) -> None:
        self.ended += 1
        topic.end(must_refetch(reason))
        self.drop(topic)
        self._on_end(topic)

    def _end_all(self, reason: str) -> None:
        for topic in list(self.topics.values()):
            if topic.started:
                self._end(topic, reason)

    async def _connect_again(self) -> None:
        """Pin all topics again once the engine runs; changes in between are found by reading all."""
        while self._lost and self.topics:
            self._lost = False
            for topic in list(self.topics.values()):
                try:
                    await self._pin(topic)
                except ApiError as error:
                    # Other errors concern the view, and are found when it is read.
                    if error.retryable:
                        self._lost = True
                        await asyncio.sleep(_CONNECT_S)
                        break
        self._lost = False
        self._changed.update(self.topics)

    async def _tick(self) -> None:
        """Read the topics that depend on the current time, periodically."""
        while True:
            await asyncio.sleep(_CLOCK_S)
            timed = {number: topic for number, topic in self.topics.items() if topic.wanted.view.info.timed}
            for topic in list(timed.values()):
                if topic.moved_on():
                    await self._pin_again(topic)
            if timed:
                self._changed.update(timed)
                self._wake.set()

    async def _pin_again(self, topic: Topic) -> None:
        """Pin a topic's other keys instead of those before."""
        self._engine.unpin(topic.number)
        try:
            await self._pin(topic)
        except ApiError:
            # The view or the connection is gone, which the next look at it, or connecting again, finds.
            self._lost = True

    async def _refresh(self) -> None:
        """Send the newest version to subscribers without changes, periodically."""
        while True:
            await asyncio.sleep(self._up_to_date_s)
            topics = list(self.topics.values())
            for at in range(0, len(topics), _TOPICS_AT_ONCE):
                try:
                    self._tell_version(topics[at : at + _TOPICS_AT_ONCE])
                except Exception:
                    _log.exception("refreshing_failed")
                await asyncio.sleep(0)

    def _tell_version(self, topics: Sequence[Topic]) -> None:
        self._read(topics)
        for topic in topics:
            if topic.started and topic.ended is None and topic.asking is None:
                topic.refresh()
