"""Results of leaf store reads.

Not here: their storage (`layout`) and reading (`reader`); HTTP (`service.worker.routes`).
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PageWindow:
    """A page of a key's rows: at most `limit_rows` after the token `after` (None: from the start).

    It lies within the view's own LIMIT and OFFSET. Only ordered views have pages.
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
    """The state of the whole leaf store at one commit.

    Every answer read in the same transaction is exact at `position`. `at_ms` is a wall time (Unix, milliseconds) at
    which the upstream had not passed that position; the time since then is the age. `epoch` names the lifetime of
    the positions: those of different epochs are not comparable. From `one_by_one` on, the store was at each position
    once: no transactions were applied together (`dataflow.milestones`).
    """

    position: int
    at_ms: int
    epoch: str
    catalog_version: int
    one_by_one: int = 0

    @property
    def server(self) -> str:
        """Return the server of the position, if the epoch names it; positions of different servers are not
        comparable."""
        return self.epoch.partition("@")[2]


EMPTY_TAG = "0" * 32
#: A covered key without rows.
EMPTY = StoredAnswer(b"[]", EMPTY_TAG)
