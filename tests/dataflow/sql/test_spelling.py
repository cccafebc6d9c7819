"""Equal words for equal meanings, and nothing that is not understood to the letter."""

import pytest

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.sql.spelling import SiteKind, spelling_of

SQL = "SELECT id, title FROM stories s WHERE s.author = :author AND id IN (:ids) ORDER BY id LIMIT :n"


@pytest.mark.parametrize(
    "other",
    [
        "select ID,title\nfrom Stories S where s.AUTHOR='it''s' and id in(1,-2 , 3) order  by id limit 10;",
        "/* a */ SELECT id, title FROM stories s -- b\n WHERE s.author = $1 AND id IN ($2) ORDER BY id LIMIT ? ; ",
        "SELECT id, title FROM stories s WHERE s.author = 'x' AND id IN ('1') ORDER BY id LIMIT :author",
    ],
)
def test_one_meaning_has_many_spellings(other: str) -> None:
    assert spelling_of(other).words == spelling_of(SQL).words


@pytest.mark.parametrize(
    "other",
    [
        SQL.replace("title", '"Title"'),
        SQL.replace(":author", "upper('x')"),
        SQL.replace(":author", "E'x'"),
        SQL.replace(":author", "'x' || 'y'"),
        SQL.replace(":author", "'x'::varchar(3)"),
        SQL.replace(":author", "'a\\b'"),
        SQL.replace(":ids", "1, 'x'"),
        SQL.replace(":ids", ":a, :b"),
        SQL.replace(":n", "2 + 1"),
        SQL.replace("= :author", "<> 'x'"),
        SQL.replace("LIMIT :n", "LIMIT :n OFFSET 1"),
        SQL.replace(" s ", " AS s "),
    ],
)
def test_another_meaning_has_other_words(other: str) -> None:
    assert spelling_of(other).words != spelling_of(SQL).words


def test_sites_have_their_values() -> None:
    sites = spelling_of("SELECT 1 FROM t WHERE a = 'it''s' AND b IN (1, -2) AND c BETWEEN 1.5 AND :x LIMIT 3").sites
    assert [(site.kind, site.values, site.listed) for site in sites] == [
        (SiteKind.TEXT, ("it's",), False),
        (SiteKind.NUMBER, ("1", "-2"), True),
        (SiteKind.NUMBER, ("1.5",), False),
        (SiteKind.PARAMETER, ("x",), False),
        (SiteKind.NUMBER, ("3",), False),
    ]


def test_names_take_the_place_of_values() -> None:
    spelling = spelling_of("SELECT 1 FROM t WHERE a = 'x' AND b IN (1, 2) ;")
    names = dict(zip(spelling.sites, ("p", "q"), strict=True))
    assert spelling.with_names(names) == "SELECT 1 FROM t WHERE a = :p AND b IN (:q)"


@pytest.mark.parametrize(
    ("dialect", "sql"),
    [
        ("postgres", "SELECT 1 FROM t WHERE a = 1 /* /* */ OR true -- */"),
        ("mariadb", "SELECT 1 FROM t WHERE a = 1 /* /* */ OR true -- */"),
        ("mariadb", "SELECT 1 FROM t WHERE a = 1 /*! OR true */"),
        ("postgres", 'SELECT "pg_sleep"(1)'),
        ("postgres", 'SELECT U&"pg\\005fsleep"(1)'),
        ("postgres", "SELECT pg_read_file('x')"),
        ("mariadb", "SELECT `sleep`(1)"),
        ("mariadb", "SELECT load_file('x')"),
        ("mariadb", "SELECT 1 INTO OUTFILE 'x'"),
        ("postgres", "SELECT 1\0"),
        ("postgres", "SELECT\u00a01"),
    ],
)
def test_what_is_in_doubt_is_refused(dialect: str, sql: str) -> None:
    with pytest.raises((InvalidQuery, UnsupportedQuery)):
        spelling_of(sql, dialect)


@pytest.mark.parametrize(
    "sql",
    [
        f"SELECT {'(' * 101}1{')' * 101}",
        f"SELECT {'CASE WHEN true THEN ' * 101}1{' END' * 101}",
        f"{'SELECT * FROM (' * 101}SELECT 1{') AS t' * 101}",
        f"SELECT {'NOT ' * 1900}true",
        f"SELECT {'- ' * 9000}1",
        "SELECT 1 WHERE " + " OR ".join(["1 = 1"] * 1990),
    ],
)
def test_hostile_texts_are_refused(sql: str) -> None:
    with pytest.raises((InvalidQuery, UnsupportedQuery), match=r"too large|too deeply"):
        spelling_of(sql)


def test_long_lists_are_read() -> None:
    assert len(spelling_of(f"SELECT id FROM t WHERE id IN ({', '.join(map(str, range(1000)))})").sites) == 1
