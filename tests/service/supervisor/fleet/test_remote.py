"""A pod's operations over its admin port, and what a gateway makes of pods that cannot or do not want to answer."""

import asyncio
from typing import Any

import httpx
import orjson
import pytest

from service.gateway.homes import home_of, replicas_of, slot_of
from service.ground.errors import ApiError
from service.protocol.admin_models import Health, MemoryState, Named, Prewarmed, PrewarmKeys, ViewState
from service.protocol.admin_operations import (
    BeginPrewarm,
    GetHealth,
    GetView,
    ListViews,
    Operation,
    PutWorkload,
    RemoveView,
)
from service.protocol.workload import WorkloadModel
from service.supervisor.fleet.fleet import place_of, replicas_order
from service.supervisor.fleet.pods import Pod
from service.supervisor.fleet.remote import PATH, RemoteControl, remote_client
from service.supervisor.fleet.replicas import Replicas

VIEWS = ListViews()


def answering(status: int, body: bytes | dict[str, Any], token: str | None = None) -> RemoteControl:
    """Return the client of a pod with a constant answer."""

    def answer(request: httpx.Request) -> httpx.Response:
        assert request.url.path == PATH
        assert request.headers.get("authorization") == (None if token is None else f"Bearer {token}")
        return httpx.Response(status, content=body if isinstance(body, bytes) else orjson.dumps(body))

    client = httpx.AsyncClient(transport=httpx.MockTransport(answer))
    return RemoteControl("http://pod", client, lambda: token)


def asked(control: Any, operation: Operation[Any] = VIEWS) -> Any:
    return asyncio.run(control.call(operation))


def test_a_result_and_a_token() -> None:
    body = {"result": [state("v").model_dump(), state("w").model_dump()]}
    assert asked(answering(200, body, "hush")) == [state("v"), state("w")]


def test_what_the_pod_refuses_is_as_it_says_it() -> None:
    said = {"code": "view_exists", "detail": "There is one.", "hint": "Use another.", "retryable": False, "members": {}}
    with pytest.raises(ApiError) as refused:
        asked(answering(200, {"error": said}))
    assert (refused.value.code, refused.value.hint) == ("view_exists", "Use another.")
    with pytest.raises(ApiError, match="internal_error"):
        asked(answering(200, {"error": said | {"code": "of_a_later_version"}}))


def test_what_is_too_long_for_the_pod_is_said_to_be() -> None:
    with pytest.raises(ApiError, match="too_large"):
        asked(answering(413, {"code": "too_large"}))


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, {"code": "unauthenticated"}, "rejects the gateway's token"),
        (403, {"code": "forbidden"}, "rejects the gateway's token"),
        (404, b"Not Found", "status 404"),
        (503, {"code": "engine_unavailable"}, "status 503"),
        (200, b"[]", "status 200"),
        (200, {"result": [1, 2]}, "another version"),
    ],
)
def test_what_is_no_answer_means_that_the_pod_is_away(status: int, body: Any, said: str) -> None:
    with pytest.raises(ApiError, match=said) as refused:
        asked(answering(status, body))
    assert refused.value.code == "engine_unavailable"


def test_who_cannot_be_reached_is_away() -> None:
    async def scenario() -> None:
        async with remote_client(0.5) as client:
            with pytest.raises(ApiError, match="cannot be reached") as refused:
                await RemoteControl("http://127.0.0.1:9", client, lambda: None).call(VIEWS)
            assert refused.value.code == "engine_unavailable"

    asyncio.run(scenario())


def state(name: str) -> ViewState:
    return ViewState(
        name=name,
        sql="",
        origin="http",
        tier=None,
        materialization=None,
        status="ready",
        parameters=[Named(name="ids", type="integer[]"), Named(name="x", type="text")],
        columns=[],
    )


class Answering:
    """A `Control` that says its name, unless it is away."""

    def __init__(self, name: str, *, away: bool = False) -> None:
        self.name = name
        self.away = away
        self.asked: list[type[Operation[Any]]] = []
        self.filled: list[tuple[str | None, ...]] = []

    async def call(self, operation: Operation[Any]) -> Any:
        self.asked.append(type(operation))
        if self.away:
            raise ApiError("engine_unavailable", "It is away.")
        match operation:
            case GetHealth():
                memory = MemoryState(budget_bytes=1, used_bytes=0, over_budget=False)
                ready = self.name != "starting"
                return Health(ready=ready, streaming=True, age_ms=5, version=self.name, memory=memory)
            case GetView():
                return state("v")
            case BeginPrewarm(wanted):
                self.filled += [tuple(key) for key in wanted.keys]
                return Prewarmed(view="v", keys=len(wanted.keys), filled=0, refused=0, status="waiting")
            case RemoveView():
                raise ApiError("view_not_found", self.name)
        return self.name


def replicas(*controls: Answering) -> Replicas:
    found = Replicas([Pod(f"http://{n}", control, 0, n) for n, control in enumerate(controls)], replicas_order)

    async def look() -> None:
        for pod in found.pods:
            await pod.look()

    asyncio.run(look())
    return found


def test_the_first_one_that_is_there_answers() -> None:
    first, second = Answering("first", away=True), Answering("second")
    found = replicas(first, second)
    first.asked.clear()
    assert asked(found) == "second"
    assert first.asked == []
    second.away = True
    with pytest.raises(ApiError, match="engine_unavailable"):
        asked(found)
    # It is back, as soon as somebody has looked.
    first.away = False
    asyncio.run(found.pods[0].look())
    assert asked(found) == "first"


def test_a_refusal_is_not_asked_for_twice() -> None:
    first, second = Answering("first"), Answering("second")
    with pytest.raises(ApiError, match="view_not_found: first"):
        asked(replicas(first, second), RemoveView("v"))
    assert RemoveView not in second.asked


def test_the_best_one_says_how_they_are_and_nobody_is_waited_for() -> None:
    starting, ready = Answering("starting"), Answering("ready")
    found = replicas(Answering("gone", away=True), starting, ready)
    starting.asked.clear()
    assert asked(found, GetHealth()).version == "ready"
    assert starting.asked == []
    with pytest.raises(ApiError, match="No pod of shard 0"):
        asked(replicas(Answering("gone", away=True)), GetHealth())


def test_a_workload_is_told_to_all() -> None:
    controls = [Answering("a"), Answering("b", away=True), Answering("c")]
    model = WorkloadModel(kind="upquery workload model", format=2, views={})
    assert asked(replicas(*controls), PutWorkload(model)) == "a"
    assert [each.asked[-1] for each in controls] == [PutWorkload, GetHealth, PutWorkload]


KEYS = [[f"[{n}]", None if n % 3 == 0 else f"x{n}"] for n in range(60)]


def params(key: list[str | None]) -> dict[str, Any]:
    return {"ids": orjson.loads(key[0] or ""), "x": key[1]}


def test_keys_are_filled_where_the_workers_read_them() -> None:
    controls = [Answering("a"), Answering("b"), Answering("c", away=True)]
    filled = asked(replicas(*controls), BeginPrewarm(PrewarmKeys(view="v", keys=KEYS)))
    assert filled.keys == 60
    for key in KEYS:
        own = next(n for n in replicas_of(slot_of("v", params(key)), 3) if n != 2)
        assert [tuple(key) in each.filled for each in controls] == [own == 0, own == 1, False]
    place = place_of(4, state("v"))
    assert [place(key) for key in KEYS] == [home_of(4, "v", params(key)) for key in KEYS]
