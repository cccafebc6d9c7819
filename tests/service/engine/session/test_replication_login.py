"""Two logins: one for lookups, which may not read the stream, and one for the stream, which may not read tables."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from service.engine.session.runtime import CannotStartError, Runtime
from service.protocol.reads import ReadItem
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.postgres import Database
from tests.service.engine.running import running

TABLE = "CREATE TABLE stories (id int PRIMARY KEY, title varchar(40) NOT NULL)"
ROWS = "INSERT INTO stories VALUES (1, 'one'), (2, 'two')"


@dataclass
class Logins:
    """A database, and the URLs of both logins, without passwords."""

    database: Database | MariaDatabase
    lookups: str
    stream: str

    def running(self, directory: Path, **cdc: Any) -> Any:
        url = {"url": self.lookups, "password": "for lookups"}
        return running(self.database, directory, upstream=url, cdc={"password": "for the stream", **cdc})


@pytest.fixture
def postgres_logins(database: Database) -> Iterator[Logins]:
    reader, streamer = f"reader_{database.name}", f"streamer_{database.name}"
    database.execute(
        TABLE,
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        ROWS,
        "CREATE PUBLICATION upquery FOR TABLE stories",
        f"CREATE ROLE {reader} LOGIN PASSWORD 'for lookups'",
        f"GRANT SELECT ON stories TO {reader}",
        f"CREATE ROLE {streamer} LOGIN REPLICATION PASSWORD 'for the stream'",
    )
    at = database.url.partition("@")[2]
    yield Logins(database, f"postgresql://{reader}@{at}", f"postgresql://{streamer}@{at}")
    database.execute(f"DROP OWNED BY {reader}", f"DROP ROLE {reader}", f"DROP ROLE {streamer}")


@pytest.fixture
def mariadb_logins(mariadb: MariaDatabase) -> Iterator[Logins]:
    reader, streamer = f"reader_{mariadb.name}", f"streamer_{mariadb.name}"
    mariadb.execute(
        TABLE,
        ROWS,
        f"CREATE USER {reader} IDENTIFIED BY 'for lookups'",
        f"GRANT SELECT ON {mariadb.name}.* TO {reader}",
        f"GRANT BINLOG MONITOR ON *.* TO {reader}",
        f"CREATE USER {streamer} IDENTIFIED BY 'for the stream'",
        f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {streamer}",
    )
    server = f"127.0.0.1:{mariadb.server.port}"
    yield Logins(
        mariadb, f"mariadb://{reader}@{server}/{mariadb.name}", f"mariadb://{streamer}@{server}/information_schema"
    )
    mariadb.execute(f"DROP USER {reader}", f"DROP USER {streamer}")


@pytest.fixture(
    params=[
        pytest.param("postgres_logins", marks=pytest.mark.postgres),
        pytest.param("mariadb_logins", marks=pytest.mark.mariadb),
    ]
)
def logins(request: pytest.FixtureRequest) -> Logins:
    found: Logins = request.getfixturevalue(request.param)
    return found


async def title(runtime: Runtime, story: int) -> bytes:
    reply = await runtime.read([ReadItem("story", (str(story),), None)])
    return reply.answers[0].rows


def test_each_login_does_with_its_own_rights(logins: Logins, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with asyncio.timeout(60), logins.running(tmp_path, url=logins.stream) as runtime:
            assert await title(runtime, 1) == b'[{"id":1,"title":"one"}]'
            logins.database.execute("UPDATE stories SET title = 'uno' WHERE id = 1")
            await runtime.reach(await runtime.checkpoint())
            assert await title(runtime, 1) == b'[{"id":1,"title":"uno"}]'
            assert runtime.counters.rows == 2

    asyncio.run(scenario())


def test_the_lookups_login_alone_is_refused_with_what_it_lacks(logins: Logins, tmp_path: Path) -> None:
    async def scenario(**cdc: Any) -> None:
        async with asyncio.timeout(60), logins.running(tmp_path, **cdc):
            pass

    with pytest.raises(CannotStartError, match="REPLICATION"):
        asyncio.run(scenario())
    with pytest.raises(CannotStartError, match="REPLICATION") as caught:
        asyncio.run(scenario(url=logins.lookups, password="for lookups"))
    assert "for lookups" not in str(caught.value)
