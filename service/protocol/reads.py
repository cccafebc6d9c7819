"""Reads of views that a worker sends to the engine, and their answers."""

from dataclasses import dataclass, field
from enum import StrEnum

import orjson

from dataflow.types import Position, ViewId
from service.leaf_store.answer import PageWindow, StoredAnswer
from service.leaf_store.request import Values


@dataclass(frozen=True, slots=True)
class ReadItem:
    """A read of a view, by the view's name, with the values of its parameters: normal forms, in the order of
    `ViewInfo.parameters`. `id`: the view that the values were read for; the name may mean another one by now."""

    view: str
    values: Values
    window: PageWindow | None = None
    id: ViewId | None = field(default=None, compare=False)


class AnswerSource(StrEnum):
    """How the engine came to answers: what it stored for the next read, what it did not store, what the upstream itself
    answered past the store."""

    STORED = "stored"
    UNSTORED = "unstored"
    FORWARDED = "forwarded"
    #: The same, because what is stored is older than the view allows, or the view is planned again; exact at no version
    #: that is known.
    CURRENT = "current"
    #: The upstream's answer to a query that no view means; exact at no version that is known.
    QUERY = "query"
    #: (Not of the engine.) What was answered before, while it is run again.
    STALE = "stale"

    @property
    def has_version(self) -> bool:
        """Return whether answers are exact at their position; others are from before it, or at it."""
        return self not in (AnswerSource.CURRENT, AnswerSource.QUERY)


@dataclass(frozen=True, slots=True)
class StoredReply:
    """The answers to all items of a request are in the leaf store, as committed at `position`: the worker reads them
    there. By then a key may have changed, or may have been evicted."""

    position: Position


@dataclass(frozen=True, slots=True)
class ReadReply:
    """Answers to all items of a request, all exact at `position`, if their source has a version (see `LeafState` for
    `at_ms`)."""

    answers: list[StoredAnswer]
    position: Position
    at_ms: int
    source: AnswerSource = AnswerSource.STORED

    def to_bytes(self) -> bytes:
        """A line of JSON, then the rows of all answers as they are."""
        answers = [(len(answer.rows), answer.tag, answer.next) for answer in self.answers]
        head = orjson.dumps((self.position, self.at_ms, self.source, answers))
        return b"".join((head, b"\n", *[answer.rows for answer in self.answers]))

    @staticmethod
    def of(body: bytes) -> "ReadReply":
        """Inverse of `to_bytes`."""
        end = body.index(b"\n")
        position, at_ms, source, described = orjson.loads(body[:end])
        answers, at = [], end + 1
        for size, tag, following in described:
            answers.append(StoredAnswer(body[at : at + size], tag, following))
            at += size
        return ReadReply(answers, position, at_ms, AnswerSource(source))
