"""Positions at which every engine that follows a log has a state of its own, however it puts transactions together.

*Theory*: transactions that come together are applied as one, which is several times cheaper; what changes and changes
back within them is no change at all. So an answer that is unchanged over such a step need not have been the answer at
the positions in between. Engines that follow the same log put together what happens to come together, each otherwise.
None of them puts transactions together across a *milestone*, a multiple of `BYTES`: what changes before one and changes
back behind it counts as two changes. So at milestones unchanged answers of different engines are of one version.
"""

from collections.abc import Iterator
from typing import Protocol, TypeVar

from dataflow.types import Position


class Committed(Protocol):
    """A transaction, by the position at which its commit ends."""

    @property
    def end(self) -> Position: ...


C = TypeVar("C", bound=Committed)

#: Some dozens of small transactions.
BYTES = 1 << 14


def is_milestone(position: Position) -> bool:
    """Return whether it is one."""
    return not position % BYTES


def milestone_before(position: Position) -> Position:
    """The last one that is not behind `position`."""
    return position - position % BYTES


def between(transactions: list[C]) -> Iterator[list[C]]:
    """Transactions in commit order, those between the same two milestones together."""
    begin = 0
    for n, transaction in enumerate(transactions):
        # One that ends at a milestone is in the state there.
        if n and (transaction.end - 1) // BYTES != (transactions[n - 1].end - 1) // BYTES:
            yield transactions[begin:n]
            begin = n
    if transactions:
        yield transactions[begin:]
