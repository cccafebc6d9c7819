"""Sums and averages print what PostgreSQL prints."""

import random

import pytest

from dataflow.ops import numeric


@pytest.mark.parametrize(
    ("text", "parsed"), [("1.50", (150, 2)), ("-0.05", (-5, 2)), ("7", (7, 0)), ("0.00", (0, 2)), ("-12.3", (-123, 1))]
)
def test_parse_and_render_are_inverse(text: str, parsed: tuple[int, int]) -> None:
    assert numeric.parse(text) == parsed
    assert numeric.render(*parsed) == text


@pytest.mark.postgres
def test_division_is_the_servers(connect) -> None:
    draw = random.Random(3)
    cases = [(0, 0, 1), (0, 5, 7), (1, 0, 3), (2, 0, 3), (10**30, 0, 7), (1, 20, 9), (9999, 0, 9999), (-5, 1, 3)]
    for _ in range(2000):
        digits = draw.randint(1, 25)
        cases.append(
            (draw.randint(-(10**digits), 10**digits), draw.randint(0, 12), draw.randint(1, 10 ** draw.randint(1, 9)))
        )
    rows = connect().execute(
        "SELECT (x::numeric / y::numeric)::text FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS t(x, y, n) "
        "ORDER BY n",
        ([numeric.render(u, s) for u, s, _ in cases], [str(d) for _, _, d in cases]),
    )
    expected = [row[0] for row in rows.fetchall()]
    assert [numeric.divide(*case) for case in cases] == expected
