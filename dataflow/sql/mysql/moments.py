"""Functions of dates and times in MariaDB and MySQL: of columns and of what is computed of them, in UTC.

Not here: what they compute (`dataflow.functions.mysql_moments`).
"""

import re
from collections.abc import Sequence
from typing import Any

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.functions.mysql_moments import MYSQL_MOMENTS, UNITS, format_tokens
from dataflow.plan.expressions import INT8
from dataflow.scalar import Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.expressions import functions
from dataflow.sql.expressions.bind import Binder
from dataflow.sql.expressions.cast_types import UNKNOWN
from dataflow.sql.mysql import values
from dataflow.sql.mysql.texts import Compute, called, count, text_of
from dataflow.types.mysql_dates import DATE, DATETIME, TIMESTAMP

_DATE = SqlType(DATE, "date")
_FIELDS = ("YEAR", "MONTH", "DAYOFMONTH", "HOUR", "MINUTE", "SECOND", "QUARTER")
#: Without zeros for what is missing, which settings of the server refuse.
_WRITTEN_DATE = re.compile(r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|[12]\d|3[01])")
_WRITTEN_MOMENT = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.(\d{1,6}))?")
_WHOLE = re.compile(r"-?\d{1,9}")


def _moment(what: str, part: Scalar) -> Scalar:
    if part.type.kind == "base" and part.type.name in (DATE, DATETIME, TIMESTAMP):
        return part
    raise UnsupportedQuery(f"{what} of {part.type.sql} is not on the list of exact functions.")


def _of_moments(name: str, result: SqlType) -> Compute:
    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        return called(name, [_moment(name, part) for part in parts], result)

    return compute


def _difference(name: str) -> Compute:
    """The difference of two moments. A constant text that is a date is that date here, unlike where a time could be."""

    def written(part: Scalar) -> Scalar:
        date = isinstance(part, Literal) and part.type == UNKNOWN and _WRITTEN_DATE.fullmatch(part.value or "")
        return functions.typed(part, _DATE) if date else part

    def compute(parts: Sequence[Scalar], text: SqlType) -> Scalar:
        return _of_moments(name, INT8)([written(part) for part in parts], text)

    return compute


def _date_format(parts: Sequence[Scalar], text: SqlType) -> Scalar:
    moment, pattern = _moment("DATE_FORMAT", parts[0]), parts[1]
    if not isinstance(pattern, Literal) or pattern.type != UNKNOWN or pattern.value is None:
        raise UnsupportedQuery("DATE_FORMAT with anything but a constant is not on the list of exact functions.")
    try:
        format_tokens(pattern.value)
    except ValueError as error:
        raise UnsupportedQuery(f"DATE_FORMAT: {error}.") from error
    return called("DATE_FORMAT", (moment, functions.typed(pattern, text)), text_of(text))


def _week(name: str) -> Compute:
    """The week by a mode that is a constant: without one, WEEK has that of a setting."""

    def compute(parts: Sequence[Scalar], _: SqlType) -> Scalar:
        mode = count(name, parts[1]) if len(parts) > 1 else Literal("0", INT8)
        if not isinstance(mode, Literal) or mode.value is None:
            raise UnsupportedQuery(f"{name} by a mode that is no constant is not on the list of exact functions.")
        return called(name, (_moment(name, parts[0]), mode), INT8)

    return compute


# --- intervals ------------------------------------------------------------------------------------------------------


def shifted(binder: Binder, name: str, moment: Any, interval: Any) -> Scalar:
    """``moment + INTERVAL amount unit``; `name` is DATE_ADD or DATE_SUB."""
    start = _moment("INTERVAL", binder.bind(moment))
    unit = str(interval.args.get("unit") or "").upper()
    if unit not in UNITS:
        raise UnsupportedQuery(f"INTERVAL with {unit or 'no unit'} is not on the list of exact expressions.")
    result = start.type
    if result.name != DATE or not UNITS[unit]:
        result = SqlType(DATETIME, result.sql.replace("timestamp", "datetime") if result.name != DATE else "datetime")
    return called(f"{name} {unit}", (start, _amount(binder, interval.this)), result)


