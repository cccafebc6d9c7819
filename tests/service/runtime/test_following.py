"""Which definition and which layout a table is followed by."""

import pytest

from service.runtime.following import Following, TableRefusedError
from service.settings.sections import CdcSettings
from service.upstream.postgres.connect import UpstreamPool
from service.upstream.postgres.upstream import PostgresSession
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE notes RENAME COLUMN body TO words",
        "ALTER TABLE notes ALTER COLUMN body TYPE varchar(9)",
        "ALTER TABLE notes ALTER COLUMN id DROP NOT NULL",
        "DROP TABLE notes",
    ],
)
def test_a_table_that_was_altered_after_the_catalog_was_read_is_refused(database: Database, change: str) -> None:
    database.execute("CREATE TABLE notes (id int NOT NULL, body text)")

    async def follow() -> Following:
        pool = UpstreamPool(database.url)
        following = Following(CdcSettings())
        try:
            async with pool.connection() as connection:
                session = PostgresSession(connection, "upquery")
                fresh = await session.load_catalog()
                database.execute(change)
                with pytest.raises(TableRefusedError, match=r"public\.notes is (gone|being altered)"):
                    await following.follow(session, ["public.notes"], fresh)
        finally:
            await pool.close()
        return following

    following = run(follow())
    assert not following.layouts
    assert not following.catalog.tables
