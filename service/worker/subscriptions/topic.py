"""One followed answer: its current rows, and the log of its states.

*Invariants*: each change in `log` leads from one state to the next; versions never decrease.

Not here: reading (`updates`), subscribers (`topics`).
"""

import asyncio
from itertools import count

from dataflow.types import Key, Position, ViewId
from service.ground.errors import ApiError
from service.leaf_store.answer import PageWindow
from service.leaf_store.request import Values, request_of
from service.settings.sections import SubscriptionSettings
from service.worker.reads.reads import WantedRead
from service.worker.subscriptions.diff import diff, split_rows
from service.worker.subscriptions.entries import Entry, change, snapshot, up_to_date
from service.worker.subscriptions.log import TopicLog
from service.worker.subscriptions.tokens import UNLISTED, write_token

#: Identity of a followed answer.
TopicKey = tuple[ViewId, Values, PageWindow | None]

#: Approximate bytes of a topic besides its rows and its log.
_TOPIC_BYTES = 4000
_numbers = count(1)


class TopicMemory:
    """Memory of all topics of a worker."""

    def __init__(self) -> None:
        self.bytes = 0
        #: Number of keys pinned at the engine.
        self.keys = 0


def key_of(wanted: WantedRead) -> TopicKey:
    """Return the topic's key of an answer."""
    return wanted.view.info.id, wanted.values, wanted.window


class Topic:
    """A topic. *State*: `started` once it has rows; `ended` is the last event for its subscribers; `asking` runs
    while the leaf store does not have the answer."""

    def __init__(self, wanted: WantedRead, settings: SubscriptionSettings, held: TopicMemory) -> None:
        self.wanted = wanted
        self.settings = settings
        self.number = next(_numbers)
        self.key = key_of(wanted)
        #: The keys on whose changes the answer depends; without any, it does not depend on data.
        self.keys: tuple[Key, ...] = request_of(wanted.view.info, wanted.values, wanted.window).keys
        self.epoch = ""
        self.ended: Entry | None = None
        self.asking: asyncio.Task[None] | None = None
        self.subscribers = 0
        #: Set, and replaced, when there are new entries.
        self.news = asyncio.Event()
        #: Sent periodically to subscribers that have everything.
        self.fresh: Entry | None = None
        self._is_gone = False
        self._lingering: asyncio.TimerHandle | None = None
        self._held = held
        self._held_bytes = 0
        held.keys += len(self.keys)
        self._rows: bytes = b""
        self._log: TopicLog | None = None
        #: Whether other workers can know the newest version: it is a commit of the leaf store.
        self._listed = True
        self._snapshot: Entry | None = None

    @property
    def started(self) -> bool:
        return self._log is not None

    @property
    def log(self) -> TopicLog:
        """Return its states; only once it has started."""
        assert self._log is not None
        return self._log

    def moved_on(self) -> bool:
        """Set the keys of the current time; return whether they are others."""
        if not self.wanted.view.info.clock_keys:
            return False
        keys = request_of(self.wanted.view.info, self.wanted.values, self.wanted.window).keys
        moved = keys != self.keys
        self.keys = keys
        return moved

    def begin(self, rows: bytes, position: Position, since: Position, *, listed: bool) -> None:
        """Set the first rows. Raises ApiError(too_large)."""
        self._refuse_large(rows)
        self._rows, self._listed = rows, listed
        self._log = TopicLog(since, position, self.settings.log_entries, int(self.settings.log_bytes))
        self._hold()

    def apply(self, rows: bytes, position: Position, since: Position, *, listed: bool) -> bool:
        """Set the rows at `position`, unchanged since `since`; return whether they are a change.

        Raises ApiError(too_large).
        """
        log = self.log
        if position < log.until:
            return False
        self._listed = listed
        self._snapshot = None
        if rows == self._rows:
            self._hold()
            log.confirm(since, position)
            return False
        self._refuse_large(rows)
        found = diff(split_rows(self._rows), split_rows(rows))
        self._rows = rows
        log.append(since, position, change(found, position, self._token(position)))
        self._hold()
        self.tell()
        return True

    def snapshot(self) -> Entry:
        """Return the event with the current rows."""
        if self._snapshot is None:
            self._snapshot = snapshot(self._rows, self.log.until, self._token(self.log.until))
            self._hold()
        return self._snapshot

    def up_to_date(self) -> Entry:
        """Return the event with the newest version."""
        return up_to_date(self.log.until, self._token(self.log.until))

    def refresh(self) -> None:
        """Send the newest version to all subscribers."""
        self.fresh = self.up_to_date()
        self.tell()

    def end(self, entry: Entry) -> None:
        """End the topic with this entry."""
        self.ended = entry
        if self.asking is not None:
            self.asking.cancel()
        self.tell()

    def lingers(self, until: asyncio.TimerHandle | None) -> None:
        """Set the timer that ends a topic without subscribers; None: it has subscribers again, or has ended."""
        if self._lingering is not None:
            self._lingering.cancel()
        self._lingering = until

    def tell(self) -> None:
        """Wake all waiting subscribers."""
        self.news.set()
        self.news = asyncio.Event()

    def shorten(self) -> None:
        """Forget all states that current subscribers do not need."""
        self.log.shorten()
        self._snapshot = None
        self._hold()

    def _hold(self) -> None:
        """Update its part of the memory."""
        if self._is_gone:
            return
        snapshot_bytes = 0 if self._snapshot is None else len(self._snapshot.json) + len(self._snapshot.sse)
        log_bytes = 0 if self._log is None else self._log.size_bytes
        self._count(_TOPIC_BYTES + len(self._rows) + snapshot_bytes + log_bytes)

    def _count(self, held_bytes: int) -> None:
        self._held.bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes

    def gone(self) -> None:
        """Reduce its memory to the entries that nearly current subscribers have not read: no one subscribes to it
        any more."""
        if self._is_gone:
            return
        self._held.keys -= len(self.keys)
        self._rows = b""
        self._snapshot = None
        if self._log is not None:
            self._log.shorten()
        self._count(0)
        self._is_gone = True

    def _token(self, position: Position) -> str:
        if self.wanted.view.info.timed:
            # Rows change without a new version, so none identifies them.
            return ""
        return write_token(position, self.epoch if self._listed else UNLISTED)

    def _refuse_large(self, rows: bytes) -> None:
        if len(rows) > self.settings.topic_bytes:
            raise ApiError(
                "too_large",
                f"The answer is larger than the {self.settings.topic_bytes} bytes of the maximum for subscriptions.",
                "Subscribe to fewer rows: with more parameters, or a LIMIT.",
            )
