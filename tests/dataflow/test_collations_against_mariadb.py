"""Collations read from a real server, against what it says itself: random texts, ``a = b`` and ``a < b``."""

import random
from collections.abc import Iterator
from functools import cache

import pytest

from dataflow.collations import Collation
from dataflow.functions.like import collated_matcher
from service.engine.databases.mysql.address import Address
from service.engine.databases.mysql.collations import load_collations
from service.engine.databases.mysql.connect import MySqlPool
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import LIMIT_S, run

PAIRS = 1500
COLLATIONS = (
    "utf8mb4_general_ci",
    "utf8mb4_general_nopad_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_nopad_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb4_unicode_520_nopad_ci",
    "utf8mb4_bin",
    "utf8mb4_uca1400_ai_ci",
    "utf8mb4_uca1400_nopad_ai_ci",
    "utf8mb4_uca1400_as_ci",
    "utf8mb4_uca1400_as_cs",
    "utf8mb3_general_ci",
    "utf8mb3_unicode_ci",
    "latin1_swedish_ci",
    "latin1_bin",
    "latin1_general_cs",
    "latin1_german1_ci",
    "ascii_general_ci",
    "cp1251_general_ci",
)
#: Compared wrongly by many: accents, expansions, what is ignored, what sorts around a space, contractions.
AWKWARD = (
    " \t\x01\x00aAbBáÁäßẞsSeéEœŒæÆ\N{COMBINING ACUTE ACCENT}\N{COMBINING DIAERESIS}\N{SOFT HYPHEN}\N{NO-BREAK SPACE}"
    "\N{ZERO WIDTH JOINER}日本😀🎉ﬁﬀﷺｱ-'._\uffff한ﾞ゙かがĲij\N{ROMAN NUMERAL ONE}Ийเกขແລ\N{COMBINING BREVE}⩵⩶∬∭"
)
CYRILLIC = " aAЖжЁёeE\tЂ№"


@cache
def characters(charset: str) -> str:
    """Return the awkward characters that the character set contains."""
    if charset in ("latin1", "ascii", "cp1251"):
        python = {"latin1": "cp1252", "ascii": "ascii", "cp1251": "cp1251"}[charset]
        return "".join(c for c in dict.fromkeys(AWKWARD + CYRILLIC + "ÀàÿŸ€") if c.encode(python, "ignore"))
    return "".join(c for c in AWKWARD if charset == "utf8mb4" or ord(c) < 0x10000)


def texts(randomness: random.Random, charset: str) -> Iterator[str]:
    awkward = characters(charset)
    limit = {"utf8mb4": 0x110000, "utf8mb3": 0x10000}.get(charset, 0x80)
    while True:
        alphabet = randomness.choice((awkward, awkward[:8], "aA b\x01"))
        text = [randomness.choice(alphabet) for _ in range(randomness.choice((0, 1, 1, 2, 3, 4, 6)))]
        if randomness.random() < 0.2:
            code = randomness.randrange(0x20, randomness.choice((0x80, min(limit, 0x3000), limit)))
            text.append("" if 0xD800 <= code < 0xE000 else chr(code))
        yield "".join(text) + " " * randomness.choice((0, 0, 0, 1, 2))


def pairs(collation: Collation, charset: str) -> list[tuple[str, str]]:
    randomness = random.Random(collation.name)
    source = texts(randomness, charset)
    found = []
    for one in source:
        other = next(source)
        choice = randomness.random()
        if choice < 0.3:
            other = collation.normal(one)
        elif choice < 0.7 and one:
            # Almost the same.
            place = randomness.randrange(len(one))
            other = one[:place] + randomness.choice(("", " ", "a", "\x01")) + one[place + randomness.randrange(2) :]
        found.append((one, other))
        if len(found) == PAIRS:
            break
    return found


def loaded(database: MariaDatabase, name: str) -> Collation:
    async def load() -> Collation | None:
        pool = MySqlPool(Address.parse(database.url))
        try:
            async with pool.connection() as wire:
                return (await load_collations(wire, [name])).get(name)
        finally:
            await pool.close()

    found = run(load(), 10 * LIMIT_S)
    assert found is not None, name
    return found


