"""The state of STRING_AGG, ARRAY_AGG, the JSON aggregates and ordered-set aggregates: a histogram of rows of their
columns, sorted once somebody has asked for the list.

A list's columns are its argument, further arguments and ORDER BY expressions, each once. Where ORDER BY leaves a choice
(all of it, if there is none) the columns' texts decide, so that a list depends on its rows alone. DISTINCT without
ORDER BY sorts by the arguments, as the upstream happens to do.

Not here: how values are written in arrays and JSON (`functions.arrays`, `functions.json_constructors`); percentiles
(`aggregate_ordered_sets`).
"""

from bisect import bisect_left, insort
from collections.abc import Callable, Iterator, Sequence
from sys import getsizeof

from dataflow.bounds import bounded
from dataflow.errors import EvaluationError
from dataflow.functions import arrays, mysql_json
from dataflow.functions.json_constructors import json_key, json_text, jsonb_object, jsonb_text, plain
from dataflow.json_documents import quoted
from dataflow.ops.aggregate_ordered_sets import ORDERED_SETS
from dataflow.plan.calls import list_columns
from dataflow.plan.nodes import AggregateCall, AggregateFunction, OrderTerm
from dataflow.scalar import Literal
from dataflow.schema import SqlType
from dataflow.sizing import row_bytes
from dataflow.state.index import key_function
from dataflow.state.ordering import Ordering
from dataflow.types import Key, Row, Value

#: Makes the text of a list that is not empty.
Printer = Callable[[Sequence[Row]], Value]

_SKIPPING_NULLS = frozenset({AggregateFunction.STRING_AGG, AggregateFunction.JSON_OBJECTAGG, *ORDERED_SETS})
#: About what an accumulator's object takes; what a place in order takes, but for the texts.
_FIXED, _PLACE_BYTES = 112, 110


class ValueList:
    """The rows of one group's list."""

    __slots__ = ("_changed", "_kind", "_result", "_row_bytes", "_sorted", "rows")
    recorded: tuple[str, ...] = ("rows", "_row_bytes")
    grows = True

    def __init__(self, kind: "ListKind") -> None:
        self._kind = kind
        #: row of the columns -> count; no count is zero.
        self.rows: dict[Row, int] = {}
        #: What the rows take.
        self._row_bytes = 0
        #: Places and rows in order, once the list was asked for.
        self._sorted: list[tuple[bytes, Row]] | None = None
        self._result: Value = None
        self._changed = False

    @property
    def width(self) -> int:
        """The columns and their number."""
        return self._kind.width + 1

    def add(self, row: Row, times: int) -> None:
        if row[0] is None and self._kind.skips_nulls:
            return
        before = self.rows.get(row, 0)
        after = before + times
        if after:
            self.rows[row] = after
        else:
            self.rows.pop(row, None)
        if not before or not after:
            self._row_bytes += row_bytes(row) * (bool(after) - bool(before))
        self._changed = True
        if self._sorted is not None and (before > 0) != (after > 0):
            self._move(self._sorted, row, after > 0)

    def _move(self, ordered: list[tuple[bytes, Row]], row: Row, comes: bool) -> None:
        entry = (self._kind.place(row), row)
        if comes:
            insort(ordered, entry, key=_place)
        else:
            del ordered[bisect_left(ordered, entry[0], key=_place)]

    def outdated(self) -> None:
        """The rows were replaced by others: the list is made anew when it is asked for."""
        self._sorted, self._changed = None, True

    def merge(self, partial: Sequence[Value]) -> None:
        if count := int(partial[-1] or 0):
            self.add(tuple(partial[:-1]), count)

    def result(self) -> Value:
        if self._changed:
            if self._sorted is None:
                place = self._kind.place
                self._sorted = sorted([(place(row), row) for row, count in self.rows.items() if count > 0], key=_place)
            bounded(sum([count * sum([len(v) for v in row if v]) for row, count in self.rows.items()]))
            listed = list(self._listed(self._sorted))
            self._result = self._kind.print(listed) if listed else None
            self._changed = False
        return self._result

    def state_bytes(self) -> int:
        total = _FIXED + getsizeof(self.rows) + self._row_bytes
        if self._sorted is not None:
            # A place has the row's texts in it.
            total += getsizeof(self._sorted) + len(self._sorted) * _PLACE_BYTES + self._row_bytes // 4
        return total

    def _listed(self, ordered: list[tuple[bytes, Row]]) -> Iterator[Row]:
        key_of = self._kind.key_of
        if key_of is None:
            for _, row in ordered:
                for _ in range(self.rows[row]):
                    yield row
            return
        seen: set[Key] = set()
        for _, row in ordered:
            key = key_of(row)
            if key not in seen:
                seen.add(key)
                yield row


def _place(entry: tuple[bytes, Row]) -> bytes:
    return entry[0]


