"""Lists of objects, cached one by one."""

import pytest

from load.peers.objects import of_one, reads_of_each, together
from load.site import SiteView


def test_a_list_of_objects_is_many_views_of_one() -> None:
    view = SiteView("users", "SELECT users.* FROM users WHERE users.id in ( :ids ) AND x = 1", {"ids": "bigint[]"})
    sql = "SELECT users.* FROM users WHERE users.id = :ids AND x = 1"
    assert of_one(view) == SiteView("users[]", sql, {"ids": "bigint"})
    assert reads_of_each("users", (("7", "8", "7"),)) == [("users[]", ("7",)), ("users[]", ("8",))]


@pytest.mark.parametrize(
    ("where", "parameters"),
    [
        ("id = :id", {"id": "bigint"}),
        ("id IN (:ids) AND x = :x", {"ids": "bigint[]", "x": "text"}),
        ("id NOT IN (:ids)", {"ids": "bigint[]"}),
        ("id IN (:ids) OR x", {"ids": "bigint[]"}),
        ("id IN (:ids) AND y IN (:ids)", {"ids": "bigint[]"}),
        ("id = ANY (:ids)", {"ids": "bigint[]"}),
        ("id IN (:ids) ORDER BY id", {"ids": "bigint[]"}),
        ("id IN (:ids) LIMIT 3", {"ids": "bigint[]"}),
        ("id IN (:ids) GROUP BY id", {"ids": "bigint[]"}),
        ("EXISTS (SELECT 1 FROM b WHERE b.id IN (:ids))", {"ids": "bigint[]"}),
    ],
)
def test_other_views_are_kept_as_they_are(where: str, parameters: dict[str, str]) -> None:
    assert of_one(SiteView("v", f"SELECT id FROM t WHERE {where}", parameters)) is None


def test_rows_are_put_together() -> None:
    assert together([b'[{"a":1},{"a":2}]', b"[]", b'[{"a":3}]']) == b'[{"a":1},{"a":2},{"a":3}]'
    assert together([b"[]"]) == together([]) == b"[]"
