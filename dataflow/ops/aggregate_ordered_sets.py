"""Results of PERCENTILE_CONT, PERCENTILE_DISC and MODE, of rows in order whose first column is the value.

Follows the server's `percentile_disc_final`, `percentile_cont_final_common` and `mode_final` (``orderedsetaggs.c``).

Not here: the rows and their order (`aggregate_lists`).
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from math import ceil, floor
from operator import itemgetter

from dataflow.functions import floats
from dataflow.types import Row, Value


def percentile_disc(fraction: float) -> Callable[[Sequence[Row]], Value]:
    """The first value at or behind a fraction of the rows."""
    return lambda rows: rows[max(ceil(fraction * len(rows)), 1) - 1][0]


def percentile_cont(fraction: float) -> Callable[[Sequence[Row]], Value]:
    """The value at a fraction of the way from the first row to the last, of ``float8``."""

    def percentile(rows: Sequence[Row]) -> Value:
        place = fraction * (len(rows) - 1)
        low, high = (floats.read(rows[number][0] or "", "float8") for number in (floor(place), ceil(place)))
        value = low if floor(place) == ceil(place) else low + (place - floor(place)) * (high - low)
        return floats.printed(value, "float8")

    return percentile


def mode(rows: Sequence[Row]) -> Value:
    """The most frequent value; of several the first."""
    counts: list[tuple[Value, int]] = [(value, sum(1 for _ in equal)) for value, equal in groupby(rows, _value)]
    return max(counts, key=itemgetter(1))[0]


def _value(row: Row) -> Value:
    return row[0]