class ListKind:
    """The compiled parts of a call, shared by its groups."""

    __slots__ = ("_ordering", "key_of", "print", "skips_nulls", "width")

    def __init__(self, call: AggregateCall) -> None:
        """ValueError if the call is not computed exactly."""
        columns = list_columns(call)
        types = [column.type for column in columns]
        places = {column: i for i, column in enumerate(columns)}
        self.width = len(columns)
        self.skips_nulls = call.function in _SKIPPING_NULLS
        self.print: Printer = _printer(call, [places[other] for other in call.others])
        order = [OrderTerm(places[t.expression], t.descending, t.nulls_first) for t in call.order]
        arguments = tuple(dict.fromkeys((0, *(places[other] for other in call.others))))
        #: By the arguments, for DISTINCT.
        self.key_of: Callable[[Row], Key] | None = None
        if call.distinct:
            if not all(types[c].comparable for c in arguments):
                raise ValueError(
                    f"DISTINCT of {types[0].sql} is not maintained incrementally: its equality is not computed"
                )
            self.key_of = key_function(arguments, types)
            order += [OrderTerm(c) for c in arguments if types[c].orderable]
        self._ordering = Ordering(order, types)

    def place(self, row: Row) -> bytes:
        """Returns a row's place in the list; no two rows have the same."""
        return self._ordering.place_of_row(row) + repr(row).encode()


# --- printing -------------------------------------------------------------------------------------------------------


def _printer(call: AggregateCall, others: list[int]) -> Printer:
    assert call.argument is not None
    argument = call.argument.type
    ordered_set = ORDERED_SETS.get(call.function)
    if ordered_set is not None:
        return ordered_set(*_numbers(call))
    match call.function:
        case AggregateFunction.STRING_AGG:
            return _joined_bytes(others) if argument.is_bytes else _joined_text(others)
        case AggregateFunction.ARRAY_AGG:
            _check_element(argument)
            return lambda rows: arrays.render([row[0] for row in rows])
        case AggregateFunction.JSON_AGG:
            # The server begins a line for each array behind the first element.
            return _json_array(json_text(argument), "\n " if argument.kind == "array" else "")
        case AggregateFunction.JSONB_AGG:
            return _json_array(jsonb_text(argument), "")
        case AggregateFunction.JSON_OBJECT_AGG:
            return _json_object(argument, call.others[0].type, others[0])
        case AggregateFunction.JSONB_OBJECT_AGG:
            return _jsonb_object(argument, call.others[0].type, others[0])
        case AggregateFunction.JSON_ARRAYAGG:
            element = mysql_json.element(argument)
            return lambda rows: mysql_json.array_of([element(row[0]) for row in rows])
        case AggregateFunction.JSON_OBJECTAGG:
            value = mysql_json.element(call.others[0].type)
            return lambda rows: mysql_json.object_of([(row[0] or "", value(row[others[0]])) for row in rows])
        case _:
            raise ValueError(f"{call.function} is not an aggregate of a list")


def _numbers(call: AggregateCall) -> list[float]:
    """The constants behind the argument."""
    return [float(other.value or 0) for other in call.others if isinstance(other, Literal)]


def _joined_text(others: list[int]) -> Printer:
    """Each value but the first behind its own separator; a NULL one is empty."""

    def printed(rows: Sequence[Row]) -> Value:
        parts = [rows[0][0] or ""]
        for row in rows[1:]:
            parts += [row[other] or "" for other in others]
            parts.append(row[0] or "")
        return "".join(parts)

    return printed


def _joined_bytes(others: list[int]) -> Printer:
    text = _joined_text(others)

    def printed(rows: Sequence[Row]) -> Value:
        # Without the leading \x of each.
        return "\\x" + (text([tuple([value and value[2:] for value in row]) for row in rows]) or "")

    return printed


def _json_array(text: Callable[[str], str], before: str) -> Printer:
    def printed(rows: Sequence[Row]) -> Value:
        elements = ["null" if row[0] is None else before + text(row[0]) for row in rows]
        return "[" + ", ".join(elements).removeprefix(before) + "]"

    return printed


def _check_element(sql_type: SqlType) -> None:
    """ValueError if arrays of that type are not made here."""
    if sql_type.kind == "array" or not plain(sql_type):
        # Arrays become dimensions; of other types the separator may not be a comma (box), or a cast to text may say
        # something else than what is printed.
        raise ValueError(f"arrays of {sql_type.sql} are not maintained incrementally")


def _json_pairs(key_type: SqlType, value: Callable[[str], str], at: int) -> Callable[[Row], tuple[str, str]]:
    key = json_key(key_type)

    def pair(row: Row) -> tuple[str, str]:
        name, found = row[0], row[at]
        if name is None:
            raise EvaluationError("field name must not be null")
        return key(name), "null" if found is None else value(found)

    return pair


def _json_object(key_type: SqlType, value_type: SqlType, at: int) -> Printer:
    pair = _json_pairs(key_type, json_text(value_type), at)
    return lambda rows: "{ " + ", ".join([f"{quoted(k)} : {value}" for k, value in map(pair, rows)]) + " }"


def _jsonb_object(key_type: SqlType, value_type: SqlType, at: int) -> Printer:
    """Builds an object: the last of equal keys counts, and the shortest key comes first."""
    pair = _json_pairs(key_type, jsonb_text(value_type), at)
    return lambda rows: jsonb_object(dict(map(pair, rows)))
