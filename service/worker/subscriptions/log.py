"""Log of one topic's recent states, each with its event, from which subscribers resume.

*Invariants*: the last state is always in the log, and the one before it while a subscriber may be one state behind:
a change of any size reaches every current subscriber. Beyond that, the number of events and bytes is bounded.

*Theory*: a state is known to be exact from `since` to `until` and at no other version, so only a version within that
interval resumes after it. Between two states there may have been others, which another worker has sent.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.types import Position
from service.worker.subscriptions.entries import Entry


@dataclass(slots=True)
class _State:
    """`entry`: the event that led to it; None if nothing changed, or the event is not in the log."""

    since: Position
    until: Position
    entry: Entry | None


class TopicLog:
    """The log. States are numbered; `last` is the newest one's number."""

    def __init__(self, since: Position, until: Position, most_entries: int, most_bytes: int) -> None:
        self._states = deque([_State(since, until, None)])
        self._most_entries = most_entries
        self._most_bytes = most_bytes
        self.last = 0
        #: Bytes of its events.
        self.size_bytes = 0

    @property
    def until(self) -> Position:
        """The newest version at which the last state was seen."""
        return self._states[-1].until

    def confirm(self, since: Position, position: Position) -> None:
        """Confirm that the answer at `position` is the last state, unchanged since `since`."""
        state = self._states[-1]
        if since <= state.until + 1:
            state.until = max(state.until, position)
        else:
            # There may have been other states in between.
            self._append(_State(since, position, None))

    def append(self, since: Position, position: Position, entry: Entry) -> None:
        """Append a state that is exact from `since` to `position`."""
        before = self._states[-1]
        until = before.until
        if position == until:
            # Two answers have one version, as in a view that expires: the version does not identify the subscriber's.
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
        """Forget all states that may be forgotten."""
        while self._forget_oldest():
            pass

    def _forget_oldest(self) -> bool:
        """Forget the oldest state, if possible; return whether it was."""
        if len(self._states) <= 2:
            return False
        # The event that led to the oldest state is not needed.
        self.size_bytes -= _size(self._states.popleft()) + _size(self._states[0])
        self._states[0].entry = None
        return True

    def behind(self, number: int) -> Sequence[Entry] | None:
        """Return the events after a state, or None if it is not in the log."""
        missed = self.last - number
        if missed >= len(self._states):
            return None
        return [self._states[i].entry for i in range(-missed, 0) if self._states[i].entry is not None]  # type: ignore[misc]

    def find(self, position: Position) -> int | None:
        """Return the number of the state that was exact at a version, if known."""
        for back, state in enumerate(reversed(self._states)):
            if state.since <= position <= state.until:
                return self.last - back
        return None


def _size(state: _State) -> int:
    return 0 if state.entry is None else len(state.entry.json) + len(state.entry.sse)
