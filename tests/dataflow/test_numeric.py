"""Sums and averages print what PostgreSQL prints, of any number of digits."""

import random
from decimal import Decimal

import pytest

from dataflow import arithmetic, numeric
from dataflow.ops.aggregate_sums import NumericAverage, NumericSum
from tests.fixtures.in_time import in_time

#: As many as a numeric has before and behind the point.
LONGEST = "9" * 131_071 + "." + "8" * 16_000


@pytest.mark.parametrize("text", ["1.50", "-0.05", "7", "0.00", "-12.3", "100", LONGEST, "-" + LONGEST])
def test_parse_and_render_are_inverse(text: str) -> None:
    assert numeric.render(numeric.parse(text)) == text


@pytest.mark.parametrize(("unscaled", "scale", "text"), [(150, 2, "1.50"), (-5, 2, "-0.05"), (0, 3, "0.000")])
def test_scaled(unscaled: int, scale: int, text: str) -> None:
    assert numeric.render(numeric.scaled(unscaled, scale)) == text


@pytest.mark.postgres
def test_division_is_the_servers(connect) -> None:
    draw = random.Random(3)
    cases = [("0", 1), ("0.00000", 7), ("1", 3), ("2", 3), (str(10**30), 7), ("0." + "0" * 19 + "1", 9), ("9999", 9999)]
    for _ in range(2000):
        digits = draw.randint(1, 25)
        unscaled, scale = draw.randint(-(10**digits), 10**digits), draw.randint(0, 12)
        cases.append((numeric.render(numeric.scaled(unscaled, scale)), draw.randint(1, 10 ** draw.randint(1, 9))))
    rows = connect().execute(
        "SELECT (x::numeric / y::numeric)::text FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS t(x, y, n) "
        "ORDER BY n",
        ([x for x, _ in cases], [str(y) for _, y in cases]),
    )
    expected = [row[0] for row in rows.fetchall()]
    assert [numeric.divide(Decimal(x), numeric.scale_of(x), y) for x, y in cases] == expected


@pytest.mark.parametrize("digits", [5000, 100_000])
def test_long_numbers_are_summed(digits: int) -> None:
    total, average = NumericSum(), NumericAverage()
    with in_time():
        for value in ("9" * digits, "1.50"):
            total.add(value, 1)
            average.add(value, 1)
        assert total.result() == "1" + "0" * digits + ".50"
        assert average.result() == "5" + "0" * (digits - 1) + ".25"
        total.add("1.50", -1)
        assert total.result() == "9" * digits


@pytest.mark.parametrize(
    "function", [arithmetic.add, arithmetic.subtract, arithmetic.divide, arithmetic.modulo, arithmetic.whole_quotient]
)
def test_long_numbers_are_computed_in_time(function) -> None:
    with in_time():
        function(LONGEST, "7.0000001")
        function("9" * 131_071, "7" * 60_000)
