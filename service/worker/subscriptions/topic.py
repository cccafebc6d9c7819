"""One answer that is followed: its rows as subscribers have them, and the log of how they came to be so.

*Invariants*: what `log` has of a change leads from one state to the next; versions never go back.

Not here: when and how it is read (`updates`), who follows it (`topics`).
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

#: What makes two subscriptions follow the same.
TopicKey = tuple[ViewId, Values, PageWindow | None]

#: About what a topic takes besides its rows and its log.
_TOPIC_BYTES = 4000
_numbers = count(1)


class TopicMemory:
    """What all topics of a worker take."""

    def __init__(self) -> None:
        self.bytes = 0
        #: Those that are pinned at the engine.
        self.keys = 0


def key_of(wanted: WantedRead) -> TopicKey:
    """Which topic an answer is."""
    return wanted.view.info.id, wanted.values, wanted.window


class Topic:
    """*State*: `started` once there are rows; `ended` is the last event that subscribers get; `asking` runs while the
    leaf store does not have the answer."""

    def __init__(self, wanted: WantedRead, settings: SubscriptionSettings, held: TopicMemory) -> None:
        self.wanted = wanted
        self.settings = settings
        self.number = next(_numbers)
        self.key = key_of(wanted)
        #: The keys whose changes may change it; without one it does not depend on data.
        self.keys: tuple[Key, ...] = request_of(wanted.view.info, wanted.values, wanted.window).keys
        self.epoch = ""
        self.ended: Entry | None = None
        self.asking: asyncio.Task[None] | None = None
        self.subscribers = 0
        #: Set, and replaced by another one, when there is something to be told.
        self.news = asyncio.Event()
        #: Said to those who have everything, now and then.
        self.fresh: Entry | None = None
        self._is_gone = False
        self._lingering: asyncio.TimerHandle | None = None
        self._held = held
        self._held_bytes = 0
        held.keys += len(self.keys)
        self._rows: bytes = b""
        self._log: TopicLog | None = None
        #: Whether others can know the newest version: it is one of the leaf store's commits.
        self._listed = True
        self._snapshot: Entry | None = None

    @property
    def started(self) -> bool:
        """Whether there are rows."""
        return self._log is not None

    @property
    def log(self) -> TopicLog:
        """Its states; only once it has started."""
        assert self._log is not None
        return self._log

    def begin(self, rows: bytes, position: Position, since: Position, *, listed: bool) -> None:
        """The first rows. ApiError ``too_large``."""
        self._refuse_large(rows)
        self._rows, self._listed = rows, listed
        self._log = TopicLog(since, position, self.settings.log_entries, int(self.settings.log_bytes))
        self._hold()

    def apply(self, rows: bytes, position: Position, since: Position, *, listed: bool) -> bool:
        """The answer is `rows` at `position`, and has not been another one from `since` on. Whether that is news.

        ApiError ``too_large``.
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
        """All rows as they are now."""
        if self._snapshot is None:
            self._snapshot = snapshot(self._rows, self.log.until, self._token(self.log.until))
            self._hold()
        return self._snapshot

    def up_to_date(self) -> Entry:
        """That the newest version is this one."""
        return up_to_date(self.log.until, self._token(self.log.until))

    def refresh(self) -> None:
        """Tells everybody the newest version."""
        self.fresh = self.up_to_date()
        self.tell()

    def end(self, entry: Entry) -> None:
        """Nothing follows any more but this."""
        self.ended = entry
        if self.asking is not None:
            self.asking.cancel()
        self.tell()

    def lingers(self, until: asyncio.TimerHandle | None) -> None:
        """Nobody follows it, and `until` ends it; None: somebody does, or it has ended."""
        if self._lingering is not None:
            self._lingering.cancel()
        self._lingering = until

    def tell(self) -> None:
        """Wakes all who wait."""
        self.news.set()
        self.news = asyncio.Event()

    def shorten(self) -> None:
        """Forgets what is not needed for those who are up to date."""
        self.log.shorten()
        self._snapshot = None
        self._hold()

    def _hold(self) -> None:
        """Counts what it takes now."""
        if self._is_gone:
            return
        snapshot_bytes = 0 if self._snapshot is None else len(self._snapshot.json) + len(self._snapshot.sse)
        log_bytes = 0 if self._log is None else self._log.size_bytes
        self._count(_TOPIC_BYTES + len(self._rows) + snapshot_bytes + log_bytes)

    def _count(self, held_bytes: int) -> None:
        self._held.bytes += held_bytes - self._held_bytes
        self._held_bytes = held_bytes

    def gone(self) -> None:
        """Nobody will subscribe to it any more: only what those have not read who are nearly up to date is kept."""
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
        return write_token(position, self.epoch if self._listed else UNLISTED)

    def _refuse_large(self, rows: bytes) -> None:
        if len(rows) > self.settings.topic_bytes:
            raise ApiError(
                "too_large",
                f"The answer is larger than the {self.settings.topic_bytes} bytes of the maximum for subscriptions.",
                "Subscribe to fewer rows: with more parameters, or a LIMIT.",
            )
