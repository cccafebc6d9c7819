"""What a request read, noted where that is known: which keys, how each was answered, how large the rows are.

*Theory*: the parts that read have no request at hand, and the access log has no keys. While a request is answered that
is to be logged, the context has its `Noted`; without one, nothing is noted, which costs one look.

*Invariants*: a request's notes are bounded by what it may ask for: what a longer task reads later takes the place of
what was noted before.
"""

from collections.abc import Sequence
from contextvars import ContextVar
from enum import StrEnum

from service.leaf_store.answer import StoredAnswer
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.request import Values
from service.protocol.wire import AnswerSource


class Outcome(StrEnum):
    """How a read was answered."""

    HIT = "hit"
    #: Not in memory: computed, and mostly stored for the next read.
    MISS = "miss"
    #: By the database, past the store.
    FORWARD = "forward"
    #: As it was answered before, while it is computed anew.
    STALE = "stale"
    #: Not at all.
    FAILED = "failed"


_OUTCOMES = {
    AnswerSource.STORED: Outcome.MISS,
    AnswerSource.UNSTORED: Outcome.MISS,
    AnswerSource.FORWARDED: Outcome.FORWARD,
    AnswerSource.CURRENT: Outcome.FORWARD,
    AnswerSource.QUERY: Outcome.FORWARD,
    AnswerSource.STALE: Outcome.STALE,
}
#: A read: its view, its values, how it was answered, and the bytes of its rows as a JSON array.
NotedRead = tuple[ViewInfo, Values, Outcome, int | None]
Asked = Sequence[tuple[ViewInfo, Values]]


class Noted:
    """The reads of one request. *State*: `names` are entries of the leaf store that were hits, of the view `of`, with
    the bytes of their rows in `sizes`; `reads` are those that were read otherwise."""

    __slots__ = ("names", "of", "reads", "sizes", "there")

    def __init__(self) -> None:
        self.of: ViewInfo | None = None
        self.names: Sequence[bytes] = ()
        self.sizes: Sequence[int] = ()
        self.reads: list[NotedRead] = []
        #: Of reads that are under way, which were in the leaf store.
        self.there: Sequence[bool] = ()

    def entries(self, info: ViewInfo, names: Sequence[bytes], rows: Sequence[bytes]) -> None:
        """All of these entries were there; `rows` are without their brackets."""
        self.of, self.names, self.sizes = info, names, [len(of_key) + 2 for of_key in rows]

    def answered(self, asked: Asked, answers: Sequence[StoredAnswer], source: AnswerSource | None) -> None:
        """These are the answers: hits without a `source`; else those that were not `there` come from it."""
        there = self.there or [source is None] * len(answers)
        other = Outcome.HIT if source is None else _OUTCOMES[source]
        self.reads = [
            (info, values, Outcome.HIT if hit else other, len(answer.rows))
            for (info, values), answer, hit in zip(asked, answers, there, strict=True)
        ]

    def hits(self, asked: Asked, sizes: Sequence[int]) -> None:
        """All of it was there, with rows of so many bytes."""
        self.reads = [(*read, Outcome.HIT, size) for read, size in zip(asked, sizes, strict=True)]

    def failed(self, asked: Asked) -> None:
        """There is no answer."""
        self.reads = [(*read, Outcome.FAILED, None) for read in asked]


#: The notes of the request that is being answered, if they are wanted.
NOTED: ContextVar[Noted | None] = ContextVar("noted", default=None)


def note_there(found: Sequence[StoredAnswer | None]) -> None:
    """Of the reads that are under way, these were in the leaf store."""
    noted = NOTED.get()
    if noted is not None:
        noted.there = [answer is not None for answer in found]
