"""Results of PERCENTILE_CONT, PERCENTILE_DISC and MODE, of rows in order whose first column is the value.

Follows PostgreSQL's `percentile_disc_final`, `percentile_cont_final_common` and `mode_final` (``orderedsetaggs.c``),
MariaDB's `Item_sum_percentile_cont` and `Item_sum_percentile_disc` (``item_windowfunc.h``).

Not here: the rows and their order (`aggregate_lists`).
"""

from collections.abc import Callable, Sequence
from itertools import groupby
from math import ceil, floor
from operator import itemgetter

from dataflow.functions import floats
from dataflow.plan.nodes import AggregateFunction
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


def mariadb_percentile_disc(fraction: float) -> Callable[[Sequence[Row]], Value]:
    """The first value behind which there are no more rows than the fraction leaves; the quotient is rounded."""

    def percentile(rows: Sequence[Row]) -> Value:
        count = len(rows)
        place = max(int(fraction * count) - 1, 1)
        while place / count < fraction:
            place += 1
        return rows[place - 1][0]

    return percentile


def mariadb_percentile_cont(fraction: float, bound: float) -> Callable[[Sequence[Row]], Value]:
    """The value at a fraction of the way from the first row to the last, of ``DOUBLE(n,10)``: ten decimals, and none
    beyond `bound`."""

    def percentile(rows: Sequence[Row]) -> Value:
        place = fraction * (len(rows) - 1)
        low, high = (floats.read(rows[number][0] or "", "float8") for number in (floor(place), ceil(place)))
        above = place - floor(place)
        value = above * high + (1 - above) * low if above else low
        return floats.printed(min(max(_ten_decimals(value), -bound), bound), "float8")

    return percentile


def _ten_decimals(value: float) -> float:
    """The number that is read from the text of a field of ten decimals in which `value` is stored (`truncate_double`).
    The number in the field may be one next to it."""
    whole = floor(value)
    stored = whole + round((value - whole) * 1e10) / 1e10
    return float(f"{stored:.10f}")


def mode(rows: Sequence[Row]) -> Value:
    """The most frequent value; of several the first."""
    counts: list[tuple[Value, int]] = [(value, sum(1 for _ in equal)) for value, equal in groupby(rows, _value)]
    return max(counts, key=itemgetter(1))[0]


def _value(row: Row) -> Value:
    return row[0]


#: The function of one or more rows, by the numbers behind an ordered-set aggregate's argument.
ORDERED_SETS: dict[AggregateFunction, Callable[..., Callable[[Sequence[Row]], Value]]] = {
    AggregateFunction.PERCENTILE_CONT: percentile_cont,
    AggregateFunction.PERCENTILE_DISC: percentile_disc,
    AggregateFunction.MODE: lambda: mode,
    AggregateFunction.MARIADB_PERCENTILE_CONT: mariadb_percentile_cont,
    AggregateFunction.MARIADB_PERCENTILE_DISC: mariadb_percentile_disc,
}
