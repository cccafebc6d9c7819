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
from service.protocol.admin_operations import RegisterView, RemoveView, SettleView, ViewChange
from service.settings.view_options import OptionFields
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, until

pytestmark = pytest.mark.postgres

ONE = "SELECT id, title FROM stories WHERE id = :id"
OTHER = "SELECT title FROM stories WHERE id = :id"


async def settle(runtime: Runtime, at_ms: int, sql: str | None, name: str = "put") -> Any:
    return await Operations(runtime).call(SettleView(name, ViewChange(at_ms, sql)))


async def kept(runtime: Runtime) -> dict[str, Any]:
    """Changes of views; `sql` and `options` of those that were not dropped."""
    return {
        name: {"at_ms": change.at_ms}
        | ({} if change.sql is None else {"sql": change.sql, "options": change.options.model_dump(exclude_none=True)})
        for name, change in (await Operations(runtime).changes()).items()
    }


async def put(runtime: Runtime, sql: str, at_ms: int, **options: Any) -> None:
    await Operations(runtime).call(RegisterView("put", sql, OptionFields(**options), at_ms=at_ms))


def test_the_latest_change_counts(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text)", "ALTER TABLE stories REPLICA IDENTITY FULL"
    )

    async def scenario() -> None:
        async with running(database, tmp_path) as runtime:
            await put(runtime, ONE, 100, cache_control="no-store")
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
            await put(runtime, ONE, 30)
            assert await kept(runtime) == {
                "put": {"at_ms": 401, "sql": ONE, "options": {}},
                "never_seen": {"at_ms": 500},
            }
            with pytest.raises(ApiError, match="view_"):
                await settle(runtime, 10**15, "SELECT nothing FROM nowhere")
            assert (await kept(runtime))["put"]["at_ms"] == 401
            await Operations(runtime).call(RemoveView("put"))
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
            if before is not None:
                await put(runtime, before, 100)
            known = await kept(runtime)
            monkeypatch.setattr(Engine, "step", failing)
            with pytest.raises(ApiError, match="cannot be installed"):
                await put(runtime, OTHER, 200)
            assert await kept(runtime) == known
            await until(lambda: runtime.counters.streams == 2 and runtime.ready)
            assert await kept(runtime) == known
            views = {view.name: view.status for view in await Operations(runtime).views()}
            assert views == {"story": "ready"} | ({} if before is None else {"put": "ready"})
            await put(runtime, ONE, 300)
            assert (await kept(runtime))["put"]["sql"] == ONE

    asyncio.run(scenario())
