"""Subscriptions over MariaDB, at two workers: each remembers by itself, and nobody misses anything unnoticed."""

import asyncio
import random
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.service import LIMIT_S, RunningService, running_service
from tests.integration.subscribers import Follower, following, until

pytestmark = pytest.mark.mariadb

BOARDS = 4
NAMES = ("id", "place", "body")
SQL = "SELECT id, place, body FROM notes WHERE board = :board ORDER BY place, id"
VIEWS = {"board": SQL, "first": f"{SQL} LIMIT 4"}


@dataclass
class Place:
    """A service over boards of notes."""

    service: RunningService
    database: MariaDatabase

    def url(self, view: str, path: str = "", **parameters: object) -> str:
        return f"{self.service.http}/v1/views/{view}{path}?{urlencode(parameters)}"

    def expected(self, view: str, board: int) -> list[dict[str, Any]]:
        rows = self.database.query(VIEWS[view].replace(":board", "%s"), board)
        return [dict(zip(NAMES, row, strict=True)) for row in rows]

    def change(self, changes: int, seed: int) -> None:
        """Random transactions of one or two changes each; blocks."""
        draw = random.Random(seed)
        with closing(self.database.connect(autocommit=False)) as connection, connection.cursor() as cursor:
            for number in range(changes):
                for _ in range(draw.randint(1, 2)):
                    note, board, place = draw.randint(1, 40), draw.randint(1, BOARDS), draw.randrange(99)
                    if draw.random() < 0.3:
                        cursor.execute("REPLACE INTO notes VALUES (%s, %s, %s, 'new')", (note, board, place))
                    elif draw.random() < 0.3:
                        cursor.execute("DELETE FROM notes WHERE id = %s", (note,))
                    else:
                        body = f"{seed}.{number}"
                        cursor.execute("UPDATE notes SET place = %s, body = %s WHERE id = %s", (place, body, note))
                connection.commit()


def test_at_two_workers(mariadb: MariaDatabase, tmp_path: Path) -> None:
    mariadb.execute(
        "CREATE TABLE notes (id int PRIMARY KEY, board int NOT NULL, place int NOT NULL, body varchar(40),"
        " KEY (board))",
        "INSERT INTO notes SELECT seq, 1 + seq % 4, seq % 7, 'note' FROM seq_1_to_40",
    )
    with running_service(tmp_path / "service", mariadb.url, VIEWS, http={"workers": 2}) as service:
        place = Place(service, mariadb)
        asyncio.run(everybody_is_right_at_last(place))


async def everybody_is_right_at_last(place: Place) -> None:
    followers = [Follower(place, view, 1 + n % BOARDS) for n in range(12) for view in VIEWS]  # type: ignore[arg-type]
    resumed = 0
    async with following(followers):
        for seed in range(4):
            await asyncio.to_thread(place.change, 25, seed)
            for follower in followers[::2]:
                assert follower.source is not None
                follower.source.close()
                await asyncio.to_thread(place.change, 1, seed + 10)
                source = await follower.open(resume=True)
                resumed += source.status == 200
                if source.status != 200:
                    # The other worker does not know what was missed, and says so.
                    await asyncio.wait_for(source.ended, LIMIT_S)
                    assert source.problem["code"] == "must_refetch"
                    await follower.open()
        for follower in followers:
            await until(follower.is_right, what=f"{follower.view} {follower.board}")
    assert resumed
