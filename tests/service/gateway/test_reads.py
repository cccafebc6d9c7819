"""Single requests through a gateway: who is asked, what is passed on, what happens when pods go."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import orjson
import pytest

from dataflow.types import ViewId
from service.gateway.homes import home_of, replicas_of, slot_of
from service.gateway.opening import Gateway
from service.gateway.worker import GatewayWorkerConfig
from service.ground.errors import ApiError
from service.settings.auth import AuthSettings
from service.settings.gateway import GatewaySettings
from service.settings.sections import HttpSettings
from service.web.auth.tokens import entry_text
from service.web.messages import Headers
from service.worker.process import wrapped
from tests.service.gateway.conftest import HTTP, Run, Site, section_at, served_gateway
from tests.service.gateway.scripted import Client, Script, answering, response, scripted, until
from tests.service.leaf_store.sample_views import make_view
from tests.service.worker.shards.conftest import WHOLE


def id_at(shard: int, replica: int = 0, replicas: int = 1, after: int = 0, view: str = "story") -> int:
    """A key that lives there, of two shards."""
    return next(
        n
        for n in range(after + 1, 1000)
        if home_of(2, view, {"id": n}) == shard and replicas_of(slot_of(view, {"id": n}), replicas)[0] == replica
    )


def titles(answer: httpx.Response) -> list[str]:
    assert answer.status_code == 200, answer.text
    return [row["title"] for row in answer.json()["rows"]]


def test_a_key_is_asked_of_its_home(run: Run) -> None:
    async def test(site: Site) -> None:
        for shard in (0, 1, 1, 0):
            key = id_at(shard)
            assert titles(await site.http.get("/v1/views/story", params={"id": key})) == [f"Title {key}"]
        assert [len(engine.reads) for engine in site.engines] == [1, 1]
        assert site.gateway.counters.requests == {0: 2, 1: 2}

    run(test)


def test_an_answer_is_the_pod_s(run: Run) -> None:
    async def test(site: Site) -> None:
        url = f"/v1/views/story?id={id_at(1)}"
        async with httpx.AsyncClient() as direct:
            await site.http.get(url)
            own = await direct.get(site.pods[1][0].address + url)
        answer = await site.http.get(url)
        assert answer.content == own.content
        of_time = {"date", "server-timing", "upquery-age-ms", "age"}
        assert {k: v for k, v in answer.headers.items() if k not in of_time} == {
            k: v for k, v in own.headers.items() if k not in of_time
        }
        tag = answer.headers["etag"]
        unchanged = await site.http.get(url, headers={"if-none-match": tag})
        assert (unchanged.status_code, unchanged.content, unchanged.headers["etag"]) == (304, b"", tag)
        head = await site.http.head(url)
        assert (head.status_code, head.content) == (200, b"")
        assert head.headers["content-length"] == answer.headers["content-length"]
        assert site.pods[1][0].served.open_connections == 1

    run(test)


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("/v1/views/story", 422, "parameter_missing"),
        ("/v1/views/story?id=x", 422, "parameter_type"),
        ("/v1/views/stori?id=7", 404, "view_not_found"),
        ("/v1/nothing", 404, "not_found"),
        ("/v1/views/broken?id=7", 503, "view_broken"),
        ("/v1/views/building?id=7", 503, "view_building"),
    ],
)
def test_a_refusal_is_the_pod_s(run: Run, path: str, status: int, code: str) -> None:
    async def test(site: Site) -> None:
        answer = await site.http.get(path)
        assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert answer.headers["content-type"] == "application/problem+json"

    run(test)


def test_a_view_that_is_kept_whole_is_found(run: Run) -> None:
    async def test(site: Site) -> None:
        for _ in range(2):
            for shard, name in enumerate(WHOLE):
                assert titles(await site.http.get(f"/v1/views/{name}")) == [f"of {shard}"]
        before = sum(site.gateway.counters.requests.values())
        for name in WHOLE:
            await site.http.get(f"/v1/views/{name}")
        assert sum(site.gateway.counters.requests.values()) == before + len(WHOLE)
        assert (await site.http.head(f"/v1/views/{WHOLE[1]}")).status_code == 200

    run(test)


def test_documents_and_other_operations_are_the_first_shard_s(run: Run) -> None:
    async def test(site: Site) -> None:
        assert "/v1/views/story" in (await site.http.get("/openapi.json")).json()["paths"]
        assert (await site.http.post("/v1/checkpoint")).json()["version"].startswith("pg:")
        refused = await site.http.put("/v1/views/story")
        assert (refused.status_code, refused.json()["code"]) == (405, "method_not_allowed")
        assert set(site.gateway.counters.requests) == {0}

    run(test)


def test_a_body_that_is_too_large_is_refused(run: Run) -> None:
    async def test(site: Site) -> None:
        answer = await site.http.post("/v1/read", content=bytes(1 << 15))
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")

        async def pieces():  # type: ignore[no-untyped-def]
            for _ in range(32):
                yield bytes(1 << 10)

        answer = await site.http.post("/v1/read", content=pieces())
        assert (answer.status_code, answer.json()["code"]) == (413, "too_large")
        assert not site.gateway.counters.requests

    run(test)


def test_what_is_about_the_connection_ends_here(run: Run) -> None:
    async def test(site: Site) -> None:
        seen: list[Headers] = []
        pod = site.pods[1][0].served

        async def noted(scope, receive, send):  # type: ignore[no-untyped-def]
            seen.append(scope["headers"])
            await original(scope, receive, send)

        original, pod.app = pod.app, noted  # type: ignore[assignment]
        await pod.stop()
        await pod.start()
        await site.http.get(
            f"/v1/views/story?id={id_at(1)}",
            headers={
                "connection": "keep-alive, x-mine",
                "x-mine": "1",
                "x-forwarded-for": "10.0.0.1",
                "authorization": "Bearer t",
                "upquery-part": "1",
            },
        )
        passed = dict(seen[-1])
        assert passed[b"authorization"] == b"Bearer t"
        assert passed[b"x-forwarded-for"] == b"10.0.0.1, 127.0.0.1"
        assert not passed.keys() & {b"connection", b"x-mine", b"upquery-part"}

    run(test)


def test_keys_of_a_replica_that_goes_are_asked_of_the_next(run: Run) -> None:
    async def test(site: Site) -> None:
        keys = [id_at(1, replica, 2) for replica in (0, 1)]
        for _ in range(2):
            for key in keys:
                assert titles(await site.http.get(f"/v1/views/story?id={key}")) == [f"Title {key}"]
        assert [len(pod.engine.reads) for pod in site.pods[1]] == [1, 1]
        gone = site.pods[1][0]
        await gone.served.stop()
        for key in keys:
            assert titles(await site.http.get(f"/v1/views/story?id={key}")) == [f"Title {key}"]
        assert [len(pod.engine.reads) for pod in site.pods[1]] == [1, 2]
        assert site.gateway.topology.away == [gone.address]
        await gone.served.start()
        await until(lambda: not site.gateway.topology.away)
        assert "hit" in (await site.http.get(f"/v1/views/story?id={keys[0]}")).headers["cache-status"]
        assert [len(pod.engine.reads) for pod in site.pods[1]] == [1, 2]

    run(test, 2, 2)


def test_a_replica_whose_engine_is_gone_is_the_last_choice(run: Run) -> None:
    async def test(site: Site) -> None:
        key = id_at(0, 0, 2)
        await site.pods[0][0].server.close()
        assert titles(await site.http.get(f"/v1/views/story?id={key}")) == [f"Title {key}"]
        assert len(site.pods[0][1].engine.reads) == 1

    run(test, 2, 2)


def test_a_view_that_a_replica_was_not_given_yet_is_asked_of_the_next(run: Run) -> None:
    async def test(site: Site) -> None:
        key = id_at(1, 0, 2, view="fresh")
        engine = site.pods[1][1].engine
        engine.rows["fresh", (str(key),)] = engine.rows["story", (str(key),)]
        engine.writer.register(ViewId(103), make_view("fresh", {"id": 0}))
        engine.commit()
        assert (await site.http.head(f"/v1/views/fresh?id={key}")).status_code == 200
        assert titles(await site.http.get(f"/v1/views/fresh?id={key}")) == [f"Title {key}"]
        together = await site.http.post("/v1/views/fresh/query", json={"keys": [{"id": key}]})
        assert together.status_code == 200, together.text

    run(test, 2, 2)


@pytest.mark.parametrize(
    ("one", "other", "said"),
    [
        ("view_not_found", "view_building", "view_building"),
        ("view_building", "view_not_found", "view_building"),
        ("view_not_found", "engine_unavailable", "view_not_found"),
        ("engine_unavailable", "view_not_found", "view_not_found"),
    ],
)
def test_of_the_refusals_of_replicas_the_client_gets_the_one_that_says_most(one: str, other: str, said: str) -> None:
    def refusing(code: str) -> Script:
        status = b"404 Not Found" if code == "view_not_found" else b"503 Service Unavailable"
        refusal = response(orjson.dumps(ApiError(code, "No.").problem("/")), status)
        return answering(*[refusal] * 100)

    async def main() -> None:
        async with (
            scripted(refusing(one)) as first,
            scripted(refusing(other)) as second,
            served_gateway(section_at(((first.address, second.address),))) as (_, _, http),
        ):
            answer = await http.get(f"/v1/views/story?id={id_at(0, 0, 2)}")
            assert answer.json()["code"] == said
            assert [b"GET /v1/views/story" in pod.requests[0] for pod in (first, second)] == [True, True]

    asyncio.run(main())


def test_a_shard_that_nobody_has_is_refused_until_it_is_back(run: Run) -> None:
    async def test(site: Site) -> None:
        here, there = id_at(0), id_at(1)
        await site.pods[1][0].served.stop()
        for _ in range(2):
            refused = await site.http.get(f"/v1/views/story?id={there}")
            assert (refused.status_code, refused.json()["code"]) == (503, "engine_unavailable")
            assert refused.headers["retry-after"] == "1"
        assert titles(await site.http.get(f"/v1/views/story?id={here}")) == [f"Title {here}"]
        await site.pods[1][0].served.start()
        await until(lambda: not site.gateway.topology.away)
        assert titles(await site.http.get(f"/v1/views/story?id={there}")) == [f"Title {there}"]

    run(test)


def test_who_goes_away_is_not_answered_any_more(run: Run) -> None:
    async def test(site: Site) -> None:
        engine = site.engines[0]
        engine.gate = asyncio.Event()
        asking = asyncio.ensure_future(site.http.get(f"/v1/views/story?id={id_at(0)}"))
        await until(lambda: engine.reads)
        assert site.pods[0][0].served.open_connections == 1
        asking.cancel()
        await until(lambda: not site.pods[0][0].served.open_connections)
        engine.gate.set()

    run(test)


def test_a_query_that_means_a_view_is_asked_where_the_view_is() -> None:
    """The first shard finds out which view that is."""
    problem = ApiError("misdirected", "It is with another shard.", members={"view": WHOLE[1]}).problem("/v1/query")
    first = answering(response(orjson.dumps(problem), b"421 Misdirected Request"))

    async def main() -> None:
        async with (
            scripted(first) as one,
            scripted(answering(response(b'{"rows":[1]}'))) as other,
            served_gateway(section_at(((one.address,), (other.address,)))) as (_, _, http),
        ):
            answer = await http.post("/v1/query", json={"sql": "SELECT 1"})
            assert (answer.status_code, answer.json()) == (200, {"rows": [1]})

    asyncio.run(main())


@asynccontextmanager
async def guarded(tmp_path: Path) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a gateway where one token may read the view `other`, and no pod is there."""
    tokens = tmp_path / "tokens.toml"
    tokens.write_text(entry_text("some", "of-some", {"rights": '["read"]', "views": '["other"]'}))
    settings = GatewaySettings(
        gateway=section_at((("http://127.0.0.1:1",),)), http=HTTP, auth=AuthSettings(tokens_file=tokens)
    )
    gateway = Gateway.of(settings)
    app = wrapped(gateway.app, GatewayWorkerConfig(0, settings))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as http:
        yield http
    await gateway.topology.close()


