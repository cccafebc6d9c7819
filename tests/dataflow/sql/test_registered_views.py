"""Registered views that a text names."""

import pytest

from dataflow.schema import Catalog
from dataflow.sql.registered_views import expanded

LONG = "v" * 63


@pytest.mark.parametrize(
    ("dialect", "registered", "sql", "found"),
    [
        ("postgres", "mine", "SELECT * FROM mine", True),
        ("postgres", "mine", "SELECT * FROM MINE", True),
        ("postgres", "mine", 'SELECT * FROM "mine"', True),
        ("postgres", "mine", 'SELECT * FROM "Mine"', False),
        ("postgres", "mine", "SELECT 'mine' FROM others", False),
        pytest.param("postgres", LONG, f"SELECT * FROM {LONG}er", True, id="cut as the server cuts it"),
        ("mariadb", "Mine", "SELECT * FROM `Mine`", True),
        ("mariadb", "Mine", "SELECT 1 FROM others", False),
    ],
)
def test_what_is_named_is_put_in(dialect: str, registered: str, sql: str, found: bool) -> None:
    catalog = Catalog(registered={registered: "SELECT 1 AS one"}, dialect=dialect)
    assert expanded(sql, catalog).views == ({registered} if found else set())
    assert ("1 AS one" in expanded(sql, catalog).sql) == found
