"""Reads of the leaf store: any process, no locks, never a half commit."""

from collections.abc import Sequence
from pathlib import Path

from dataflow.types import Key, ViewId
from service.leaf_store.answer import Answer, LeafState, Window


class LeafReader:
    """Reads a leaf store that a `LeafWriter`, of this or another process, writes."""

    @classmethod
    def open(cls, path: Path) -> "LeafReader":
        """Read-only, in a process of its own. FileNotFoundError while there is no store."""
        raise NotImplementedError

    def state(self) -> LeafState | None:
        """The last commit's position and times; None before the first commit."""
        raise NotImplementedError

    def read(self, keys: Sequence[tuple[ViewId, Key, Window | None]]) -> tuple[list[Answer | None], LeafState]:
        """The answers to all keys, in one transaction: all exact at the state's position. None: a hole."""
        raise NotImplementedError
