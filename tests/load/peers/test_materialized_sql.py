"""A view with parameters as one relation."""

import pytest

from load.peers.materialized_sql import Materialized, UnsuitableError, materialized
from load.site import SiteView


def view(sql: str) -> SiteView:
    return SiteView("v", sql, {"id": "bigint", "ids": "bigint[]"})


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("SELECT a FROM t", Materialized("SELECT a FROM t", 0, (), (), "")),
        (
            "SELECT a FROM t WHERE t.id = :id AND b > 0",
            Materialized("SELECT a, t.id AS key_id FROM t WHERE b > 0", 1, ("key_id",), (), "WHERE key_id = :id"),
        ),
        (
            "SELECT id, a FROM t WHERE id IN (:ids) ORDER BY a DESC, b + 1",
            Materialized(
                "SELECT id, a, id AS key_ids, b + 1 AS order_1 FROM t",
                2,
                ("key_ids",),
                (),
                "WHERE key_ids IN (:ids) ORDER BY a DESC, order_1",
            ),
        ),
        (
            "SELECT s.id, COUNT(*) AS n FROM s WHERE :id = s.id GROUP BY s.id, s.x ORDER BY n",
            Materialized(
                "SELECT s.id, COUNT(*) AS n, s.id AS key_id, s.x AS group_1 FROM s GROUP BY s.id, s.x",
                2,
                ("key_id",),
                ("id", "group_1"),
                "WHERE key_id = :id ORDER BY n",
            ),
        ),
        (
            "SELECT x, COUNT(*) AS n FROM s WHERE id = :id GROUP BY x",
            Materialized(
                "SELECT x, COUNT(*) AS n, id AS key_id FROM s GROUP BY x, id",
                1,
                ("key_id",),
                ("x", "key_id"),
                "WHERE key_id = :id",
            ),
        ),
        (
            "SELECT id FROM s ORDER BY id LIMIT 3",
            Materialized("SELECT id FROM s ORDER BY id LIMIT 3", 0, (), (), "ORDER BY id"),
        ),
    ],
)
def test_parameters_become_columns(sql: str, expected: Materialized) -> None:
    assert materialized(view(sql)) == expected


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT a FROM t WHERE id > :id",
        "SELECT a FROM t WHERE id = :id OR b",
        "SELECT a FROM t WHERE id = :id LIMIT 5",
        "SELECT COUNT(*) FROM t WHERE id = :id",
        "SELECT a FROM t WHERE id = :id UNION SELECT 1",
        "SELECT a, row_number() OVER (ORDER BY b) FROM t WHERE id = :id",
    ],
)
def test_what_is_per_key_stays_a_query(sql: str) -> None:
    with pytest.raises(UnsuitableError):
        materialized(view(sql))
