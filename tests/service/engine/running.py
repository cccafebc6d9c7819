"""A runtime of this process over a test's database."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from service.engine.session.runtime import Runtime
from service.settings.stack import Settings
from tests.fixtures.postgres import Database

STORY = "SELECT id, title FROM stories WHERE id = :id"


@asynccontextmanager
async def running(database: Database, directory: Path, **options: Any) -> AsyncIterator[Runtime]:
    """A runtime whose sessions run, with the options of `started`."""
    async with started(database, directory, **options) as runtime:
        sessions = asyncio.ensure_future(runtime.run())
        try:
            yield runtime
        finally:
            sessions.cancel()
            await asyncio.gather(sessions, return_exceptions=True)


@asynccontextmanager
async def started(
    database: Database,
    directory: Path,
    *,
    views: Mapping[str, str] | None = None,
    upstream: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    **sections: Mapping[str, Any],
) -> AsyncIterator[Runtime]:
    """A runtime that has begun its first session, which does not run yet. `views`: SQL by name, a story by its id if
    none are given; `sections` of the settings."""
    settings = Settings(
        upstream={"url": database.url, **(upstream or {})},
        state={"directory": directory / "state", "hot_keys_s": 0, **(state or {})},
        views=[{"name": name, "sql": sql} for name, sql in (views or {"story": STORY}).items()],
        **sections,
    )
    runtime = Runtime(settings, directory / "leaf")
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.close()


async def until(condition: Callable[[], Any], limit_s: float = 20.0) -> None:
    """Waits for a condition."""
    async with asyncio.timeout(limit_s):
        while not condition():
            await asyncio.sleep(0.01)
