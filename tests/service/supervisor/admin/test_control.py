"""The control socket and the admin port's problems, without an engine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.ground.errors import ApiError
from service.protocol.admin_models import Named, ViewState
from service.protocol.admin_operations import GetView, ListViews, Operation, RegisterView
from service.protocol.control import ControlClient, ControlServer
from service.settings.view_options import OptionFields
from service.supervisor.admin.app import admin_app
from service.supervisor.fleet.remote import RemoteControl

LONG = "x" * 100_000


class Echo:
    """A `Control` that knows one view, refuses to register others, and fails at all else."""

    async def call(self, operation: Operation[Any]) -> Any:
        match operation:
            case GetView(name):
                return ViewState(
                    name=name,
                    sql=LONG,
                    origin="http",
                    tier=None,
                    materialization=None,
                    status="ready",
                    parameters=[Named(name="id", type="integer")],
                    columns=[],
                )
            case RegisterView():
                raise ApiError("view_exists", "There is one.", "Use another.", members={"line": 3})
        raise ZeroDivisionError("internals that nobody should see")


@dataclass(frozen=True, slots=True)
class OfLaterVersion(Operation[bool]):
    async def perform(self, performer: Any) -> bool:
        raise NotImplementedError


PUT = RegisterView("v", "SELECT 1", OptionFields(ttl=5, tier="ttl"))


@asynccontextmanager
async def control(tmp_path: Path) -> AsyncIterator[ControlClient]:
    server = ControlServer(tmp_path / "c.sock", Echo())
    await server.start()
    try:
        yield ControlClient(tmp_path / "c.sock", timeout_s=5)
    finally:
        await server.close()


def test_calls_and_their_problems(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with control(tmp_path) as client:
            assert await client.call(GetView("v")) == await Echo().call(GetView("v"))
            with pytest.raises(ApiError) as refused:
                await client.call(PUT)
            assert (refused.value.code, refused.value.hint) == ("view_exists", "Use another.")
            assert refused.value.members == {"line": 3}
            with pytest.raises(ApiError, match="internal_error") as failed:
                await client.call(ListViews())
            assert "nobody should see" not in str(failed.value)
            with pytest.raises(ApiError, match="internal_error"):
                await client.call(OfLaterVersion())

    asyncio.run(scenario())


class NoChildren:
    def children(self) -> list[Any]:
        return []

    def served_before(self) -> bool:
        return False


async def admin(tmp_path: Path, method: str, path: str, **options: Any) -> httpx.Response:
    app = admin_app(ControlClient(tmp_path / "nobody.sock"), NoChildren())
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://admin") as client:
        return await client.request(method, path, **options)


def test_without_an_engine(tmp_path: Path) -> None:
    views = asyncio.run(admin(tmp_path, "GET", "/v1/catalog/views"))
    assert views.status_code == 503
    assert views.json()["code"] == "engine_unavailable"
    assert views.headers["retry-after"]
    assert asyncio.run(admin(tmp_path, "GET", "/livez")).status_code == 200
    assert asyncio.run(admin(tmp_path, "GET", "/readyz")).status_code == 503
    assert "upquery_engine_up 0.0" in asyncio.run(admin(tmp_path, "GET", "/metrics")).text


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code"),
    [
        ("PUT", "/v1/catalog/views/a", {"json": {"sq": "SELECT 1"}}, 422, "invalid_request"),
        ("PUT", "/v1/catalog/views/a", {"content": b"{"}, 422, "invalid_request"),
        ("PUT", "/v1/catalog/views/no%20name", {"json": {"sql": "SELECT 1"}}, 422, "invalid_request"),
        ("POST", "/v1/evict", {"json": {}}, 400, "bad_request"),
        ("GET", "/nothing", {}, 404, "not_found"),
        ("POST", "/livez", {}, 405, "method_not_allowed"),
    ],
)
def test_bad_requests_are_problems(
    tmp_path: Path, method: str, path: str, options: dict[str, Any], status: int, code: str
) -> None:
    response = asyncio.run(admin(tmp_path, method, path, **options))
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    assert response.json()["code"] == code


def test_gateways_are_told_what_the_engine_says(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with control(tmp_path) as client:
            transport = httpx.ASGITransport(app=admin_app(client, NoChildren()))
            async with httpx.AsyncClient(transport=transport) as http:
                remote = RemoteControl("http://pod", http, lambda: None)
                assert (await remote.call(GetView("v"))).sql == LONG
                with pytest.raises(ApiError) as refused:
                    await remote.call(PUT)
                assert (refused.value.code, refused.value.members) == ("view_exists", {"line": 3})
                malformed = await http.post("http://pod/internal/control", json={"operation": 1})
                assert (malformed.status_code, malformed.json()["code"]) == (422, "invalid_request")
                assert "/internal/control" not in (await http.get("http://pod/openapi.json")).text

    asyncio.run(scenario())
