"""Collations as they are read from the server compare as the server does."""

import random

import pytest

from dataflow.collations import Collation
from service.engine.databases.mysql.collations import load_collations
from service.engine.databases.mysql.sql_text import quoted
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run
from tests.service.engine.databases.mysql.upstreams import opened

pytestmark = pytest.mark.mariadb

PAIRS = 1500
#: What texts are made of: letters with and without marks, of several scripts, ignorable, special, and far away ones.
ALPHABET = (
    "abzABZ 0_-éÉèêßsSłŁÆæœñÑ\u0131İiIåÅøØЙйИ\u0306\u0301\u00ad\u200b"
    "ǆĳﬀΣ\u03c3ςΩ漢字한글กเแ€\u2003\t\U0001d400𐐀😀\ue000"
)


def known(mariadb: MariaDatabase, name: str) -> Collation | None:
    async def load() -> Collation | None:
        async with opened(mariadb.url) as upstream, upstream.pool.connection() as wire:
            return (await load_collations(wire, [name])).get(name)

    return run(load())


@pytest.mark.parametrize(
    "name",
    [
        "utf8mb4_general_ci",
        "utf8mb4_bin",
        "utf8mb4_nopad_bin",
        "utf8mb4_unicode_ci",
        "utf8mb4_unicode_520_ci",
        "utf8mb4_unicode_520_nopad_ci",
        "utf8mb4_uca1400_ai_ci",
        "utf8mb4_uca1400_nopad_ai_ci",
        "utf8mb3_general_ci",
        "latin1_swedish_ci",
        "latin1_german2_ci",
        "latin1_bin",
        "cp1251_general_ci",
        "ascii_general_ci",
    ],
)
def test_it_compares_as_the_server_does(mariadb: MariaDatabase, name: str) -> None:
    """Equality and order of texts made at random, and of almost equal ones."""
    collation = known(mariadb, name)
    assert collation is not None
    charset = name.partition("_")[0]
    codec = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "latin1": "cp1252"}.get(charset, charset)
    letters = [c for c in ALPHABET if _has(codec, c) and (charset != "utf8mb3" or ord(c) < 0x10000)]
    chance = random.Random(name)
    pairs = []
    for _ in range(PAIRS):
        one = chance.choices(letters, k=chance.randrange(5))
        other = list(one) if chance.random() < 0.7 else chance.choices(letters, k=chance.randrange(5))
        for _ in range(chance.randrange(3)):
            other.insert(chance.randrange(len(other) + 1), chance.choice(letters))
        pairs.append(("".join(one), "".join(other)))
    rows = ", ".join(f"({i}, {quoted(one)}, {quoted(other)})" for i, (one, other) in enumerate(pairs))
    mariadb.execute(
        f"CREATE TABLE pairs (i int PRIMARY KEY, a varchar(20) CHARACTER SET {charset} COLLATE {name}, b varchar(20)"
        f" CHARACTER SET {charset} COLLATE {name})",
        f"INSERT INTO pairs VALUES {rows}",
    )
    for i, one, other, equal, less in mariadb.query("SELECT i, a, b, a = b, a < b FROM pairs"):
        assert (one, other) == pairs[i]
        assert (collation.normal(one) == collation.normal(other)) == bool(equal), pairs[i]
        assert (collation.order(one) < collation.order(other)) == bool(less), pairs[i]


def _has(codec: str, character: str) -> bool:
    try:
        character.encode(codec)
    except UnicodeEncodeError:
        return False
    return True


@pytest.mark.parametrize("name", ["latin2_czech_cs", "utf8mb4_czech_ci", "sjis_japanese_ci", "tis620_thai_ci"])
def test_what_is_not_known(mariadb: MariaDatabase, name: str) -> None:
    """Contractions of a language, character sets of several bytes."""
    assert known(mariadb, name) is None
