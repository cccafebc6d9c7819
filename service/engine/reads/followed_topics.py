"""Topics followed by the workers, and notifications of the commits that touch them.

A topic is a worker's number for some keys of a view. The engine only notifies that one of them was touched; the worker
reads the keys to find the changes.

*Invariants*: every commit whose effects touch a key of a topic notifies its worker; the engine has a `Pin` for each key
of each topic. A new engine has no pins: workers are notified that all topics were touched, see a new epoch and pin
again.

Not here: frames (`service.protocol.engine_requests`), subscriptions (`service.worker.subscriptions`).
"""

from collections.abc import Iterable, Sequence

from dataflow.engine.effects import LeafChange, LeafEffect, LeafEvict, LeafExtend, LeafFill
from dataflow.engine.events import Pin, Unpin
from dataflow.types import Key, Position, ViewId
from service.engine.loop.dispatcher import Dispatcher
from service.engine.upstream.problems import no_stream
from service.engine.views.registry import ViewRegistry
from service.ground.errors import ApiError
from service.leaf_store.writer import LeafWriter
from service.protocol.engine_requests import Tell

_Follower = tuple["TopicsOfConnection", int]


class TopicPins:
    """Topics of all workers. *Maintains*: `_followers` has the topics of each key."""

    def __init__(self, dispatcher: Dispatcher, leaf: LeafWriter, registry: ViewRegistry) -> None:
        self._dispatcher = dispatcher
        self._leaf = leaf
        self._registry = registry
        self._followers: dict[ViewId, dict[Key, set[_Follower]]] = {}
        self._workers: set[TopicsOfConnection] = set()
        dispatcher.on_commit(self._committed)
        dispatcher.on_start(self._restarted)

    def worker(self, tell: Tell) -> "TopicsOfConnection":
        """Returns a connection's topics, initially empty."""
        topics = TopicsOfConnection(self, tell)
        self._workers.add(topics)
        return topics

    @property
    def topics(self) -> int:
        """Number of topics of all workers."""
        return sum(len(worker.topics) for worker in self._workers)

    def follow(self, follower: _Follower, epoch: str, view: ViewId, keys: Sequence[Key]) -> None:
        """Pins keys. Raises ApiError(upstream_unavailable), ApiError(must_refetch) or ApiError(view_not_found)."""
        if not self._dispatcher.running:
            raise no_stream()
        if epoch != self._leaf.epoch:
            # Another engine may have given the view's number to another one.
            raise ApiError("must_refetch", "The change stream was restarted.")
        if view not in self._registry.installations:
            raise ApiError("view_not_found", "The view was just replaced or dropped.")
        followers = self._followers.setdefault(view, {})
        for key in keys:
            followers.setdefault(key, set()).add(follower)
            self._dispatcher.step(Pin(view, key))

    def unfollow(self, follower: _Follower, view: ViewId, keys: Sequence[Key]) -> None:
        """Removes the pins of keys."""
        followers = self._followers.get(view, {})
        for key in keys:
            if follower in (of_key := followers.get(key, set())):
                of_key.discard(follower)
                if not of_key:
                    del followers[key]
                self._dispatcher.step(Unpin(view, key))
        if not followers:
            self._followers.pop(view, None)

    def forget(self, worker: "TopicsOfConnection") -> None:
        """Removes all topics of a closed connection."""
        self._workers.discard(worker)

    def _restarted(self) -> None:
        self._followers.clear()
        for worker in self._workers:
            numbers = set(worker.topics)
            worker.topics.clear()
            worker.tell(numbers, 0)

    def _committed(self, effects: Iterable[LeafEffect], position: Position) -> None:
        if not self._followers:
            return
        touched: dict[TopicsOfConnection, set[int]] = {}
        for effect in effects:
            followers = self._followers.get(effect.view)
            if followers:
                for key in _keys(effect, followers):
                    for worker, number in followers[key]:
                        touched.setdefault(worker, set()).add(number)
        for worker, numbers in touched.items():
            worker.tell(numbers, position)


def _keys(effect: LeafEffect, followed: dict[Key, set[_Follower]]) -> Iterable[Key]:
    """Returns the followed keys whose rows or coverage an effect changes."""
    match effect:
        case LeafChange():
            return effect.changes.keys() & followed.keys()
        case LeafFill() | LeafExtend():
            return (effect.key,) if effect.key in followed else ()
        case LeafEvict() if effect.key:
            return (effect.key,) if effect.key in followed else ()
        case _:
            # The effect concerns the whole view.
            return followed


class TopicsOfConnection:
    def __init__(self, subscribed: TopicPins, tell: Tell) -> None:
        self._subscribed = subscribed
        self.tell = tell
        self.topics: dict[int, tuple[ViewId, Sequence[Key]]] = {}

    def pin(self, topic: int, epoch: str, view: ViewId, keys: Sequence[Key]) -> None:
        """Follows a topic; a topic that is already followed stays unchanged. Raises like `follow`."""
        if topic not in self.topics:
            self._subscribed.follow((self, topic), epoch, view, keys)
            self.topics[topic] = (view, keys)

    def unpin(self, topic: int) -> None:
        followed = self.topics.pop(topic, None)
        if followed is not None:
            self._subscribed.unfollow((self, topic), *followed)

    def close(self) -> None:
        """Unfollows everything: the connection has ended."""
        for topic in list(self.topics):
            self.unpin(topic)
        self._subscribed.forget(self)
