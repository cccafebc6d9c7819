"""Values of GENERATE_SERIES (PostgreSQL manual, 9.26 "Set Returning Functions").

``series_value(start, end, step, place)`` is the value at a place of a series, counted from 0; NULL behind the last one.
It is not a function of the upstream's: it is what the rows of a series of parameters are computed by
(`sql.row_functions`).
"""

from functools import lru_cache
from math import inf

from dataflow.errors import EvaluationError
from dataflow.functions import moments
from dataflow.functions.compiler import Compile, Compiler, Function
from dataflow.functions.dates import moved
from dataflow.functions.moments import DAY_US, INFINITIES
from dataflow.scalar import Call
from dataflow.types import Row

#: The days of a leap year.
MOST_ROWS = 366
SERIES_VALUE = "series_value"
_TOO_LONG = f"not computed: a series of more than {MOST_ROWS} rows"
_ZERO = "step size cannot equal zero"
#: Longer texts of a step are not remembered.
_MOST_CHARACTERS = 100


def series(kind: str, start: str, end: str, step: str) -> tuple[str, ...]:
    """The values of a series of a type: ``int4``, ``int8``, ``timestamp`` or ``timestamptz``, the last two by an
    interval. EvaluationError if it has more than `MOST_ROWS`, as if it has no end."""
    short = max(map(len, (start, end, step))) <= _MOST_CHARACTERS
    return (_remembered if short else _series)(kind, start, end, step)


def _series(kind: str, start: str, end: str, step: str) -> tuple[str, ...]:
    return _numbers(int(start), int(end), int(step)) if kind.startswith("int") else _moments(kind, start, end, step)


_remembered = lru_cache(maxsize=64)(_series)


def _numbers(start: int, end: int, step: int) -> tuple[str, ...]:
    if not step:
        raise EvaluationError(_ZERO)
    if (end - start) // step >= MOST_ROWS:
        raise EvaluationError(_TOO_LONG)
    return tuple(map(str, range(start, end + (1 if step > 0 else -1), step)))


def _moments(kind: str, start: str, end: str, step: str) -> tuple[str, ...]:
    """Each value is that before it and a step, as the server adds them: the last days of months stay shortened."""
    interval = moments.interval(step)
    if isinstance(interval, str):
        raise EvaluationError("step size cannot be infinite")
    months, days, microseconds = interval
    size = (months * 30 + days) * DAY_US + microseconds
    if not size:
        raise EvaluationError(_ZERO)
    sign = 1 if size > 0 else -1
    value, last, values = start, sign * _moment(end), list[str]()
    while sign * _moment(value) <= last:
        if len(values) == MOST_ROWS:
            raise EvaluationError(_TOO_LONG)
        values.append(value)
        value = moved(value, interval, kind)
    return tuple(values)


def _moment(text: str) -> float:
    return (inf if text == "infinity" else -inf) if text in INFINITIES else moments.microseconds(text)


def _series_value(call: Call, compile_: Compile) -> Function:
    kind = call.type.name
    start, end, step, place = (compile_.scalar(a) for a in call.arguments)

    def function(row: Row) -> str | None:
        a, b, c, d = start(row), end(row), step(row), place(row)
        if a is None or b is None or c is None or d is None:
            return None
        values, at = series(kind, a, b, c), int(d)
        return values[at] if at < len(values) else None

    return function


COMPILERS: dict[str, Compiler] = {SERIES_VALUE: _series_value}
