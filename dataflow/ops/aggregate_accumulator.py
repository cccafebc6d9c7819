"""The frame that all aggregates share: what is added can be taken away again, and leaves no trace.

Not here: the aggregates (`aggregate_sums`, `aggregate_values`, `aggregate_lists`), which of them a call needs
(`aggregate_state`).
"""

from collections.abc import Sequence
from typing import Any, Protocol

from dataflow.types import Value


class Accumulator(Protocol):
    """One aggregate's state for one group."""

    @property
    def recorded(self) -> tuple[str, ...]:
        """The attributes that its state consists of, as `aggregate_records` writes them; others follow from these."""
        ...

    @property
    def width(self) -> int:
        """How many partial columns it has in a state row."""
        ...

    @property
    def grows(self) -> bool:
        """True if it holds more the more values it has."""
        ...

    def state_bytes(self) -> int:
        """About what it holds, without looking at each value."""
        ...

    def add(self, value: Any, times: int) -> None:
        """Adds `value` `times` times, or takes it away if negative. A list's value is the row of its columns
        (`aggregate_call.listed`)."""
        ...

    def merge(self, partial: Sequence[Value]) -> None:
        """Adds the partial columns of a state row."""
        ...

    def result(self) -> Value:
        """The aggregate, as the upstream prints it."""
        ...


class PartialAccumulator(Accumulator, Protocol):
    """An aggregate that can be made of partial sums too."""

    def add_partial(self, value: Value, count: int, times: int) -> None:
        """Adds a partial sum of `count` non-NULL values, `times` times."""
        ...
