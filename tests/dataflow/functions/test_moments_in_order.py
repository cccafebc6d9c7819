"""Dates and timestamps compare as the upstream orders them, at any length of the year."""

import pytest

from dataflow.evaluate import compile_scalar
from dataflow.scalar import Call, ColumnRef
from dataflow.schema import SqlType

DATES = (
    "-infinity",
    "4713-01-01 BC",
    "0001-12-31 BC",
    "0001-01-01",
    "0099-01-01",
    "2024-01-01",
    "9999-12-31",
    "10000-01-01",
    "5874897-01-01",
    "infinity",
)
TIMESTAMPS = (
    "-infinity",
    "4713-01-01 00:00:00 BC",
    "0001-12-31 23:00:00 BC",
    "0001-01-01 00:00:00",
    "2024-01-01 00:00:00",
    "2024-01-01 00:00:00.5",
    "2024-01-01 00:00:00.55",
    "2024-01-01 00:00:00.6",
    "2024-01-01 00:00:01",
    "9999-12-31 23:59:59.999999",
    "10000-01-01 00:00:00",
    "294276-01-01 00:00:00",
    "infinity",
)
ZONED = tuple(t if "infinity" in t else t.removesuffix(" BC") + "+00" + " BC" * t.endswith("BC") for t in TIMESTAMPS)


@pytest.mark.parametrize(("name", "ascending"), [("date", DATES), ("timestamp", TIMESTAMPS), ("timestamptz", ZONED)])
def test_of_any_year(name: str, ascending: tuple[str, ...]) -> None:
    moment = SqlType(name, name)
    less = compile_scalar(Call("<", (ColumnRef(0, moment), ColumnRef(1, moment)), SqlType("bool", "bool")))
    for i, a in enumerate(ascending):
        assert [less((a, b)) for b in ascending] == ["t" if i < j else "f" for j in range(len(ascending))]
