"""The one writer of the leaf store; lives in the engine process."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from dataflow.engine.effects import LeafEffect
from dataflow.plan.nodes import View
from dataflow.types import Position, Row, ViewId
from service.leaf_store.answer import Answer, Window
from service.leaf_store.reader import LeafReader


class LeafWriter:
    """Applies a step's leaf effects as one LMDB commit.

    Order of calls for a view: `register` (before the first effect that names it), any number of commits, a `LeafDrop`.
    `register`, `publish` and `set_status` become visible to readers with the next `commit`.
    """

    def __init__(self, path: Path, map_bytes: int = 1 << 30) -> None:
        """Opens (creates) the store in directory `path`. `map_bytes` is the first size of the map; it grows by itself."""
        raise NotImplementedError

    @property
    def reader(self) -> LeafReader:
        """Reads in this process (LMDB allows one open environment a process). Sees the last commit."""
        raise NotImplementedError

    def reset(self, epoch: str) -> None:
        """Discard everything at once, for readers too: views, rows, position. `epoch` names the new continuity."""
        raise NotImplementedError

    def register(self, view: ViewId, plan: View, *, status: str = "building", listed: bool = True) -> None:
        """Make `view` known. Unless `listed`, its name goes on meaning what it did until `publish(view)`."""
        raise NotImplementedError

    def publish(self, view: ViewId) -> None:
        """From the next commit on, the name of `view` means it (a replacement that is ready)."""
        raise NotImplementedError

    def set_status(self, view: ViewId, status: str, reason: str | None = None) -> None:
        """``building``, ``ready`` or ``broken``, from the next commit on."""
        raise NotImplementedError

    def commit(self, effects: Iterable[LeafEffect], position: Position, at_ms: int) -> None:
        """One LMDB commit: all effects, in their order, with the position they are exact at. Also without effects."""
        raise NotImplementedError

    def render(self, view: ViewId, rows: Sequence[Row], window: Window | None = None) -> Answer:
        """Rows that are not in the leaf store (a forwarded read) in the form of an answer, ordered and limited."""
        raise NotImplementedError

    @property
    def total_bytes(self) -> int:
        """Keys, values and their overhead, of all views."""
        raise NotImplementedError

    def bytes_by_view(self) -> dict[ViewId, int]:
        """The same, by view."""
        raise NotImplementedError

    def close(self) -> None:
        """Close the environment (the reader's too)."""
        raise NotImplementedError
