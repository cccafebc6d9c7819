"""Whatever goes wrong is a problem document that says what to do."""

import asyncio
import json

import httpx
import pytest

from dataflow.engine.effects import LeafEvict
from service.ground.errors import ApiError
from service.leaf_store.reader import LeafReader
from service.leaf_store.writer import LeafWriter
from service.protocol.counters import ReadCounters
from service.protocol.engine_client import MAX_UNREAD_BYTES, UNCONFIRMED_REPORTS, EngineClient
from service.protocol.engine_requests import Report
from service.protocol.engine_server import EngineServer
from service.settings.sections import HttpSettings
from service.worker.routes.app import build_app
from tests.service.worker.conftest import STORY_ID, Engine, Run, Service, register_all, unavailable


def check_problem(answer: httpx.Response, status: int, code: str) -> dict[str, object]:
    assert answer.status_code == status
    problem: dict[str, object] = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.headers["cache-control"] == "no-store"
    assert problem["code"] == code
    assert problem["status"] == status
    assert problem["instance"] == answer.request.url.path
    assert problem["title"]
    assert problem["detail"]
    assert problem["type"] == f"urn:upquery:problem:{code}"
    assert "Traceback" not in answer.text
    return problem


def test_a_reason_that_is_a_sentence_ends_once(run: Run) -> None:
    async def test(service: Service) -> None:
        answer = await service.http.get("/v1/views/broken?id=7")
        assert answer.json()["detail"] == "View 'broken' is broken: Column votes has gone."

    run(test)


@pytest.mark.parametrize(
    ("path", "status", "code", "parameter"),
    [
        ("/v1/views/story", 422, "parameter_missing", "id"),
        ("/v1/views/story?ID=7", 422, "parameter_unknown", "ID"),
        ("/v1/views/story?id=7&x=1", 422, "parameter_unknown", "x"),
        ("/v1/views/story?id=seven", 422, "parameter_type", "id"),
        ("/v1/views/story?id=", 422, "parameter_type", "id"),
        ("/v1/views/story?id=99999999999999999999", 422, "parameter_type", "id"),
        ("/v1/views/story?id=7&id=8", 422, "parameter_type", "id"),
        ("/v1/views/story?id:null=7", 422, "parameter_type", "id"),
        ("/v1/views/story?id=7&limit=3", 422, "parameter_unknown", "limit"),
        ("/v1/views/stories_of?author=ann&limit=0", 422, "parameter_type", "limit"),
        ("/v1/views/stories_of?author=ann&limit=many", 422, "parameter_type", "limit"),
        ("/v1/views/stories_of?author=ann&after=zzz", 422, "parameter_type", "after"),
        ("/v1/views/stories_of?author=a%00b", 422, "parameter_type", "author"),
        ("/v1/views/stories_of?author=%ff", 400, "bad_request", None),
        ("/v1/views/storey?id=7", 404, "view_not_found", None),
        ("/v1/views/broken?id=7", 503, "view_broken", None),
        ("/v1/views/building?id=7", 503, "view_building", None),
        ("/v1/nothing", 404, "not_found", None),
        ("/", 404, "not_found", None),
        ("/v1/read", 405, "method_not_allowed", None),
    ],
)
def test_get_problem(run: Run, path: str, status: int, code: str, parameter: str | None) -> None:
    async def test(service: Service) -> None:
        problem = check_problem(await service.http.get(path), status, code)
        if parameter is not None:
            assert problem["parameter"] == parameter
            assert problem["hint"]
        assert not service.engine.reads

    run(test)


def test_problem_says_what_to_do(run: Run) -> None:
    async def test(service: Service) -> None:
        missing = (await service.http.get("/v1/views/storey?id=7")).json()
        assert missing["hint"] == "Did you mean 'story'?"
        broken = (await service.http.get("/v1/views/broken?id=7")).json()
        assert "Column votes has gone" in broken["detail"]
        building = await service.http.get("/v1/views/building?id=7")
        assert building.json()["progress"] == "3 of 10 tables are loaded"
        assert building.headers["retry-after"] == "1"

    run(test)


