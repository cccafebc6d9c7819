"""Ranges, lists, LIMIT parameters, refreshed views and keys that are covered in part, over HTTP."""

import pytest

from dataflow.engine.effects import LeafEvict, LeafExtend
from dataflow.plan.parts import START, Cut, Interval
from tests.service.worker.conftest import LIMIT_ID, RANGE_ID, ROWS, Run, Service

ANN = sorted(ROWS["between", ("ann",)], key=lambda row: (-int(row[3] or 0), row[1]))


async def rows_of(service: Service, query: str) -> list[int]:
    answer = await service.http.get(f"/v1/views/{query}")
    assert answer.status_code == 200, answer.text
    return [row["id"] for row in answer.json()["rows"]]


def ids(rows: list[tuple[str | None, ...]]) -> list[int]:
    return [int(row[0] or 0) for row in rows]


def test_range(run: Run) -> None:
    async def test(service: Service) -> None:
        for least, below in ((1, 3), (0, 9), (2, 3), (-5, 0)):
            want = [row for row in ANN if least <= int(row[3] or 0) < below]
            assert await rows_of(service, f"between?author=ann&least={least}&below={below}") == ids(want)
        service.engine.reads.clear()
        # Nothing is between these; the engine need not know.
        for bounds in ("least=3&below=3", "least=3&below=1", "least:null&below=3"):
            assert await rows_of(service, f"between?author=nobody&{bounds}") == []
        assert not service.engine.reads
        first = await service.http.get("/v1/views/between?author=ann&least=1&below=3")
        headers = {"If-None-Match": first.headers["etag"]}
        for bounds, status in (("below=3&least=1", 304), ("below=2&least=1", 200)):
            again = await service.http.get(f"/v1/views/between?author=ann&{bounds}", headers=headers)
            assert again.status_code == status

    run(test)


def test_pages_of_a_range(run: Run) -> None:
    async def test(service: Service) -> None:
        query, seen = "between?author=ann&least=1&below=3&limit=2", list[int]()
        url = f"/v1/views/{query}"
        while url:
            page = await service.http.get(url)
            seen += [row["id"] for row in page.json()["rows"]]
            url = page.links["next"]["url"] if page.json()["next"] else ""
        assert seen == await rows_of(service, "between?author=ann&least=1&below=3")
        token = (await service.http.get(f"/v1/views/{query}")).json()["next"]
        for other in ("between?author=ann&least=0&below=3", "between?author=bob&least=1&below=3", "top?"):
            answer = await service.http.get(f"/v1/views/{other}&after={token}")
            assert (answer.status_code, answer.json()["code"]) == (422, "parameter_type")
            assert answer.json()["parameter"] == "after"

    run(test)


def test_what_is_covered_in_part_is_a_hit_where_it_suffices(run: Run) -> None:
    async def test(service: Service) -> None:
        top = Interval(START, Cut(("2",), behind=False))
        known = [row for row in ANN if row[3] == "3"]
        covered = [LeafExtend(view, ("ann",), known, (top,)) for view in (RANGE_ID, LIMIT_ID)]
        service.engine.commit(*covered)
        for query, want in (
            ("between?author=ann&least=3&below=9", 2),
            ("first?author=ann&n=2&m=0", 2),
            ("first?author=ann&n=1&m=1", 1),
            ("first?author=ann&n=5&m=0&limit=1", 1),
        ):
            answer = await service.http.get(f"/v1/views/{query}")
            assert answer.headers["cache-status"] == "upquery; hit"
            assert len(answer.json()["rows"]) == want
        assert not service.engine.reads
        for query in (
            "between?author=ann&least=2&below=9",
            "first?author=ann&n=2&m=1",
            "first?author=ann&n:null&m=0",
            "first?author=ann&n=5&m=0&limit=2",
        ):
            answer = await service.http.get(f"/v1/views/{query}")
            assert answer.headers["cache-status"] == "upquery; fwd=miss; stored"
            evicted = [LeafEvict(view, ("ann",)) for view in (RANGE_ID, LIMIT_ID)]
            service.engine.commit(*evicted, *covered)
        assert len(service.engine.reads) == 4

    run(test)


