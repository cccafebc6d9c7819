"""Which definition and which layout a table is followed by."""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from cdc.change import SchemaNotice
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.upstream import PostgresSession
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import UpstreamSession
from service.engine.views.registry import Status, ViewOptions
from service.engine.views.tables import FollowedTables, TableAlteredError, TableRefusedError
from service.ground.errors import ApiError
from service.settings.sections import CdcSettings
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run
from tests.service.engine.databases.mysql.upstreams import opened
from tests.service.engine.running import running

Opened = Callable[[str], AbstractAsyncContextManager[UpstreamSession]]
NOTES = "SELECT id FROM notes WHERE id = :id"


class Unanswered:
    """Lookups while the database does not answer."""

    async def snapshot(self) -> Any:
        raise UpstreamError("timeout", "It took too long.", retryable=True)


def refused_after(database: Database | MariaDatabase, session_of: Opened, table: str, change: str, said: str) -> None:
    """A table that is changed between the plan and its layout is not followed."""

    async def follow() -> FollowedTables:
        following = FollowedTables(CdcSettings())
        async with session_of(database.url) as session:
            fresh = await session.load_catalog()
            assert not await following.refusals(session, [table])
            database.execute(change)
            with pytest.raises(TableRefusedError, match=said):
                await following.follow(session, [table], fresh)
        return following

    following = run(follow())
    assert not following.layouts
    assert not following.catalog.tables


ALTERED = r"notes`? (is being altered|does not exist any more)"


@asynccontextmanager
async def postgres_session(url: str) -> AsyncIterator[UpstreamSession]:
    pool = PostgresPool(url)
    try:
        async with pool.connection() as connection:
            yield PostgresSession(connection, "upquery")
    finally:
        await pool.close()


@pytest.mark.postgres
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("RENAME COLUMN body TO words", ALTERED),
        ("ALTER COLUMN body TYPE varchar(9)", ALTERED),
        ("ALTER COLUMN id DROP NOT NULL", ALTERED),
        ("DROP CONSTRAINT notes_id_key", ALTERED),
        ("REPLICA IDENTITY NOTHING", ALTERED),
        ("RENAME TO gone", ALTERED),
    ],
)
def test_a_table_that_was_altered_after_the_catalog_was_read_is_refused(
    database: Database, change: str, said: str
) -> None:
    database.execute(
        "CREATE TABLE notes (id int NOT NULL UNIQUE, body text)", "ALTER TABLE notes REPLICA IDENTITY FULL"
    )
    refused_after(database, postgres_session, "public.notes", f"ALTER TABLE notes {change}", said)


@asynccontextmanager
async def mariadb_session(url: str) -> AsyncIterator[UpstreamSession]:
    async with opened(url) as upstream, upstream.session() as session:
        yield session


@pytest.mark.mariadb
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("CHANGE body words text", ALTERED),
        ("MODIFY id int NULL", ALTERED),
        ("DROP KEY id", ALTERED),
        ("ADD SYSTEM VERSIONING", "is system-versioned"),
        ("ENGINE = MyISAM", "no snapshots"),
        ("RENAME TO gone", ALTERED),
    ],
)
def test_a_table_of_mariadb_that_was_altered_is_refused(mariadb: MariaDatabase, change: str, said: str) -> None:
    """Its log says so, but before the place from which on the table is followed."""
    mariadb.execute("CREATE TABLE notes (id int NOT NULL UNIQUE, body text)")
    refused_after(mariadb, mariadb_session, f"{mariadb.name}.notes", f"ALTER TABLE notes {change}", said)


