"""Lists that are one value of a key, over HTTP: in any order, empty, with NULL, evicted, and answered upstream."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, RunningService, running_service

STORIES = (
    "CREATE TABLE stories (id int PRIMARY KEY, section varchar(20))",
    "INSERT INTO stories VALUES (1, 'news'), (2, 'tech'), (3, 'a, b'), (4, NULL)",
)
VIEWS = {
    "hidden": "SELECT id FROM stories WHERE section NOT IN (:sections) ORDER BY id",
    "among": "SELECT count(*) AS id FROM stories WHERE id IN (:ids)",
    "forwarded": "SELECT id FROM stories WHERE section NOT IN (:sections) OR id IN (:ids) ORDER BY id",
}


@pytest.fixture(params=[pytest.param(name, marks=getattr(pytest.mark, name)) for name in ("postgres", "mariadb")])
def service(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[RunningService]:
    database: Database | MariaDatabase = request.getfixturevalue(
        "database" if request.param == "postgres" else "mariadb"
    )
    database.execute(*STORIES)
    with running_service(tmp_path, database.url, {name: VIEWS[name] for name in ("hidden", "among")}) as running:
        body = {"sql": VIEWS["forwarded"], "on_miss": "forward"}
        assert running.call("PUT", "/v1/catalog/views/forwarded", json=body).is_success
        assert {running.view(name)["tier"] for name in VIEWS} == {"incremental"}
        yield running


def answer(service: RunningService, view: str, **lists: list[Any]) -> dict[str, Any]:
    body = {"reads": [{"view": view, "params": lists}]}
    found: dict[str, Any] = HTTP.post(f"{service.http}/v1/read", json=body).json()
    return found


def ids(service: RunningService, view: str, **lists: list[Any]) -> list[int]:
    return [row["id"] for row in answer(service, view, **lists)["results"][0]["rows"]]


def test_lists_are_values(service: RunningService) -> None:
    assert ids(service, "hidden", sections=["tech", "a, b"]) == [1]
    assert service.hits("hidden", sections=["a, b", "tech", "a, b"])
    assert service.rows("hidden", sections=["a, b", "tech"]) == [{"id": 1}]
    assert ids(service, "hidden", sections=["news", None]) == []
    assert ids(service, "among", ids=[1, 2, 2, None, 9]) == [2]
    # Compared with none, a column is not among them; so it is where the database answers.
    assert ids(service, "among", ids=[]) == [0]
    assert ids(service, "hidden", sections=[]) == [1, 2, 3, 4]
    for sections, found in (([], [1, 2, 3, 4]), (["news", "a, b"], [1, 2]), ([None], [1])):
        assert ids(service, "forwarded", sections=sections, ids=[1]) == found
    assert ids(service, "forwarded", sections=["tech"], ids=[]) == [1, 3]

    assert service.rows("among", ids=[2, 1]) == [{"id": 2}]
    assert service.hits("among", ids=[1, 2])
    service.call("POST", "/v1/evict", json={"view": "among", "keys": [{"ids": "{1,2}"}]}).raise_for_status()
    assert not service.hits("among", ids=[1, 2])
    assert answer(service, "among", ids=list(range(1001)))["code"] == "too_large"