def test_list(run: Run) -> None:
    async def test(service: Service) -> None:
        both = await rows_of(service, "of_authors?authors=ann&authors=bob")
        assert both == await rows_of(service, "of_authors?authors=bob&authors=ann&authors=bob&authors:null")
        assert sorted(both) == [*range(10), 11]
        assert both[:3] == [3, 7, 11]
        assert await rows_of(service, "of_authors?authors:null") == []
        body = {"keys": [{"authors": ["bob"]}, {"authors": "bob"}, {"authors": []}, {"authors": [None, "bob", "bob"]}]}
        answer = (await service.http.post("/v1/views/of_authors/query", json=body)).json()
        assert [[row["id"] for row in result["rows"]] for result in answer["results"]] == [[11], [11], [], [11]]
        read = {"view": "of_authors", "params": {"authors": ["ann", "bob"]}, "limit": 4}
        page = (await service.http.post("/v1/read", json={"reads": [read]})).json()["results"][0]
        rest = {**read, "after": page["next"], "limit": 100}
        more = (await service.http.post("/v1/read", json={"reads": [rest]})).json()["results"][0]
        assert [row["id"] for row in page["rows"] + more["rows"]] == both

    run(test)


def test_limit_parameters(run: Run) -> None:
    async def test(service: Service) -> None:
        for n, m in ((3, 0), (3, 2), (0, 0), (100, 8), (2, 100)):
            assert await rows_of(service, f"first?author=ann&n={n}&m={m}") == ids(ANN)[m : m + n]
        assert await rows_of(service, "first?author=ann&n:null&m:null") == ids(ANN)
        assert await rows_of(service, "first?author:null&n=3&m=0") == []
        page = (await service.http.get("/v1/views/first?author=ann&n=5&m=2&limit=3")).json()
        rest = await rows_of(service, f"first?author=ann&n=5&m=2&limit=3&after={page['next']}")
        assert [row["id"] for row in page["rows"]] + rest == ids(ANN)[2:7]

    run(test)


def test_refreshed_view(run: Run) -> None:
    async def test(service: Service) -> None:
        # The upstream's order, and its rows for NULL; a list is one key, as it is given.
        for status in ("upquery; fwd=miss; stored", "upquery; hit", "upquery; hit"):
            answer = await service.http.get("/v1/views/refreshed?authors=b&authors=a&authors=b&votes:null")
            assert [row["title"] for row in answer.json()["rows"]] == ["z", "y", "z"]
            assert answer.headers["cache-status"] == status
        page = await service.http.get("/v1/views/refreshed?authors=b&authors=a&authors=b&votes:null&limit=2")
        rest = await service.http.get(page.links["next"]["url"])
        assert [row["title"] for row in page.json()["rows"] + rest.json()["rows"]] == ["z", "y", "z"]

    run(test)


@pytest.mark.parametrize(
    ("query", "status", "code", "parameter"),
    [
        ("between?author=ann&least=1", 422, "parameter_missing", "below"),
        ("between?author=ann&least=x&below=1", 422, "parameter_type", "least"),
        ("between?author=ann&least=1&least=2&below=1", 422, "parameter_type", "least"),
        ("of_authors", 422, "parameter_missing", "authors"),
        ("of_authors?" + "&".join(f"authors=a{n}" for n in range(21)), 413, "too_large", None),
        ("first?author=ann&n=-1&m=0", 422, "parameter_type", "n"),
        ("first?author=ann&n=1.5&m=0", 422, "parameter_type", "n"),
        ("first?author=ann&n=1", 422, "parameter_missing", "m"),
        ("first?author=ann&n=1&m=99999999999999999999", 422, "parameter_type", "m"),
    ],
)
def test_problems(run: Run, query: str, status: int, code: str, parameter: str | None) -> None:
    async def test(service: Service) -> None:
        answer = await service.http.get(f"/v1/views/{query}")
        problem = answer.json()
        assert (answer.status_code, problem["code"], problem.get("parameter")) == (status, code, parameter)
        assert not service.engine.reads

    run(test)


def test_lists_count_in_the_bound_of_a_batch(run: Run) -> None:
    async def test(service: Service) -> None:
        key = {"authors": [f"a{n}" for n in range(11)]}
        answer = await service.http.post("/v1/views/of_authors/query", json={"keys": [key, key]})
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")

    run(test)
