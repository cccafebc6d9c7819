"""Weeks of the days around every kind of New Year, by every mode, against MariaDB."""

import pytest

from dataflow.functions.mysql_moments import MYSQL_MOMENTS
from tests.fixtures.mariadb import MariaDatabase

YEARS = (1, 2, 99, 100, 400, 1582, *range(1970, 2001), 2024, 2025, 9998, 9999)
DAYS = [f"{month:02}-{day:02}" for month, days in ((1, range(1, 16)), (6, [15]), (12, range(17, 32))) for day in days]
DATES = [f"{year:04}-{day}" for year in YEARS for day in DAYS] + ["2024-02-00", "2024-00-10", "0000-00-00"]
MODES = [*range(8), -1, 11]


@pytest.mark.mariadb
@pytest.mark.parametrize("name", ["WEEK", "YEARWEEK"])
def test_weeks_are_the_servers(mariadb: MariaDatabase, name: str) -> None:
    mariadb.execute("CREATE TABLE d (n int PRIMARY KEY, day date)", "SET sql_mode = ''")
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        cursor.executemany("INSERT INTO d VALUES (%s, %s)", list(enumerate(DATES)))
        connection.commit()
    function = MYSQL_MOMENTS[name][0].function
    assert function is not None
    for mode in MODES:
        found = [week for (week,) in mariadb.query(f"SELECT {name}(day, {mode}) FROM d ORDER BY n")]
        expected = [None if (week := function(date, str(mode))) is None else int(week) for date in DATES]
        assert [(d, a, b) for d, a, b in zip(DATES, expected, found, strict=True) if a != b] == []
