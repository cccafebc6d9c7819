"""What a read of the leaf store returns.

Not here: how it is stored (`layout`) and read (`reader`); how it goes over HTTP (`service.http`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageWindow:
    """Which part of a key's rows is wanted: at most `limit_rows` behind the token `after` (None: from the start).

    Always within the view's own LIMIT and OFFSET. Only ordered views have windows.
    """

    limit_rows: int | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """The rows of one key as JSON text.

    `rows` is a JSON array. `tag` is the text of the weak ETag without ``W/`` and quotes: the same rows and the same
    `next` give the same tag, in any process, after a refill and after a restart. `next` is the token of the next page.
    """

    rows: bytes
    tag: str
    next: str | None = None


@dataclass(frozen=True, slots=True)
class LeafState:
    """What one commit of the leaf store says about all of it.

    Every answer read in the same transaction is exact at `position`. `at_ms` is the wall time (Unix, milliseconds) at
    which the upstream is known to have been no further than that; now minus it is the age. `epoch` names the
    continuity: positions of different epochs are not comparable. From `one_by_one` on, the store was at each position
    once: no transactions were applied together (`dataflow.milestones`).
    """

    position: int
    at_ms: int
    epoch: str
    catalog_version: int
    one_by_one: int = 0

    @property
    def server(self) -> str:
        """In whose log the position is, as far as the epoch says; positions of different servers are not comparable."""
        return self.epoch.partition("@")[2]


EMPTY_TAG = "0" * 32
#: A covered key without rows.
EMPTY = StoredAnswer(b"[]", EMPTY_TAG)