@pytest.mark.parametrize("name", COLLATIONS)
def test_texts_compare_as_the_server_says(mariadb: MariaDatabase, name: str) -> None:
    collation = loaded(mariadb, name)
    charset = name.partition("_")[0]
    tried = pairs(collation, charset)
    kind = f"varchar(50) CHARACTER SET {charset} COLLATE {name}"
    mariadb.execute(f"CREATE TABLE p (n int PRIMARY KEY, a {kind}, b {kind})")
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO p VALUES (%s, %s, %s)", [(n, a, b) for n, (a, b) in enumerate(tried)])
    answers = mariadb.query("SELECT n, a = b, a < b FROM p ORDER BY n")
    assert sum(equal for _, equal, _ in answers) > PAIRS // 5
    for n, equal, less in answers:
        a, b = tried[n]
        one, other = collation.order(a), collation.order(b)
        assert (collation.normal(a) == collation.normal(b), one == other, one < other) == (equal, equal, less), (a, b)
        assert one == other or not other.startswith(one)
        assert collation.text(one + b"more") == (collation.normal(a), len(one))


def rows_of(database: MariaDatabase, name: str, tried: list[tuple[str, str]]) -> list[bool]:
    """Return the server's answers to ``a LIKE b``."""
    kind = f"varchar(50) CHARACTER SET {name.partition('_')[0]} COLLATE {name}"
    database.execute(f"CREATE TABLE p (n int PRIMARY KEY, a {kind}, b {kind})")
    with database.connect() as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO p VALUES (%s, %s, %s)", [(n, a, b) for n, (a, b) in enumerate(tried)])
    return [bool(found) for (found,) in database.query("SELECT a LIKE b FROM p ORDER BY n")]


@pytest.mark.parametrize("name", [name for name in COLLATIONS if name.startswith("utf8") and "_as_" not in name])
def test_like_takes_the_characters_as_equal_that_the_server_does(mariadb: MariaDatabase, name: str) -> None:
    collation = loaded(mariadb, name)
    randomness = random.Random(name)
    end = 0x110000 if name.startswith("utf8mb4") else 0x10000
    codes = [*range(1, 0x3400), *range(0xF900, 0xFFFE), *range(0x10000, min(end, 0x10400))]
    codes += [code for code in randomness.choices(range(0x3400, end), k=5000) if code not in range(0xD800, 0xE000)]
    tried: dict[tuple[str, str], None] = {}
    for character in map(chr, codes):
        others = collation.characters(character), collation.normal(character), chr(randomness.choice(codes))
        tried.update(((character, other), None) for other in others if len(other) == 1)
    expected = [collation.characters(a) == collation.characters(b) for a, b in tried]
    found = rows_of(mariadb, name, [(a, f"\\{b}") for a, b in tried])
    assert [pair for pair, one, other in zip(tried, expected, found, strict=True) if one != other] == []


@pytest.mark.parametrize("name", [name for name in COLLATIONS if name.startswith("utf8") and "_as_" not in name])
def test_like_is_the_servers(mariadb: MariaDatabase, name: str) -> None:
    collation = loaded(mariadb, name)
    randomness = random.Random(name)
    tried = []
    for one, other in pairs(collation, name.partition("_")[0]):
        pattern = randomness.choice((one, other))
        for _ in range(randomness.randrange(4)):
            place = randomness.randrange(len(pattern) + 1)
            pattern = pattern[:place] + randomness.choice("%%_\\") + pattern[place + randomness.randrange(2) :]
        tried.append((one, pattern))
    expected = [collated_matcher(pattern, collation.characters)(text) for text, pattern in tried]
    found = rows_of(mariadb, name, tried)
    assert sum(found) > PAIRS // 10
    assert any(pattern.endswith("\\") for _, pattern in tried)
    assert [pair for pair, one, other in zip(tried, expected, found, strict=True) if one != other] == []


@pytest.mark.parametrize(
    "name", ["utf8mb4_czech_ci", "utf8mb4_uca1400_spanish2_ai_ci", "latin1_german2_ci", "gbk_chinese_ci"]
)
def test_collations_of_languages_are_not_guessed(mariadb: MariaDatabase, name: str) -> None:
    async def load() -> dict[str, Collation]:
        pool = MySqlPool(Address.parse(mariadb.url))
        try:
            async with pool.connection() as wire:
                return await load_collations(wire, [name])
        finally:
            await pool.close()

    found = run(load(), 10 * LIMIT_S)
    assert name == "latin1_german2_ci" or not found