@pytest.mark.parametrize(
    ("path", "body", "status", "code"),
    [
        ("/v1/views/story/query", b"{", 422, "invalid_request"),
        ("/v1/views/story/query", b'{"key": []}', 422, "invalid_request"),
        ("/v1/views/story/query", b'{"keys": [{"id": [7]}]}', 422, "parameter_type"),
        ("/v1/views/story/query", b'{"keys": [{"id": true}]}', 422, "parameter_type"),
        ("/v1/views/story/query", b'{"keys": [{"id": 1.5}]}', 422, "parameter_type"),
        ("/v1/views/story/query", b'{"keys": [{}]}', 422, "parameter_missing"),
        ("/v1/views/nope/query", b'{"keys": []}', 404, "view_not_found"),
        ("/v1/views/story/query", json.dumps({"keys": [{"id": n} for n in range(21)]}).encode(), 413, "too_large"),
        ("/v1/views/story/query", b" " * 5000, 413, "too_large"),
        ("/v1/read", b'{"reads": [{"view": "story", "params": {"id": 7}, "limit": 1}]}', 422, "parameter_unknown"),
        ("/v1/views/story", b"{}", 405, "method_not_allowed"),
    ],
)
def test_post_problem(run: Run, path: str, body: bytes, status: int, code: str) -> None:
    async def test(service: Service) -> None:
        answer = await service.http.post(path, content=body, headers={"content-type": "application/json"})
        check_problem(answer, status, code)
        if status == 405:
            assert answer.headers["allow"] == "GET, HEAD"

    run(test)


def test_unannounced_body_is_cut_off(run: Run) -> None:
    async def test(service: Service) -> None:
        async def endless() -> object:
            for _ in range(100):
                yield b" " * 100

        answer = await service.http.post("/v1/read", content=endless())  # type: ignore[arg-type]
        check_problem(answer, 413, "too_large")

    run(test)


def test_slow_miss_times_out_and_is_cancelled(run_impatient: Run) -> None:
    async def test(service: Service) -> None:
        service.engine.gate = asyncio.Event()
        problem = check_problem(await service.http.get("/v1/views/story?id=7"), 504, "read_timeout")
        assert problem["retryable"] is True
        # The cancellation is on the wire behind the reply's time limit.
        async with asyncio.timeout(5):
            while not service.engine.cancelled:
                await service.client.report(Report(0))
                await asyncio.sleep(0)

    run_impatient(test)


def test_engine_failures_pass_through(run: Run) -> None:
    async def test(service: Service) -> None:
        service.engine.failure = unavailable()
        answer = await service.http.get("/v1/views/story?id=7")
        assert check_problem(answer, 503, "upstream_unavailable")["hint"] == "Start it."
        assert answer.headers["retry-after"]
        service.engine.failure = RuntimeError("secret")
        for answer in (await service.http.get("/v1/views/story?id=7"), await service.http.post("/v1/checkpoint")):
            check_problem(answer, 500, "internal_error")
            assert "secret" not in answer.text

    run(test)


def test_hits_survive_the_engine_and_misses_come_back_with_it(run: Run) -> None:
    async def test(service: Service) -> None:
        await service.http.get("/v1/views/story?id=7")
        await service.server.close()
        assert (await service.http.get("/v1/views/story?id=7")).status_code == 200
        answer = await service.http.get("/v1/views/story?id=8")
        check_problem(answer, 503, "engine_unavailable")
        assert answer.headers["retry-after"]
        service.server = EngineServer(service.socket, service.engine)
        await service.server.start()
        assert (await service.http.get("/v1/views/story?id=8")).status_code == 200
        await service.server.close()

    run(test)


def test_waiting_miss_fails_when_the_engine_goes(run: Run) -> None:
    async def test(service: Service) -> None:
        service.engine.gate = asyncio.Event()
        waiting = asyncio.ensure_future(service.http.get("/v1/views/story?id=7"))
        async with asyncio.timeout(5):
            while not service.engine.reads:
                await asyncio.sleep(0)
        await service.server.close()
        check_problem(await waiting, 503, "engine_unavailable")

    run(test)


def test_discarded_store_answers_until_there_is_a_new_one(run: Run) -> None:
    async def test(service: Service) -> None:
        async def source() -> str:
            answer = await service.http.get("/v1/views/story?id=7")
            assert answer.status_code == 200
            return answer.headers["cache-status"]

        await source()
        writer: LeafWriter = service.engine.writer
        writer.reset("next")
        assert await source() == "upquery; hit"
        register_all(writer)
        assert await source() == "upquery; hit"
        service.engine.commit()
        assert await source() == "upquery; fwd=miss; stored"

    run(test)


