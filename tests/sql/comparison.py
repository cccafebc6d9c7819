"""Comparison of an answer over HTTP with those that PostgreSQL could give.

Rows are compared as JSON says them, numbers by their digits: both sides are rows of (name, value) pairs, where a number
is ``Number("1.0")``.

*Invariants*: whatever an option of the view does not allow to differ must be equal to the last digit.
"""

import json
import math
import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple
from unicodedata import combining, normalize

from tests.sql.corpus_file import CorpusView, Options

#: What the mean of floats may differ by: the upstream's own answer depends on the order in which it adds.
FLOAT_ULPS = 4
_ADDS_FLOATS = re.compile(r"\b(sum|avg)\s*\(", re.IGNORECASE)
_LIMIT = re.compile(r"\s+(limit|offset|fetch\s+first)\s+[^()]*$", re.IGNORECASE)

#: An ulp of single precision in ulps of double precision.
_SINGLE_ULP = 1 << 29

Row = tuple[tuple[str, Any], ...]
Close = Callable[[Row, Row], bool]


@dataclass(frozen=True, slots=True)
class Answer:
    """Rows, and which of their columns are of single precision."""

    rows: list[Row]
    singles: frozenset[str]


class Number(NamedTuple):
    """A JSON number, as it was written."""

    text: str


def parse(body: str | bytes) -> Any:
    """JSON with its numbers as written and objects as tuples of pairs, in order."""
    return json.loads(body, parse_float=Number, parse_int=Number, object_pairs_hook=tuple)


def is_ordered(sql: str) -> bool:
    """Return whether the statement itself has an ORDER BY."""
    return "order by" in _outermost(sql).lower()


def without_limit(sql: str) -> str | None:
    """The statement without its LIMIT and OFFSET; None if it has none."""
    if not re.search(r"\b(limit|offset|fetch)\b", _outermost(sql), re.IGNORECASE):
        return None
    return _LIMIT.sub("", sql)


def _outermost(sql: str) -> str:
    """Return the text outside of parentheses and strings."""
    depth, kept = 0, []
    for part in re.split(r"('(?:[^']|'')*'|[()])", sql):
        depth += {"(": 1, ")": -1}.get(part, 0)
        if not depth:
            kept.append(part)
    return re.sub(r"\s+", " ", "".join(kept))


def difference(
    view: CorpusView, found: Sequence[Row], expected: Answer, everything: Answer | None = None
) -> str | None:
    """Describe the error of `found`; None if there is none.

    `everything`: what the statement answers without LIMIT, of which ties may bring others than `expected`.
    """
    rows = expected.rows
    if view.options.shape:
        return None if len({_names(row) for row in (*found, *rows)}) < 2 else "other columns"
    if len(found) != len(rows):
        return f"{len(found)} rows instead of {len(rows)}"
    free = _free_values(view.options)
    ours, theirs = [free(row) for row in found], [free(row) for row in rows]
    if view.options.ties:
        possible = theirs if everything is None else [free(row) for row in everything.rows]
        return _difference_with_ties(view.options.ties, ours, theirs, possible)
    close = _close_rows(expected.singles) if _ADDS_FLOATS.search(view.sql) else operator.eq
    if is_ordered(view.sql):
        return _first_difference(ours, theirs, close)
    return _difference_of_bags(ours, theirs, close)


def _first_difference(ours: list[Row], theirs: list[Row], close: Close) -> str | None:
    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if a != b and not close(a, b):
            return f"row {number} is {show(a)} instead of {show(b)}"
    return None


def _difference_of_bags(ours: list[Row], theirs: list[Row], close: Close) -> str | None:
    extra, missing = _without(ours, theirs), _without(theirs, ours)
    for row in list(extra):
        partner = next((other for other in missing if close(row, other)), None)
        if partner is not None:
            missing.remove(partner)
            extra.remove(row)
    if not extra and not missing:
        return None
    return f"has {[show(row) for row in extra[:3]]} instead of {[show(row) for row in missing[:3]]}"


def _difference_with_ties(
    columns: tuple[str, ...], ours: list[Row], theirs: list[Row], possible: list[Row]
) -> str | None:
    def place(row: Row) -> list[Any]:
        return [value for name, value in row if name in columns]

    for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
        if place(a) != place(b):
            return f"row {number} is {show(a)}, where one like {show(b)} stands"
    wrong = _without(ours, possible)
    return f"there is no row {show(wrong[0])}" if wrong else None


def _without(rows: list[Row], others: list[Row]) -> list[Row]:
    """The rows that are not among the others, counted."""
    left = Counter(map(_hashable, others))
    result = []
    for row in rows:
        key = _hashable(row)
        if left[key]:
            left[key] -= 1
        else:
            result.append(row)
    return result


def _names(row: Row) -> tuple[str, ...]:
    return tuple(name for name, _ in row)


def _hashable(value: Any) -> Any:
    return tuple(map(_hashable, value)) if isinstance(value, list | tuple) and not isinstance(value, Number) else value


def show(row: Any) -> str:
    """A row for people."""
    return " ".join(f"{name}={_shown(value)}" for name, value in row)


def _shown(value: Any) -> str:
    return value.text if isinstance(value, Number) else repr(value)


def _free_values(options: Options) -> Callable[[Row], Row]:
    """Row -> the row with one form for all that the options allow."""

    def free(row: Row) -> Row:
        return tuple(
            (
                name,
                _any(value)
                if name in options.any
                else _alike(value)
                if name in options.alike
                else _bag(value)
                if name in options.bag
                else value,
            )
            for name, value in row
        )

    return free if options.any or options.alike or options.bag else lambda row: row


def _any(value: Any) -> Any:
    """One form for equal values."""
    if isinstance(value, list):
        return [_any(v) for v in value]
    if isinstance(value, Number):
        return float(value.text) + 0.0
    if isinstance(value, str):
        try:
            number = Decimal(value)
        except InvalidOperation:
            return value.rstrip(" ")
        return f"{number.normalize() + 0:f}" if number.is_finite() else value
    return value


def _alike(value: Any) -> Any:
    """One form for texts that differ in case, accents and spaces at their end."""
    if not isinstance(value, str):
        return value
    return "".join(c for c in normalize("NFD", value) if not combining(c)).casefold().rstrip(" ")


def _bag(value: Any) -> Any:
    """One form for lists with the same elements."""
    if isinstance(value, str):
        return sorted(value.split(","))
    return sorted(value, key=repr) if isinstance(value, list | tuple) else value


def _close_rows(singles: frozenset[str]) -> Close:
    """Return a comparison of two rows, which may differ in the last digits of floats."""

    def close(a: Row, b: Row) -> bool:
        return all(name == other and _close(x, y, name in singles) for (name, x), (other, y) in zip(a, b, strict=True))

    return close


def _close(a: Any, b: Any, single: bool) -> bool:
    if isinstance(a, Number) and isinstance(b, Number):
        return a == b or _close_floats(a.text, b.text, single)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(_close(x, y, single) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def _close_floats(a: str, b: str, single: bool) -> bool:
    if not any(c in ".eE" for c in a + b):
        return False
    x, y = float(a), float(b)
    ulp = math.ulp(max(abs(x), abs(y)))
    return abs(x - y) <= FLOAT_ULPS * ulp * (_SINGLE_ULP if single else 1)
