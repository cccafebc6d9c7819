"""The states of one topic that are remembered, each with the event that led to it, so that who has one can go on.

*Invariants*: the last state is there always, and the one before it as long as somebody may just be behind it: a change
reaches whoever is up to date however large it is. Beyond that, at most so many events and bytes.

*Theory*: a state is known to be exact from `since` to `until` and at no other version, so only a version within that
interval resumes behind it. Between two states there may have been others, which another worker has told.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.types import Position
from service.worker.subscriptions.entries import Entry


@dataclass(slots=True)
class _State:
    """`entry`: what led to it, None if nothing changed, or only what is not remembered."""

    since: Position
    until: Position
    entry: Entry | None


class TopicLog:
    """States are numbered; `last` is the newest one's number."""

    def __init__(self, since: Position, until: Position, most_entries: int, most_bytes: int) -> None:
        self._states = deque([_State(since, until, None)])
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self.last = 0
        #: What its events take.
        self.size_bytes = 0

    @property
    def until(self) -> Position:
        """The newest version at which the last state was seen."""
        return self._states[-1].until

    def confirm(self, since: Position, position: Position) -> None:
        """The answer at `position` is that of the last state, and has not been another one from `since` on."""
        state = self._states[-1]
        if since <= state.until + 1:
            state.until = max(state.until, position)
        else:
            # In between there may have been others.
            self._append(_State(since, position, None))

    def append(self, since: Position, position: Position, entry: Entry) -> None:
        """The answer has changed, and is exact from `since` to `position`."""
        before = self._states[-1]
        until = before.until
        if position == until:
            # Two answers under one version, as of a view that expires: it does not say which of them somebody has.
            before.until -= 1
        self._append(_State(max(since, until + 1), position, entry))

    def _append(self, state: _State) -> None:
        self._states.append(state)
        self.last += 1
        self.size_bytes += _size(state)
        while len(self._states) > self._most_entries + 1 or self.size_bytes > self._most_bytes:
            if not self._forget_oldest():
                break

    def shorten(self) -> None:
        """Forgets all that may be forgotten."""
        while self._forget_oldest():
            pass

    def _forget_oldest(self) -> bool:
        """Whether there was a state to forget."""
        if len(self._states) <= 2:
            return False
        # What led to the one that is the oldest now, nobody needs any more.
        self.size_bytes -= _size(self._states.popleft()) + _size(self._states[0])
        self._states[0].entry = None
        return True

    def behind(self, number: int) -> Sequence[Entry] | None:
        """The events that follow a state, or None if it is not remembered."""
        missed = self.last - number
        if missed >= len(self._states):
            return None
        return [self._states[i].entry for i in range(-missed, 0) if self._states[i].entry is not None]  # type: ignore[misc]

    def find(self, position: Position) -> int | None:
        """The number of the state that was exact at a version, if one is known."""
        for back, state in enumerate(reversed(self._states)):
            if state.since <= position <= state.until:
                return self.last - back
        return None


def _size(state: _State) -> int:
    return 0 if state.entry is None else len(state.entry.json) + len(state.entry.sse)