def test_counters_are_reported(run: Run) -> None:
    async def test(service: Service) -> None:
        engine: Engine = service.engine
        for _ in range(3):
            await service.http.get("/v1/views/story?id=7")
        app = service.http._transport.app  # type: ignore[attr-defined]
        await service.client.report(Report(4, app.counters(), app.take_touches()))
        async with asyncio.timeout(5):
            while not engine.reports:
                await asyncio.sleep(0)
        report = engine.reports[0]
        assert report.worker == 4
        assert report.reads["story"] == ReadCounters(hits=2, misses=1)
        assert report.touches == [(STORY_ID, ("7",), 2)]

    run(test)


def test_reports_to_an_engine_that_does_not_read_are_not_piled_up(run: Run) -> None:
    async def test(service: Service) -> None:
        gone = asyncio.Event()

        async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await gone.wait()
            writer.close()

        path = service.socket.with_suffix(".silent")
        server = await asyncio.start_unix_server(silent, path)
        client = EngineClient(path)
        touches = [(STORY_ID, (str(n),), 1) for n in range(8192)]
        for _ in range(100):
            await client.report(Report(0, touches=touches))
        connection = client._connection
        assert connection is not None
        assert MAX_UNREAD_BYTES < connection.unread_bytes() < 2 * MAX_UNREAD_BYTES
        # Nor is anything asked of it: it seems to hang.
        with pytest.raises(ApiError, match="engine_unavailable"):
            await client.checkpoint(5.0)
        gone.set()
        await client.close()
        server.close()

    run(test)


def test_nobody_waits_for_an_engine_that_confirms_no_reports(run: Run) -> None:
    """Until it confirms one again."""

    async def test(service: Service) -> None:
        answering = asyncio.Event()

        async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            there, other = await asyncio.open_unix_connection(str(service.socket))
            await answering.wait()
            await asyncio.gather(passed_on(reader, other), passed_on(there, writer))

        path = service.socket.with_suffix(".late")
        server = await asyncio.start_unix_server(late, path)
        client = EngineClient(path)
        waiting = asyncio.ensure_future(client.checkpoint(60.0))
        for _ in range(UNCONFIRMED_REPORTS + 1):
            assert not waiting.done()
            await client.report(Report(0))
        with pytest.raises(ApiError, match="engine_unavailable"):
            await waiting
        answering.set()
        async with asyncio.timeout(5):
            while not await answers(client):
                await asyncio.sleep(0.01)
        await client.close()
        server.close()

    run(test)


async def passed_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while said := await reader.read(1 << 16):
        writer.write(said)
    writer.close()


async def answers(client: EngineClient) -> bool:
    try:
        await client.read([], 5.0)
    except ApiError:
        return False
    return True


def test_views_that_are_being_planned_are_not_missing(run: Run) -> None:
    """Neither for a worker that knew them, nor for one that is new, if rows are stored before they are published."""

    async def test(service: Service) -> None:
        writer = service.engine.writer
        await service.http.get("/v1/views/story?id=7")
        writer.reset("another")
        new = httpx.ASGITransport(build_app(LeafReader(writer.reader.environment), service.client, HttpSettings()))
        async with httpx.AsyncClient(transport=new, base_url="http://test") as http:
            with writer.catalog_held():
                register_all(writer)
                service.engine.commit(LeafEvict(STORY_ID, ("7",)))
                for path in ("story?id=7", "stories_of?author=ann"):
                    problem = check_problem(await http.get(f"/v1/views/{path}"), 503, "view_building")
                    assert problem["retryable"]
                batch = await http.post("/v1/views/story/query", json={"keys": [{"id": 7}]})
                check_problem(batch, 503, "view_building")
                # Asks the engine, as for any other key that is not there.
                service.engine.failure = unavailable()
                check_problem(await service.http.get("/v1/views/story?id=7"), 503, "upstream_unavailable")
                service.engine.failure = None
            for client in (http, service.http):
                assert (await client.get("/v1/views/story?id=7")).status_code == 200
                check_problem(await client.get("/v1/views/storey?id=7"), 404, "view_not_found")

    run(test)
