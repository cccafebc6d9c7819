"""Rows that a subscriber computes from the events that it gets."""

import json
from collections.abc import Callable, Sequence
from typing import Any

from service.ground.version import parse_version
from service.worker.subscriptions.entries import Entry, EventKind


class Rebuilt:
    """Rows as the events say they are. `check` is called with them and each version that the events name."""

    def __init__(self, check: Callable[[int, list[Any]], None] = lambda *_: None) -> None:
        self.rows: list[Any] = []
        self.token: str | None = None
        self.position = 0
        self.kinds: list[EventKind] = []
        self.reason = ""
        self._check = check

    def take(self, entries: Sequence[Entry]) -> None:
        for entry in entries:
            self.kinds.append(entry.kind)
            said = json.loads(entry.json)
            if entry.kind is EventKind.MUST_REFETCH:
                self.reason = said["reason"]
                continue
            if entry.kind is EventKind.SNAPSHOT:
                self.rows = said["rows"]
            elif entry.kind is EventKind.CHANGE:
                self._change(said)
            position = parse_version(said["version"])
            assert position >= self.position, "a version went back"
            self.position, self.token = position, entry.token
            self._check(position, self.rows)

    def _change(self, said: dict[str, Any]) -> None:
        for at, row in reversed(list(zip(said["removed_at"], said["removed"], strict=True))):
            assert self.rows[at] == row
            del self.rows[at]
        for at, row in zip(said["added_at"], said["added"], strict=True):
            assert at <= len(self.rows)
            self.rows.insert(at, row)
