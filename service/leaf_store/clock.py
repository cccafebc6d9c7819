"""Conditions on the current time, as readers apply them: bounds of a key's rows at the time of the read.

*Invariants*: the time is that of this process's machine, at the moment the read looks at the store; nothing else of a
read depends on it. Readers of the store never go by a bound that is stored.

Not here: the conditions in SQL (`dataflow.sql.current_time`), their values (`dataflow.plan.clock_bounds`).
"""

import time
from dataclasses import dataclass
from functools import cached_property

from dataflow.plan.clock_bounds import BoundAt, bound_at
from dataflow.scalar import Scalar
from dataflow.schema import SqlType

#: Time before and after a read for which its misses also fill rows: later reads are then hits. A row may enter a window
#: in this time; and clocks of workers differ a little.
BACK_US, AHEAD_US = 2_000_000, 3_600_000_000
#: Pairs of such times: that of lower bounds before the read, and of upper bounds after it. A bound may be earlier at a
#: later time (a month before the 30th and 31st of March), so the nearest times count, too.
FILLED_US = ((BACK_US, BACK_US), (0, AHEAD_US))


@dataclass(frozen=True)
class ClockInfo:
    """A bound of the first order column, of this type. Without slots: it is compiled at its first use."""

    operator: str
    value: Scalar
    type: SqlType

    def at(self, unix_us: int) -> tuple[str, str]:
        """Return the comparison and the value at a time."""
        return self._bound(unix_us)

    @cached_property
    def _bound(self) -> BoundAt:
        # A process that reads no such view does not load the functions of SQL.
        from dataflow.evaluate import compile_scalar

        return bound_at(compile_scalar(self.value), self.operator, self.type)

    def around(self, unix_us: int, before_us: int, after_us: int) -> tuple[str, str]:
        """Return the bound before a time if it is a lower one, and after it if it is an upper one."""
        return self.at(unix_us - before_us if self.operator in (">", ">=") else unix_us + after_us)


def now_us() -> int:
    """Return the time in microseconds since 1970."""
    return time.time_ns() // 1000
