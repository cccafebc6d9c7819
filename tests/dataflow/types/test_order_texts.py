"""An order form back to a text: the text has that order form again, ascending and descending."""

import pytest

from dataflow.plan.nodes import OrderTerm
from dataflow.plan.parts import Cut
from dataflow.schema import SqlType
from dataflow.state.ordering import Ordering

_INTEGERS = ["0", "-1", "9223372036854775807", "-9223372036854775808"]
_NUMBERS = [
    "0",
    "1.00",
    "-1.5",
    "0.001",
    "-0.00100",
    "1e5",
    "1200",
    "123.456",
    "99999999999999999999.9",
    "-1234567890",
    "NaN",
    "Infinity",
    "-Infinity",
    "0.1",
]
_TIMES = ["2024-02-29 12:34:56.789", "0001-01-01 00:00:00 BC", "294276-12-31 23:59:59.999999", "infinity", "-infinity"]
_VALUES: dict[str, list[str]] = {
    "int8": _INTEGERS,
    "int2": ["7", "-7"],
    "oid": ["4294967295"],
    "numeric": [n for n in _NUMBERS if "e" not in n],
    "float8": [*_NUMBERS, "1e-300", "-1.7976931348623157e+308", "-0"],
    "float4": ["0.1", "3.4028235e+38", "-1e-45", "NaN"],
    "text": ["", "a", "ab", "ä\x01ö"],
    "varchar": ["x y"],
    "bpchar": ["ab  ", ""],
    "bool": ["t", "f"],
    "uuid": ["a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"],
    "bytea": ["\\x00ff"],
    "date": ["2024-02-29", "4714-11-24 BC", "infinity"],
    "time": ["00:00:00", "24:00:00", "01:02:03.04"],
    "timetz": ["01:02:03+02", "23:00:00.5-05:30", "00:00:00+00"],
    "timestamp": _TIMES,
    "timestamptz": ["2024-02-29 12:34:56.789+00", "0044-03-15 00:00:00+00 BC", "-infinity"],
    "interval": ["1 year 2 mons -3 days 04:05:06.7", "-00:00:01", "00:00:00", "178000000 years", "infinity"],
}
_ENUM = SqlType("mood", "mood", kind="enum", labels=("sad", "ok", "happy"))
_CASES = [(SqlType(n, n, collation="bytes"), text) for n, texts in _VALUES.items() for text in texts]
_CASES += [(_ENUM, label) for label in _ENUM.labels]


@pytest.mark.parametrize(("sql_type", "text"), _CASES)
def test_round_trip(sql_type: SqlType, text: str) -> None:
    form = sql_type.order_form
    found, length = sql_type.order_text(form(text) + b"rest\0\0")
    assert (form(found), length) == (form(text), len(form(text)))
    for descending in (False, True):
        ordering = Ordering((OrderTerm(1, descending), OrderTerm(0, nulls_first=True)), (sql_type, sql_type))
        for row in ((text, text), (None, text), (text, None), (None, None)):
            place = ordering.place_of_row(row)
            cut = ordering.cut_of_place(place)
            assert ordering.place(cut) == place
            assert (cut.values[0] is None, cut.values[1] is None) == (row[1] is None, row[0] is None)


def test_what_is_no_place_is_refused() -> None:
    ordering = Ordering((OrderTerm(0), OrderTerm(1, descending=True)), (SqlType("int8", "int8"), _ENUM))
    place = ordering.place_of_row(("7", "ok"))
    assert ordering.cut_of_place(place) == Cut(("7", "ok"), behind=False)
    for wrong in (b"", place[:-1], place + b"\0", b"\x03" + place[1:], place[:-1] + b"\x7f", b"\x01" * 40):
        with pytest.raises(ValueError, match="not the place"):
            ordering.cut_of_place(wrong)
