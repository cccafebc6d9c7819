"""Views are replaced while they are read: no answer is missing, mixed, or of parameters that were meant otherwise."""

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from dataflow.engine.outstanding import CROSSED
from tests.fixtures.postgres import Database
from tests.fixtures.service import RunningService, running_service, until

pytestmark = pytest.mark.postgres

#: The same rows in other columns; as a whole; by text, to which 07 is not 7, and run again when they change.
VARIANTS: list[tuple[set[str], dict[str, Any]]] = [
    ({"id", "n"}, {"sql": "SELECT id, n FROM stories WHERE id = :id"}),
    ({"id", "n", "title"}, {"sql": "SELECT id, n, title FROM stories WHERE id = :id"}),
    ({"id", "n", "whole"}, {"sql": "SELECT id, n, 1 AS whole FROM stories WHERE id = :id", "materialization": "full"}),
    ({"id", "n", "t"}, {"sql": "SELECT id, n, 't' AS t FROM stories WHERE id::text = :id", "tier": "refresh"}),
]
COLUMNS = [columns for columns, _ in VARIANTS]


@pytest.fixture
def service(database: Database, tmp_path: Path) -> Iterator[RunningService]:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, n int NOT NULL, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 0, 'title ' || i FROM generate_series(1, 500) i",
    )
    views = {"configured": "SELECT id, n FROM stories WHERE id = :id"}
    with running_service(tmp_path / "service", database.url, views, http={"workers": 2}) as running:
        yield running


class Reader(threading.Thread):
    """Reads until it is told to stop, and notes what must not be."""

    def __init__(self, service: RunningService, stop: threading.Event, id_: str, batch: bool) -> None:
        super().__init__(daemon=True)
        self._url, self._ended, self._id, self._batch = service.http, stop, id_, batch
        self.answers = 0
        self.shapes: set[frozenset[str]] = set()
        self.wrong: list[str] = []

    def run(self) -> None:
        with httpx.Client(base_url=self._url, timeout=30) as client:
            headers: dict[str, str] = {"Prefer": "wait=20"}
            last = 0
            while not self._ended.is_set() and not self.wrong:
                response = self._ask(client, headers)
                if response.status_code == 503 and CROSSED in response.text:
                    # Each of a bounded number of fallbacks met a write, which has nothing to do with the replacing.
                    continue
                if response.status_code != 200:
                    self.wrong.append(f"{response.status_code} {response.text}")
                    break
                body = response.json()
                last = self._check(body["results"][0]["rows"] if self._batch else body["rows"], last)
                # What was seen once is not taken back, whichever view the name means and whichever worker answers.
                headers["Upquery-Min-Version"] = body["version"]
                self.answers += 1

    def _ask(self, client: httpx.Client, headers: dict[str, str]) -> httpx.Response:
        if self._batch:
            return client.post("/v1/views/story/query", json={"keys": [{"id": self._id}]}, headers=headers)
        return client.get("/v1/views/story", params={"id": self._id}, headers=headers)

    def _check(self, rows: list[dict[str, Any]], last: int) -> int:
        if not rows and self._id == "07":
            self.shapes.add(frozenset())
            return last
        (row,) = rows
        self.shapes.add(frozenset(row))
        by_text = "t" in row
        if set(row) not in COLUMNS or row["id"] != int(self._id) or row["n"] < last or (by_text and self._id == "07"):
            self.wrong.append(f"{row} after n = {last}")
        return int(row["n"])


def test_nobody_notices_but_by_the_columns(service: RunningService, database: Database) -> None:
    def put(n: int) -> None:
        columns, body = VARIANTS[n % len(VARIANTS)]
        response = service.call("PUT", "/v1/catalog/views/story", json=body)
        assert response.status_code in (200, 201, 202), response.text
        until(lambda: not service.view("story")["replacing"])
        assert {column["name"] for column in service.view("story")["columns"]} == columns
        database.execute("UPDATE stories SET n = n + 1 WHERE id < 50")

    put(0)
    stop = threading.Event()
    readers = [Reader(service, stop, id_, batch) for id_, batch in (("7", False), ("7", True), ("07", False))]
    for reader in readers:
        reader.start()
    for n in range(1, 13):
        put(n)
    stop.set()
    for reader in readers:
        reader.join(30)
        assert reader.wrong == []
        assert reader.answers > 20
    assert {frozenset(columns) for columns in COLUMNS} <= readers[0].shapes


def test_conflicts(service: RunningService) -> None:
    configured = service.put("configured", "SELECT 1 AS one")
    assert (configured.status_code, configured.json()["code"]) == (409, "view_exists")
    assert service.call("DELETE", "/v1/catalog/views/configured").status_code == 409
    assert service.put("base", "SELECT id, n FROM stories WHERE n > 0").status_code in (201, 202)
    assert service.put("reader", "SELECT id FROM base WHERE id = :id").status_code in (201, 202)
    dropped = service.call("DELETE", "/v1/catalog/views/base")
    assert (dropped.status_code, dropped.json()["code"]) == (409, "view_in_use")
    # What the reader needs of it must stay.
    without = service.put("base", "SELECT n FROM stories WHERE n > 0")
    assert (without.status_code, without.json()["code"]) == (409, "view_in_use")
    assert service.put("base", "SELECT id, n FROM stories WHERE n > 0", **{"if-none-match": "*"}).status_code == 409
    assert service.rows("reader", id=7) == []
    assert service.call("DELETE", "/v1/catalog/views/reader").status_code == 204
    assert service.call("DELETE", "/v1/catalog/views/base").status_code == 204
