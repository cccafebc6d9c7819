"""Conditions on the current time: bounds of a column whose values are computed at each read.

*Theory*: in ``created_at > now() - interval '1 hour'`` only the bound depends on the time. A read computes it and takes
the rows of the column's order within it, as for a parameter `created_at > :since`; so nothing is stored by time, and
rows enter and leave exactly when their time comes, without an event. (Gjengset's thesis on Noria, §9.11, has the time
as a relation that is joined instead.) Where rows within the bound are taken together, its value is a part of the key,
as that of a parameter would be; which is worth it only if it is the same for many reads (`is_coarse`).

*Invariants*: sessions upstream are in UTC, so zoned and plain moments, and dates as their midnights, compare as texts
of one time zone.

Not here: which expressions are bounds (`dataflow.sql.current_time`), whose clock it is (`service.leaf_store.clock`).
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from dataflow.calendar import civil_days, date_text, timestamp_text, to_microseconds
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import SqlType
from dataflow.types import Row
from dataflow.types.mysql_dates import DATE, DATETIME, TIMESTAMP

#: A bound at a time in microseconds since 1970: the comparison and the value. Raises ValueError or EvaluationError if
#: it has no finite value then.
BoundAt = Callable[[int], tuple[str, str]]
#: Types of columns and bounds.
MOMENTS = frozenset({"date", "timestamp", "timestamptz", DATE, DATETIME, TIMESTAMP})
_DATES = frozenset({"date", DATE})
_DAY_US = 86_400_000_000
_HOUR_US = 3_600_000_000
_SECOND_US = 1_000_000
_EPOCH_US = civil_days(1970, 1, 1) * _DAY_US
#: What a date, at its midnight, is compared by with a moment just before that.
_JUST_BEFORE = {">=": ">", "<": "<="}

#: The current time as columns of the row that bounds are computed from (`clock_row`).
PRECISE = ColumnRef(0, SqlType("timestamptz", "timestamptz"))
SECONDS = ColumnRef(1, SqlType(DATETIME, "datetime"))
MICROSECONDS = ColumnRef(2, SqlType(DATETIME, "datetime(6)"))


@dataclass(frozen=True, slots=True)
class ClockBound:
    """``column <operator> value``, by one of ``< <= > >=``; on the same column as all ranges of its view. Or the column
    of a key that has the value, as the operator is compared with it (`compared_by`)."""

    column: int
    operator: str
    #: Over the row of a time.
    value: Scalar
    #: The value as the SQL has it.
    sql: str = field(compare=False)


def clock_row(unix_us: int) -> Row:
    """The row of a time."""
    moment = _EPOCH_US + unix_us
    seconds = timestamp_text(moment - moment % _SECOND_US)
    return timestamp_text(moment, "+00"), seconds, f"{seconds}.{moment % _SECOND_US:06}"


def compared_by(operator: str, column: SqlType) -> str:
    """The comparison with the value of a bound (`BoundAt`)."""
    return _JUST_BEFORE.get(operator, operator) if column.name in _DATES else operator


def ends_of_time(column: SqlType) -> tuple[str, str]:
    """Texts of a column's type that are before and behind the value of every bound."""
    match column.name:
        case "date" | "timestamp" | "timestamptz":
            return "-infinity", "infinity"
        case "mysql_date":
            return "0001-01-01", "9999-12-31"
        case _:
            return column.parse("0001-01-01 00:00:00"), column.parse("9999-12-31 23:59:59")


def is_coarse(bound: BoundAt, hours_us: Iterable[int]) -> bool:
    """Return whether a bound has one value in each of these hours, given by their beginnings."""
    return all(bound(hour_us) == bound(hour_us + _HOUR_US - 1) for hour_us in hours_us)


def bound_at(compute: Callable[[Row], str | None], operator: str, column: SqlType) -> BoundAt:
    """The bound of a column of this type. `compute`: the bound's value, compiled."""
    normal = column.normal_form or str
    is_date = column.name in _DATES
    zone = "+00" if column.name == "timestamptz" else ""
    before_us = is_date and operator in _JUST_BEFORE
    compared = compared_by(operator, column)

    def bound(unix_us: int) -> tuple[str, str]:
        text = compute(clock_row(unix_us))
        if text is None:
            raise ValueError("NULL is no bound")
        moment = to_microseconds(text if " " in text else f"{text} 00:00:00") - before_us
        printed = date_text(moment // _DAY_US) if is_date else timestamp_text(moment, zone)
        return compared, normal(column.parse(printed))

    return bound