def test_a_token_counts_at_the_gateway_too(tmp_path: Path) -> None:
    """Whatever the pods let in."""

    async def main() -> None:
        async with guarded(tmp_path) as http:
            assert (await http.get("/v1/views/story?id=7")).status_code == 401
            http.headers["authorization"] = "Bearer of-some"
            asked = [
                await http.get("/v1/views/story?id=7"),
                await http.post("/v1/views/story/query", json={"keys": [{"id": 7}]}),
                await http.post("/v1/read", json={"reads": [{"view": "other"}, {"view": "story"}]}),
                await http.post("/v1/query", json={"sql": "SELECT 1"}),
            ]
            assert [(answer.status_code, answer.json()["code"]) for answer in asked] == [(403, "forbidden")] * 4
            assert (await http.get("/v1/views/other?id=7")).json()["code"] == "engine_unavailable"

    asyncio.run(main())


JSON = "application/json"


@pytest.mark.parametrize(
    ("path", "content", "kind", "code"),
    [
        ("/v1/read", '{"reads":[{"view":"story"}]}', "application/x+json", "forbidden"),
        ("/v1/read", '{"reads":[{"view":"story"}]}', "Application/JSON", "forbidden"),
        ("/v1/read", '{"reads":[{"view":"story"}]}', None, "forbidden"),
        ("/v1/read", '{"reads":[7,{"view":"story"}]}', JSON, "forbidden"),
        ("/v1/read", '{"reads":[{"view":"story","params":{"id":NaN}}]}', JSON, "invalid_request"),
        ("/v1/read", '{"reads":[{"view":"story"}]}'.encode("utf-16"), JSON, "invalid_request"),
        ("/v1/views/story/query", '{"keys":[{"id":NaN}]}', JSON, "forbidden"),
        ("/v1/views/story/query%0A", '{"keys":[{"id":7}]}', JSON, "not_found"),
        ("/v1/read%0A", '{"reads":[{"view":"story"}]}', JSON, "not_found"),
        ("/v1/query%0A", '{"sql":"SELECT 1"}', JSON, "not_found"),
        # A pod says what is wrong.
        ("/v1/read", '{"reads":[{"view":7},{"view":"other"}]}', "text/plain", "engine_unavailable"),
        ("/v1/read", '{"reads":[]}', JSON, "engine_unavailable"),
        ("/v1/read", "[1]", JSON, "engine_unavailable"),
        ("/v1/views/other/query", '{"keys":[{"id":NaN}]}', JSON, "engine_unavailable"),
    ],
)
def test_no_pod_is_asked_for_what_a_token_may_not_read(
    tmp_path: Path, path: str, content: str | bytes, kind: str | None, code: str
) -> None:
    """However it is asked for: pods understand more than gateways do."""

    async def main() -> None:
        async with guarded(tmp_path) as http:
            headers = {"authorization": "Bearer of-some"} | ({} if kind is None else {"content-type": kind})
            assert (await http.post(path, content=content, headers=headers)).json()["code"] == code

    asyncio.run(main())


def test_a_pod_may_take_as_long_as_it_lets_a_request_wait() -> None:
    """For a minimum version, for what was committed before, and for what is filled then."""

    async def mute(client: Client) -> None:
        await client.request()
        await client.ended()

    async def main() -> None:
        async with scripted(mute) as pod:
            waits = HttpSettings(read_timeout_s=0.05, max_wait_s=0.2)
            gateway = Gateway.of(GatewaySettings(gateway=section_at(((pod.address,),)), http=waits))
            async with httpx.AsyncClient(transport=httpx.ASGITransport(gateway.app), base_url="http://test") as http:
                began_s = time.monotonic()
                assert (await http.get("/v1/views/story?id=7")).status_code == 503
                assert time.monotonic() - began_s > 0.6
            await gateway.topology.close()

    asyncio.run(main())
