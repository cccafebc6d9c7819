"""Limits of a view's keys: a key with more rows, or bytes, is answered by the upstream, not stored.

*Maintains*: the number of rows of each covered key, for views with a limit of their own; which keys have outgrown it.

Not here: limits of all views (`limits`), what becomes of a key that is too large (`upquery`, `engine`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dataflow.sizing import sampled_bytes
from dataflow.types import Key, Row


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """Limits of a view's key; None: only the general ones."""

    rows: int | None = None
    bytes: int | None = None

    def hold(self, rows: int, size_bytes: int) -> bool:
        """Return whether a key with so many rows, of so many bytes, may be stored."""
        return (self.rows is None or rows <= self.rows) and (self.bytes is None or size_bytes <= self.bytes)

    def hold_rows(self, rows: Sequence[Row]) -> bool:
        """Return whether a key with these rows may be stored."""
        return self.hold(len(rows), 0 if self.bytes is None else sampled_bytes(rows))


#: A view without limits of its own.
UNLIMITED = KeyLimits()


@dataclass(slots=True)
class KeySizes:
    """The keys of one view that is kept in place."""

    limits: KeyLimits
    #: By covered key.
    rows: dict[Key, int] = field(default_factory=dict)
    _outgrown: dict[Key, None] = field(default_factory=dict)

    def changed(self, key: Key, more_rows: int, size_bytes: int) -> None:
        """A covered key has so many rows more, and takes so much now."""
        rows = self.rows[key] = self.rows.get(key, 0) + more_rows
        if not self.limits.hold(rows, size_bytes):
            self._outgrown[key] = None

    def lost(self, key: Key) -> None:
        """A key is a hole now."""
        self.rows.pop(key, None)

    def cleared(self) -> None:
        """All keys have lost their rows."""
        self.rows = dict.fromkeys(self.rows, 0)

    def take_outgrown(self) -> list[Key]:
        """Keys that are larger than they may be and that nobody has taken yet."""
        outgrown, self._outgrown = self._outgrown, {}
        return [key for key in outgrown if key in self.rows]
