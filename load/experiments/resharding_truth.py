"""What an answer must be, at the version that it states: the stories after each transaction of one writer.

*Theory*: the writer is alone. After each commit it asks for the end of the database's log. So its transaction k is
included in every version from that end on, and in none up to the end that it was told before; a version in between may
be of either side of the commit. Answers that count the transactions themselves say exactly which they include.

*Invariants*: pure. A row is as the view has it.

Not here: reading and writing (`resharding_clients`).
"""

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field

from load.workloads.front_page import Change

#: Of `STORY_WITH_VOTES`: id, author, title, url, votes.
Row = tuple[int, int, str, str, int]


@dataclass(frozen=True, slots=True)
class Answer:
    """What a reader was told. Times are of `monotonic()`."""

    at: float
    #: From when it was due.
    ms: float
    hit: bool
    position: int
    #: How many transactions it includes, if that was asked, too.
    transactions: int | None
    #: By story, what there was of it.
    rows: tuple[tuple[int, tuple[Row, ...]], ...]


@dataclass(frozen=True, slots=True)
class Written:
    """What the writer did: each transaction, the end of the log after it, and when that was known."""

    changes: Sequence[Change]
    ends: Sequence[int]
    times: Sequence[float]


@dataclass(slots=True)
class _Story:
    """After which transactions it was another, and what."""

    transactions: list[int] = field(default_factory=list)
    states: list[tuple[int, str]] = field(default_factory=list)


class Histories:
    """All stories, of which each began with as many votes."""

    def __init__(self, written: Written, votes_each: int) -> None:
        self._written = written
        self._votes_each = votes_each
        self._stories: dict[int, _Story] = {}
        for number, (story, votes, title) in enumerate(written.changes, start=1):
            its = self._stories.setdefault(story, _Story())
            before = its.states[-1] if its.states else self._first(story)
            its.transactions.append(number)
            its.states.append((before[0] + votes, before[1] if title is None else title))

    def row(self, story: int, transactions: int) -> Row:
        """The story after so many."""
        votes, title = self._first(story)
        if its := self._stories.get(story):
            last = bisect_right(its.transactions, transactions)
            votes, title = its.states[last - 1] if last else (votes, title)
        return (story, story % 50000, title, f"https://news.example/stories/{story}", votes)

    def included(self, position: int) -> tuple[int, int]:
        """At least and at most so many transactions are in answers of this version."""
        least = bisect_right(self._written.ends, position)
        before = self._written.ends[least - 1] if least else 0
        return least, min(len(self._written.ends), least + (position > before))

    def what_is_wrong(self, answer: Answer) -> str | None:
        """Nothing, if each row is what it must be."""
        least, most = self.included(answer.position)
        numbers: Sequence[int] = range(least, most + 1)
        if answer.transactions is not None:
            if answer.transactions not in numbers:
                return f"{answer.transactions} transactions at a version with {least} to {most}"
            numbers = (answer.transactions,)
        # One number for all rows: they are of one version.
        if any(all(rows == (self.row(story, number),) for story, rows in answer.rows) for number in numbers):
            return None
        told = [(story, rows, self.row(story, numbers[-1])) for story, rows in answer.rows]
        story, rows, expected = next((one for one in told if one[1] != (one[2],)), told[0])
        return f"story {story} after {numbers[-1]} transactions: {rows} instead of {expected}"

    def behind_s(self, answer: Answer) -> float:
        """How long ago the first transaction was committed that it does not include."""
        _, included = self.included(answer.position)
        if answer.transactions is not None:
            included = answer.transactions
        times = self._written.times
        return max(0.0, answer.at - times[included]) if included < len(times) else 0.0

    def _first(self, story: int) -> tuple[int, str]:
        return self._votes_each, f"The story with the number {story}"
