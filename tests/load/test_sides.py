"""Every side answers a small site's reads with the same rows, before and after its writes."""

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from load.sides.direct import direct
from load.sides.postgres import running_upstream
from load.sides.side import Side, StartSide, Upstream
from load.sides.upquery import upquery
from tests.load.small_site import SITE, STORIES, load_rows

pytestmark = pytest.mark.postgres

READS: list[tuple[str, dict[str, Any]]] = [
    ("story_with_votes", {"id": 3}),
    ("story_with_votes", {"id": 404}),
    ("stories_by_id", {"ids": [1, 2, 19, 404]}),
    ("stories_of", {"author": "o'brien"}),
    ("stories_of", {"author": 'no: "body'}),
    ("newest", {}),
    ("has_voted", {"user": 2, "story": 3}),
    ("has_voted", {"user": 9, "story": 3}),
    ("story_with_votes", {"id": STORIES + 1}),
]
WRITES: list[tuple[str, dict[str, Any]]] = [
    ("vote", {"user": 9, "story": 3}),
    ("submit", {"id": STORIES + 1, "title": 'new, "it" says', "author": "o'brien", "user": 2}),
]
SIDES: dict[str, StartSide] = {
    "direct": direct,
    "upquery": upquery(memory="64MiB"),
}


class Visitor:
    """Reads and writes at a side. Reads are as new as the visitor's last write."""

    def __init__(self, side: Side) -> None:
        self._side = side
        self._client = httpx.Client(timeout=30)
        self._newer: dict[str, str] = {}

    def get(self, view: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        reply = self._client.get(f"{self._side.reads_url}/v1/views/{view}", params=parameters, headers=self._newer)
        return _ordered(view, reply.raise_for_status().json()["rows"])

    def read(self, reads: list[tuple[str, dict[str, Any]]]) -> list[list[dict[str, Any]]]:
        body = {"reads": [{"view": view, "params": parameters} for view, parameters in reads]}
        results = self._post(self._side.reads_url, "/v1/read", body)["results"]
        return [_ordered(view, result["rows"]) for (view, _), result in zip(reads, results, strict=True)]

    def query(self, view: str, keys: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
        results = self._post(self._side.reads_url, f"/v1/views/{view}/query", {"keys": keys})["results"]
        return [_ordered(view, result["rows"]) for result in results]

    def write(self, name: str, parameters: dict[str, Any]) -> None:
        version = self._post(self._side.writes_url, f"/writes/{name}", parameters)["version"]
        self._newer = {"upquery-min-version": version, "prefer": "wait=5"}

    def _post(self, base: str, path: str, body: Any) -> dict[str, Any]:
        reply = self._client.post(base + path, json=body, headers=self._newer)
        document: dict[str, Any] = reply.raise_for_status().json()
        return document


def _ordered(view: str, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The rows; those of a view without an order in one of ours."""
    return sorted(rows, key=lambda row: int(row["id"])) if view == "stories_by_id" else rows


@pytest.fixture
def upstream() -> Iterator[Upstream]:
    with running_upstream(SITE, load_rows) as running:
        yield running


def everything(side: Side) -> list[Any]:
    """What a side says to all reads, asked for in all ways, which must agree."""
    visitor = Visitor(side)
    one_by_one = [visitor.get(view, parameters) for view, parameters in READS]
    assert visitor.read(READS) == one_by_one
    keys = [parameters for view, parameters in READS if view == "story_with_votes"]
    expected = [rows for (view, _), rows in zip(READS, one_by_one, strict=True) if view == "story_with_votes"]
    assert visitor.query("story_with_votes", keys) == expected
    return one_by_one


@pytest.mark.parametrize("name", SIDES)
def test_a_side_answers_as_the_database_does(name: str, upstream: Upstream) -> None:
    with direct(upstream, SITE) as truth, SIDES[name](upstream, SITE) as side:
        assert everything(side) == everything(truth)
        visitor = Visitor(side)
        for write, parameters in WRITES:
            visitor.write(write, parameters)
        assert visitor.read(READS) == everything(truth)
        side.flush()
        assert visitor.read(READS) == everything(truth)
        _takes_memory(side)


def _takes_memory(side: Side) -> None:
    assert side.resident_bytes() > 1 << 20
    assert side.state_bytes() >= 0
    assert len(side.pids()) > 1


def test_the_rows_are_in_the_contracts_form(upstream: Upstream) -> None:
    with direct(upstream, SITE) as side:
        (row,) = Visitor(side).get("stories_by_id", {"ids": [2]})
    assert row == {
        "id": 2,
        "title": "story 2",
        "author": "ann",
        "created_at": "2024-01-01T02:00:01",
        "seen_at": "2024-01-01T00:00:02Z",
        "hotness": "0.2857142857",
        "is_hidden": False,
    }


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/views/nothing", 404),
        ("/v1/views/story_with_votes", 422),
        ("/v1/views/story_with_votes?id=x", 422),
        ("/v1/views/story_with_votes?id=1&more=2", 422),
    ],
)
def test_what_cannot_be_read_is_refused(path: str, status: int, upstream: Upstream) -> None:
    with direct(upstream, SITE) as side:
        assert httpx.get(side.reads_url + path).status_code == status
