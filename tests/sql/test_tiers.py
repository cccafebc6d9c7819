"""The table of tiers by shape."""

from collections import Counter

from tests.sql.tiers import table


def test_each_shape_is_a_row_with_its_numbers_on_each_database() -> None:
    found = table(
        {
            "PostgreSQL": {"joins": Counter(incremental=3, ttl=1), "lateral": Counter(refresh=2)},
            "MariaDB": {"joins": Counter(incremental=4)},
        }
    )
    assert [line.split() for line in found[2:]] == [
        ["joins", "4", "3", "0", "1", "75.0%", "4", "4", "0", "0", "100.0%"],
        ["lateral", "2", "0", "2", "0", "0.0%"],
        ["all", "6", "3", "2", "1", "50.0%", "4", "4", "0", "0", "100.0%"],
    ]
    assert found[0].split() == ["PostgreSQL", "MariaDB"]
