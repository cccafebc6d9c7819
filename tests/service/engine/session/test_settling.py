"""Several services with the same views: what one was told, the others are told later, unless they know better."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from dataflow.engine.engine import Engine
from dataflow.engine.events import InstallView
from service.engine.admin.operations import Operations
from service.engine.session.runtime import Runtime
from service.ground.errors import ApiError
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, until

pytestmark = pytest.mark.postgres

ONE = "SELECT id, title FROM stories WHERE id = :id"
OTHER = "SELECT title FROM stories WHERE id = :id"


async def settle(runtime: Runtime, at_ms: int, sql: str | None, name: str = "put") -> Any:
    return await Operations(runtime).settle(name, sql, {}, at_ms)


async def kept(runtime: Runtime) -> dict[str, Any]:
    return await Operations(runtime).kept()


def test_the_latest_change_counts(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text)", "ALTER TABLE stories REPLICA IDENTITY FULL"
    )

    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            operations = Operations(runtime)
            await operations.put("put", ONE, {"cache_control": "no-store"}, create_only=False, at_ms=100)
            there = {"at_ms": 100, "sql": ONE, "options": {"cache_control": "no-store"}}
            assert await kept(runtime) == {"put": there}
            assert not await settle(runtime, 100, OTHER)
            assert not await settle(runtime, 50, None)
            assert await kept(runtime) == {"put": there}

            assert await settle(runtime, 200, OTHER)
            assert await kept(runtime) == {"put": {"at_ms": 200, "sql": OTHER, "options": {}}}
            # The same view, put later: only when it was put is another time.
            assert await settle(runtime, 300, OTHER)
            assert await settle(runtime, 400, None)
            assert await kept(runtime) == {"put": {"at_ms": 400}}
            # Nobody has put it here, but somebody may have elsewhere, before.
            assert await settle(runtime, 500, None, "never_seen")
            assert not await settle(runtime, 450, ONE, "never_seen")

            # Who is told by its users does it, whatever others' clocks say.
            await operations.put("put", ONE, {}, create_only=False, at_ms=30)
            assert await kept(runtime) == {
                "put": {"at_ms": 401, "sql": ONE, "options": {}},
                "never_seen": {"at_ms": 500},
            }
            with pytest.raises(ApiError, match="view_"):
                await settle(runtime, 10**15, "SELECT nothing FROM nowhere")
            assert (await kept(runtime))["put"]["at_ms"] == 401
            await operations.drop("put")
            assert (await kept(runtime))["put"]["at_ms"] > 10**12

    asyncio.run(scenario())


@pytest.mark.parametrize("before", [None, ONE])
def test_what_the_engine_fails_at_is_not_told_to_others(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str | None
) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text)", "ALTER TABLE stories REPLICA IDENTITY FULL"
    )
    step = Engine.step

    def failing(engine: Engine, event: Any) -> Any:
        if isinstance(event, InstallView) and event.view.name == "put" and len(event.view.output) == 1:
            raise RuntimeError
        return step(engine, event)

    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            operations = Operations(runtime)
            if before is not None:
                await operations.put("put", before, {}, create_only=False, at_ms=100)
            known = await kept(runtime)
            monkeypatch.setattr(Engine, "step", failing)
            with pytest.raises(ApiError, match="cannot be installed"):
                await operations.put("put", OTHER, {}, create_only=False, at_ms=200)
            assert await kept(runtime) == known
            await until(lambda: runtime.counters.streams == 2 and runtime.ready)
            assert await kept(runtime) == known
            views = {view["name"]: view["status"] for view in await operations.views()}
            assert views == {"story": "ready"} | ({} if before is None else {"put": "ready"})
            await operations.put("put", ONE, {}, create_only=False, at_ms=300)
            assert (await kept(runtime))["put"]["sql"] == ONE

    asyncio.run(scenario())
