"""A subscriber's rows, rebuilt from events alone.

*Invariants*: what an event takes away was there, at that place; versions never go back. So an event that was lost or
came twice is noticed.
"""

from functools import lru_cache
from typing import Any

from load.subscribers.stream import StreamEvent


class LostTrack(RuntimeError):
    """An event does not fit what was there."""


class SubscriberRows:
    """*State*: `rows` are exact at `version`; `changes` counts events that changed them; `over`, that a new beginning
    was asked for."""

    def __init__(self) -> None:
        self.rows: list[dict[str, Any]] = []
        self.version = ""
        self.snapshots = 0
        self.changes = 0
        self.over = False

    def hear(self, event: StreamEvent) -> None:
        """Take an event in. Raises `LostTrack`."""
        data = event.data
        if event.kind == "must-refetch":
            self.over = True
            return
        if event.kind == "snapshot":
            self.snapshots += 1
            self.over = False
            self.rows = list(data["rows"])
        elif event.kind == "change":
            self.changes += 1
            self._change(data)
        elif event.kind != "up-to-date":
            raise LostTrack(f"an event of an unknown kind: {event.kind}")
        self._move_on(data["version"])

    def _change(self, data: dict[str, Any]) -> None:
        rows = self.rows
        for at, row in zip(reversed(data["removed_at"]), reversed(data["removed"]), strict=True):
            if at >= len(rows) or rows[at] != row:
                raise LostTrack(f"{row} is to go from place {at} of {len(rows)}, where it is not")
            del rows[at]
        for at, row in zip(data["added_at"], data["added"], strict=True):
            if at > len(rows):
                raise LostTrack(f"{row} is to come to place {at} of {len(rows)}")
            rows.insert(at, row)

    def _move_on(self, version: str) -> None:
        if self.version and version_order(version) < version_order(self.version):
            raise LostTrack(f"version {version} comes after {self.version}")
        self.version = version


@lru_cache(maxsize=1024)
def version_order(version: str) -> tuple[int, ...]:
    """A version's numbers, which compare as versions do: ``pg:0/16B3748``, ``mysql:12:345``."""
    kind, _, place = version.partition(":")
    base, between = (16, "/") if kind == "pg" else (10, ":")
    return tuple(int(part, base) for part in place.split(between))
