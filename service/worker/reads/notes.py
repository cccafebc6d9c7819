"""Notes of a request's reads for the access log: keys, outcomes, and the sizes of rows.

*Theory*: the reading code does not have the request, and the access log does not have the keys. While a logged
request is answered, the context has its `Noted`; otherwise notes cost one lookup.

*Invariants*: a request's notes are bounded by its limits: later reads of a long task replace earlier notes.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from enum import StrEnum

from service.leaf_store.answer import StoredAnswer
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.request import Values
from service.protocol.reads import AnswerSource


class Outcome(StrEnum):
    """Outcome of a read."""

    HIT = "hit"
    #: Not in memory: computed, and usually stored.
    MISS = "miss"
    #: Answered by the database, past the store.
    FORWARD = "forward"
    #: The previous answer, while it is recomputed.
    STALE = "stale"
    #: No answer.
    FAILED = "failed"


_OUTCOMES = {
    AnswerSource.STORED: Outcome.MISS,
    AnswerSource.UNSTORED: Outcome.MISS,
    AnswerSource.FORWARDED: Outcome.FORWARD,
    AnswerSource.CURRENT: Outcome.FORWARD,
    AnswerSource.QUERY: Outcome.FORWARD,
    AnswerSource.STALE: Outcome.STALE,
}
#: A read: its view, its values, its outcome, and the bytes of its rows as a JSON array.
NotedRead = tuple[ViewInfo, Values, Outcome, int | None]
ReadKeys = Sequence[tuple[ViewInfo, Values]]


class Noted:
    """The reads of one request. *State*: `names` are leaf store entries that were hits, of the view `of`, with the
    bytes of their rows in `sizes`; `reads` are all other reads."""

    __slots__ = ("names", "of", "reads", "sizes", "stored")

    def __init__(self) -> None:
        self.of: ViewInfo | None = None
        self.names: Sequence[bytes] = ()
        self.sizes: Sequence[int] = ()
        self.reads: list[NotedRead] = []
        #: Whether each read in progress was found in the leaf store.
        self.stored: Sequence[bool] = ()

    def entries(self, info: ViewInfo, names: Sequence[bytes], rows: Sequence[bytes]) -> None:
        """Note that all these entries were hits; `rows` are without their brackets."""
        self.of, self.names, self.sizes = info, names, [len(of_key) + 2 for of_key in rows]

    def answered(self, asked: ReadKeys, answers: Sequence[StoredAnswer], source: AnswerSource | None) -> None:
        """Note the answers: hits if `source` is None; otherwise those not in the leaf store come from `source`."""
        stored = self.stored or [source is None] * len(answers)
        other = Outcome.HIT if source is None else _OUTCOMES[source]
        self.reads = [
            (info, values, Outcome.HIT if hit else other, len(answer.rows))
            for (info, values), answer, hit in zip(asked, answers, stored, strict=True)
        ]

    def hits(self, asked: ReadKeys, sizes: Sequence[int]) -> None:
        """Note hits, with the bytes of their rows."""
        self.reads = [(*read, Outcome.HIT, size) for read, size in zip(asked, sizes, strict=True)]

    def failed(self, asked: ReadKeys) -> None:
        """Note reads without an answer."""
        self.reads = [(*read, Outcome.FAILED, None) for read in asked]


#: The notes of the current request, if it is logged.
NOTED: ContextVar[Noted | None] = ContextVar("noted", default=None)


def note_stored(found: Sequence[StoredAnswer | None]) -> None:
    """Note which of the reads in progress were found in the leaf store."""
    noted = NOTED.get()
    if noted is not None:
        noted.stored = [answer is not None for answer in found]