@pytest.mark.postgres
def test_a_table_that_could_not_be_announced_is_not_followed(database: Database, tmp_path: Path) -> None:
    """Else the next view on it would take it for one that has joined."""
    database.execute("CREATE TABLE stories (id int PRIMARY KEY, title text)", "CREATE TABLE notes (id int PRIMARY KEY)")
    database.execute("ALTER TABLE stories REPLICA IDENTITY FULL", "ALTER TABLE notes REPLICA IDENTITY FULL")

    async def put() -> None:
        async with running(database, tmp_path) as runtime:
            installer = runtime.changes.installer
            lookups, installer.lookups = installer.lookups, Unanswered()
            with pytest.raises(ApiError):
                await runtime.changes.put("notes", NOTES, ViewOptions(), create_only=False)
            assert "public.notes" not in runtime.following.layouts
            installer.lookups = lookups
            await runtime.changes.put("notes", NOTES, ViewOptions(), create_only=False)
            assert "public.notes" in runtime.following.layouts

    run(put())


@pytest.mark.postgres
def test_what_was_said_of_a_column_before_a_view_used_it_is_not_forgotten(database: Database, tmp_path: Path) -> None:
    """The stream says it once."""
    database.execute("CREATE TABLE stories (id int PRIMARY KEY, title text, author text)")
    database.execute("ALTER TABLE stories REPLICA IDENTITY FULL")
    sql = "SELECT author FROM stories WHERE id = :id"
    notice = SchemaNotice("public.stories", "Columns of public.stories were altered: author.", ("author",))

    async def put() -> None:
        async with running(database, tmp_path, cdc={"schema_check_s": 0.05}) as runtime:
            runtime.changes.repair.schema_changed(notice)
            story = runtime.registry.views["story"]
            assert story.status is not Status.BROKEN
            before = story.installed
            # The view is of the column as it is now, in rows that are longer; others go on.
            await runtime.changes.put("author", sql, ViewOptions(), create_only=False)
            assert runtime.registry.views["author"].status is Status.READY
            assert not runtime.following.doubted
            assert len(runtime.following.layouts["public.stories"].columns) == 4
            assert (story.status, story.installed) == (Status.READY, before)

    run(put())


@pytest.mark.postgres
def test_a_column_that_the_stream_does_not_state_concerns_only_views_that_read_it(
    database: Database, tmp_path: Path
) -> None:
    """A connector may leave it so for good: a view that only gives something that name is planned once."""
    database.execute("CREATE TABLE stories (id int PRIMARY KEY, title text, author text)")
    sql = "SELECT id AS author FROM stories WHERE id = :id"
    notice = SchemaNotice("public.stories", "Columns of public.stories: author.", ("author",), unreadable=True)

    async def put() -> None:
        async with running(database, tmp_path, cdc={"schema_check_s": 0.05}) as runtime:
            await runtime.changes.put("author", sql, ViewOptions(), create_only=False)
            before = {name: view.installed for name, view in runtime.registry.views.items()}
            layout = runtime.following.layouts["public.stories"]
            runtime.changes.repair.schema_changed(notice)
            await runtime.changes.put("another", sql, ViewOptions(), create_only=False)
            assert {name: runtime.registry.views[name].installed for name in before} == before
            assert runtime.following.layouts["public.stories"] is layout

    run(put())


@pytest.mark.postgres
def test_a_table_that_is_altered_all_the_time_is_a_matter_of_trying_again(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE stories (id int PRIMARY KEY, title text)", "CREATE TABLE notes (id int PRIMARY KEY)")
    database.execute("ALTER TABLE stories REPLICA IDENTITY FULL", "ALTER TABLE notes REPLICA IDENTITY FULL")

    async def altered(*_: object) -> None:
        raise TableAlteredError("public.notes")

    async def put() -> None:
        async with running(database, tmp_path) as runtime:
            with monkeypatch.context() as patched:
                patched.setattr(FollowedTables, "follow", altered)
                with pytest.raises(ApiError, match="altered") as raised:
                    await runtime.changes.put("notes", NOTES, ViewOptions(), create_only=False)
            assert (raised.value.code, raised.value.retryable) == ("view_unsupported", True)
            await runtime.changes.put("notes", NOTES, ViewOptions(), create_only=False)

    run(put())
