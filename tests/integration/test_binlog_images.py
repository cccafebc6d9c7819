"""Partial row images of a real server: random statements of any `binlog_row_image`, applied to a copy of the table."""

from contextlib import closing, suppress
from random import Random
from typing import Any

import pymysql
import pytest

from cdc.change import UNKNOWN, ChangedRow, TableChange
from tests.fixtures.binlogs import following
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.seeds import day_seed
from tests.fixtures.streams import run

pytestmark = pytest.mark.mariadb

KEYED = (
    "CREATE TABLE items (tenant int NOT NULL DEFAULT 1, id int NOT NULL, a int DEFAULT 3, body text, c varchar(9) "
    "DEFAULT 'c', u int UNIQUE, v int AS (a * 2) VIRTUAL, s int AS (a * 3) STORED, PRIMARY KEY (tenant, id))"
)
SIMPLE = "CREATE TABLE items (id int PRIMARY KEY, a int DEFAULT 3, body text, c varchar(9) DEFAULT 'c', u int UNIQUE)"
IMAGES = ("MINIMAL", "MINIMAL", "NOBLOB", "FULL")


def statement(rng: Random) -> str:
    """A change of some rows."""
    i, n, u = rng.randint(1, 6), rng.randint(0, 3), rng.choice(("NULL", "1", "2", "3"))
    text = f"'{'x' * n}'"
    return rng.choice(
        (
            f"INSERT IGNORE INTO items (id) VALUES ({i})",
            f"INSERT IGNORE INTO items (id, body, u) VALUES ({i}, {text}, {u})",
            f"INSERT INTO items (id, a) VALUES ({i}, {n}) ON DUPLICATE KEY UPDATE c = {text}, a = a + 1",
            f"REPLACE INTO items (id, body) VALUES ({i}, {text})",
            f"REPLACE INTO items (id, a, u) VALUES ({i}, {n}, {u})",
            f"UPDATE items SET a = {n} WHERE id = {i}",
            f"UPDATE items SET a = {n}, body = {text} WHERE id <= {i}",
            f"UPDATE items SET c = {text} WHERE id = {i}",
            f"UPDATE IGNORE items SET id = {i} WHERE id = {rng.randint(1, 6)}",
            f"UPDATE IGNORE items SET u = {u} WHERE id = {i}",
            f"DELETE FROM items WHERE id = {i}",
        )
    )


class Copy:
    """The table, as far as its changes determine it: UNKNOWN stands for any value."""

    def __init__(self, key: tuple[int, ...]) -> None:
        self.key = key
        self.rows: dict[ChangedRow, ChangedRow] = {}

    def apply(self, change: TableChange) -> None:
        pairs = [(row, None) for row in change.removed] + list(change.partial)
        old = [None if before is None else self._taken(before) for before, _ in pairs]
        for before, (_, after) in zip(old, pairs, strict=True):
            if after is not None:
                row = (
                    after
                    if before is None
                    else tuple(b if a is UNKNOWN else a for a, b in zip(after, before, strict=True))
                )
                self._put(row)
        for row in change.added:
            self._put(row)

    def _key(self, row: ChangedRow) -> ChangedRow:
        return tuple(row[i] for i in self.key)

    def _taken(self, image: ChangedRow) -> ChangedRow:
        row = self.rows.pop(self._key(image))
        assert _may_be(row, image), (row, image)
        return row

    def _put(self, row: ChangedRow) -> None:
        assert UNKNOWN not in self._key(row)
        assert self._key(row) not in self.rows
        self.rows[self._key(row)] = row


def _may_be(known: ChangedRow, row: ChangedRow) -> bool:
    return all(UNKNOWN in (a, b) or a == b for a, b in zip(known, row, strict=True))


@pytest.mark.parametrize(("table", "key"), [(SIMPLE, (0,)), (KEYED, (0, 1))])
def test_random_statements(mariadb: MariaDatabase, table: str, key: tuple[int, ...]) -> None:
    rng = Random(day_seed(f"row images {len(key)}"))
    mariadb.execute(table)

    async def check() -> None:
        copy, overflows, unknown = Copy(key), 0, 0
        async with following(mariadb, "items") as stream:
            name = stream.name("items")
            with closing(mariadb.connect(autocommit=False)) as connection, connection.cursor() as cursor:
                for _ in range(200):
                    for _ in range(rng.randint(1, 4)):
                        cursor.execute(f"SET binlog_row_image = '{rng.choice(IMAGES)}'")
                        with suppress(pymysql.err.IntegrityError):
                            cursor.execute(statement(rng))
                    connection.commit()
                    actual = _rows(cursor, key)
                    for transaction in await stream.catch_up():
                        change = transaction.tables[name]
                        unknown += bool(change.partial)
                        if change.overflow:
                            overflows += 1
                            copy.rows = dict(actual)
                        else:
                            copy.apply(change)
                    assert copy.rows.keys() == actual.keys()
                    assert all(_may_be(copy.rows[k], actual[k]) for k in actual), (copy.rows, actual)
            assert stream.notices == []
        assert unknown > 50
        assert overflows < (10 if key == (0,) else 120)

    run(check())


def _rows(cursor: Any, key: tuple[int, ...]) -> dict[ChangedRow, ChangedRow]:
    cursor.execute("SELECT * FROM items")
    rows = [tuple(None if v is None else str(v) for v in row) for row in cursor.fetchall()]
    return {tuple(row[i] for i in key): row for row in rows}
