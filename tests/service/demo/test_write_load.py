"""The write load on a real database: consistent, steady, and still when paused."""

import asyncio
from collections.abc import Callable

import psycopg
import pytest

from service.demo.dataset import DatasetSize
from service.demo.loading import create_tables, load
from service.demo.views import VIEWS
from service.demo.write_load import WriteLoad
from tests.fixtures.postgres import Database

pytestmark = pytest.mark.postgres
SMALL = DatasetSize(users=200, stories=100, votes=2_000, comments=300)
LIMIT_S = 30


@pytest.fixture
def site(database: Database) -> Database:
    """A small news site."""
    with psycopg.connect(database.url, autocommit=True) as connection:
        create_tables(connection)
        load(connection, SMALL, lambda _table, _rows: None)
    return database


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not condition():
            await asyncio.sleep(0.005)


def wrong_scores(site: Database) -> int:
    found = site.query(
        "SELECT count(*) FROM stories s"
        " WHERE score <> (SELECT coalesce(sum(value), 0) FROM votes v WHERE v.story_id = s.id)"
    )
    return int(found[0][0])


def test_loaded_data_satisfies_every_constraint(site: Database) -> None:
    constraints = site.query("SELECT conrelid::regclass::text, conname FROM pg_constraint WHERE contype = 'f'")
    assert constraints
    for table, name in constraints:
        definition = site.query("SELECT pg_get_constraintdef(oid) FROM pg_constraint WHERE conname = %s", name)[0][0]
        site.execute(
            f"ALTER TABLE {table} DROP CONSTRAINT {name}", f"ALTER TABLE {table} ADD CONSTRAINT {name} {definition}"
        )
    assert wrong_scores(site) == 0


def test_every_table_has_its_full_old_row_in_the_stream(site: Database) -> None:
    found = site.query(
        "SELECT DISTINCT relreplident::text FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
    )
    assert found == [("f",)]


def test_writing_keeps_the_site_consistent(site: Database) -> None:
    async def write() -> int:
        writes = WriteLoad(site.url, SMALL, per_second=2_000, writers=3)
        await writes.start()
        await until(lambda: writes.transactions >= 600 or writes.failure is not None)
        await writes.stop()
        assert writes.failure is None
        return writes.transactions

    assert asyncio.run(write()) >= 600
    assert wrong_scores(site) == 0
    assert site.query("SELECT count(*) FROM stories") > [(SMALL.stories,)]


def test_paused_means_still(site: Database) -> None:
    async def write() -> None:
        writes = WriteLoad(site.url, SMALL, per_second=2_000, writers=3)
        await writes.start()
        await until(lambda: writes.transactions >= 50)
        await writes.pause()
        done = writes.transactions
        newest = site.query("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")
        open_ones = site.query(
            "SELECT count(*) FROM pg_stat_activity WHERE state <> 'idle' AND pid <> pg_backend_pid() AND datname = %s",
            site.name,
        )
        assert open_ones == [(0,)]
        assert writes.transactions == done
        assert site.query("SELECT pg_snapshot_xmax(pg_current_snapshot())::text") == newest
        writes.resume()
        await until(lambda: writes.transactions > done)
        await writes.stop()

    asyncio.run(write())


def test_every_lookup_of_the_views_has_an_index(site: Database) -> None:
    """The parameters and join columns of the demo's views lead an index each."""
    led = site.query(
        "SELECT i.indrelid::regclass::text, a.attname::text FROM pg_index i"
        " JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = i.indkey[0]"
    )
    needed = {
        ("stories", "id"),
        ("stories", "author"),
        ("votes", "story_id"),
        ("comments", "story_id"),
        ("users", "name"),
        ("tags", "name"),
        ("taggings", "tag_id"),
    }
    assert needed <= set(led)
    assert len(VIEWS) >= 6
