"""Which topics the workers follow, and which of them a commit has touched.

A topic is a worker's number for some keys of a view. The engine only tells that something of it was touched; the worker
reads it and finds out what has changed.

*Invariants*: every commit whose effects touch a key of a topic tells its worker; the engine has a `Pin` for each key of
each topic. Another engine has none: its worker is told that all were touched, finds another epoch and pins anew.

Not here: frames (`service.protocol.wire`), what a worker makes of it (`service.subscriptions`).
"""

from collections.abc import Callable, Iterable, Sequence

from dataflow.engine.effects import LeafChange, LeafEffect, LeafEvict, LeafExtend, LeafFill
from dataflow.engine.events import Pin, Unpin
from dataflow.types import Key, Position, ViewId
from service.engine.loop.dispatcher import Dispatcher
from service.engine.upstream.problems import no_stream
from service.engine.views.registry import ViewRegistry
from service.ground.errors import ApiError
from service.leaf_store.writer import LeafWriter

#: Told the numbers of topics that were touched, and up to which position that is known of all of them.
Tell = Callable[[set[int], Position], None]
_Follower = tuple["TopicsOfConnection", int]


class Subscribed:
    """All workers' topics. *Maintains*: `_followers` has them by each of their keys."""

    def __init__(self, dispatcher: Dispatcher, leaf: LeafWriter, registry: ViewRegistry) -> None:
        self._dispatcher = dispatcher
        self._leaf = leaf
        self._registry = registry
        self._followers: dict[ViewId, dict[Key, set[_Follower]]] = {}
        self._workers: set[TopicsOfConnection] = set()
        dispatcher.on_commit(self._committed)
        dispatcher.on_start(self._restarted)

    def worker(self, tell: Tell) -> "TopicsOfConnection":
        """The topics of a connection, none yet."""
        topics = TopicsOfConnection(self, tell)
        self._workers.add(topics)
        return topics

    @property
    def topics(self) -> int:
        """How many there are, of all workers."""
        return sum(len(worker.topics) for worker in self._workers)

    def follow(self, follower: _Follower, epoch: str, view: ViewId, keys: Sequence[Key]) -> None:
        """Pins keys. ApiError ``upstream_unavailable``, ``must_refetch``, ``view_not_found``."""
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
        """The opposite."""
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
        """A connection has ended."""
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
    """The keys among those that are followed whose rows, or whether there are any, an effect changes."""
    match effect:
        case LeafChange():
            return effect.changes.keys() & followed.keys()
        case LeafFill() | LeafExtend():
            return (effect.key,) if effect.key in followed else ()
        case LeafEvict() if effect.key:
            return (effect.key,) if effect.key in followed else ()
        case _:
            # Of the view as a whole.
            return followed


class TopicsOfConnection:
    """The topics of one connection."""

    def __init__(self, subscribed: Subscribed, tell: Tell) -> None:
        self._subscribed = subscribed
        self.tell = tell
        self.topics: dict[int, tuple[ViewId, Sequence[Key]]] = {}

    def pin(self, topic: int, epoch: str, view: ViewId, keys: Sequence[Key]) -> None:
        """Follow a topic; nothing happens if it is followed. ApiError."""
        if topic not in self.topics:
            self._subscribed.follow((self, topic), epoch, view, keys)
            self.topics[topic] = (view, keys)

    def unpin(self, topic: int) -> None:
        """Not any more."""
        followed = self.topics.pop(topic, None)
        if followed is not None:
            self._subscribed.unfollow((self, topic), *followed)

    def close(self) -> None:
        """The worker has gone."""
        for topic in list(self.topics):
            self.unpin(topic)
        self._subscribed.forget(self)