def _amount(binder: Binder, node: Any) -> Scalar:
    if isinstance(node, exp.Literal) and node.is_string:
        if not _WHOLE.fullmatch(node.this):
            raise UnsupportedQuery("INTERVAL of no whole number is not on the list of exact expressions.")
        return values.as_type(values.constant_of(node.this), INT8)
    amount = values.number(binder.bind(node))
    if amount.type.name == "int8" and not isinstance(amount, Literal):
        # The servers compute with it in 64 bits.
        raise UnsupportedQuery("INTERVAL of a BIGINT is not on the list of exact expressions.")
    return count("INTERVAL", amount)


def _date_sum(name: str, binder: Binder, node: Any) -> Scalar:
    if len(node.expressions) != 2 or not isinstance(node.expressions[1], exp.Interval):
        raise UnsupportedQuery(f"{str(node.this).upper()} without INTERVAL is not on the list of exact functions.")
    return shifted(binder, name, *node.expressions)


def difference(binder: Binder, node: Any) -> Scalar:
    """TIMESTAMPDIFF."""
    unit = str(node.expressions[0].name).upper() if len(node.expressions) == 3 else ""
    name = f"TIMESTAMPDIFF {unit}"
    if name not in MYSQL_MOMENTS:
        raise UnsupportedQuery(f"{name.strip()} is not on the list of exact functions.")
    return _difference(name)(binder.all(node.expressions[1:]), binder.text)


# --- literals, casts, EXTRACT ---------------------------------------------------------------------------------------


def literal(node: Any) -> Scalar | None:
    """``DATE '2024-01-01'``, ``TIMESTAMP '…'``; None for anything else."""
    if not (isinstance(node.this, exp.Literal) and node.this.is_string):
        return None
    text = str(node.this.this)
    if node.to.this == exp.DType.DATE:
        return functions.typed(Literal(text, UNKNOWN), _DATE)
    found = _WRITTEN_MOMENT.fullmatch(text)
    if node.to.this == exp.DType.TIMESTAMPTZ and found is not None:
        digits = len(found[1] or "")
        return Literal(text, SqlType(DATETIME, f"datetime({digits})" if digits else "datetime"))
    return None


def as_date(moment: Scalar) -> Scalar:
    """``CAST(moment AS DATE)``."""
    return called("DATE", (_moment("A cast to a date", moment),), _DATE)


def extract(binder: Binder, node: Any) -> Scalar:
    """``EXTRACT(field FROM moment)``."""
    name = {"DAY": "DAYOFMONTH"}.get(field := str(node.this.name).upper(), field)
    if name not in _FIELDS:
        raise UnsupportedQuery(f"EXTRACT of {field} is not on the list of exact functions.")
    return called(name, (_moment("EXTRACT", binder.bind(node.expression)),), INT8)


#: Functions whose arguments are no expressions.
WRITTEN = {
    **dict.fromkeys(("date_add", "adddate"), lambda binder, node: _date_sum("DATE_ADD", binder, node)),
    **dict.fromkeys(("date_sub", "subdate"), lambda binder, node: _date_sum("DATE_SUB", binder, node)),
    "timestampdiff": difference,
}
#: Least and most arguments, and the meaning.
MOMENTS: dict[str, tuple[int, int, Compute]] = {
    **{
        name.lower(): (1, 1, _of_moments(name, INT8))
        for name in (*_FIELDS, "DAYOFWEEK", "WEEKDAY", "DAYOFYEAR", "TO_DAYS")
    },
    "week": (2, 2, _week("WEEK")),
    "yearweek": (1, 2, _week("YEARWEEK")),
    "day": (1, 1, _of_moments("DAYOFMONTH", INT8)),
    "date": (1, 1, _of_moments("DATE", _DATE)),
    "last_day": (1, 1, _of_moments("LAST_DAY", _DATE)),
    "datediff": (2, 2, _difference("DATEDIFF")),
    "date_format": (2, 2, _date_format),
}

__all__ = ["MOMENTS", "WRITTEN", "as_date", "extract", "literal", "shifted"]
