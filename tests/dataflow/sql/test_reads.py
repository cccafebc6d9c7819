"""Columns, filters and keys that a SQL text reads of each table; in doubt, all of them."""

import pytest

from dataflow.plan.refresh import RefreshParameter, TableRead
from dataflow.plan.render import render
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.sql.reads import table_reads, words_of

INT = SqlType("int4", "int4")
TEXT = SqlType("text", "text")
NUMERIC = SqlType("numeric", "numeric")
CATALOG = Catalog(
    {
        "public.stories": Table(
            "public.stories",
            (Column("id", INT), Column("title", TEXT), Column("author", INT), Column("score", NUMERIC)),
        ),
        "public.votes": Table("public.votes", (Column("story_id", INT), Column("voter", INT), Column("vote", INT))),
    }
)
PARAMETERS = (RefreshParameter("id", INT), RefreshParameter("ids", INT, True), RefreshParameter("score", NUMERIC))


def shown(read: TableRead) -> str:
    """``votes(story_id vote) where vote > 0 key story_id=id``"""
    table = CATALOG.tables[read.table]
    names = [column.name for column in table.columns]
    text = f"{read.table.removeprefix('public.')}({' '.join(names[i] for i in sorted(read.columns))})"
    if read.predicate is not None:
        text += f" where {render(read.predicate, names.__getitem__)}"
    for column, position in read.keys:
        text += f" key {names[column]}={PARAMETERS[position].name}"
    return text


def reads_of(sql: str, *views: str, tables: tuple[str, ...] = ("public.stories", "public.votes")) -> list[str]:
    return [shown(read) for read in table_reads([sql, *views], tables, CATALOG, PARAMETERS)]


STORIES = "stories(id title author score)"
VOTES = "votes(story_id voter vote)"


@pytest.mark.parametrize(
    ("sql", "stories"),
    [
        ("SELECT id FROM stories WHERE author > 5", "stories(id author) where author > 5"),
        ("SELECT id FROM stories WHERE id = :id", "stories(id) key id=id"),
        ("SELECT id FROM stories WHERE :id::int8 = id", "stories(id) key id=id"),
        (
            "SELECT id FROM stories s WHERE (s.id = (:id)) AND (author = 1)",
            "stories(id author) where author = 1 key id=id",
        ),
        # Not by text: 1.0 is 1.00, and a list is many keys.
        ("SELECT id FROM stories WHERE score = :score", "stories(id score)"),
        ("SELECT id FROM stories WHERE id = ANY(:ids)", "stories(id)"),
        ("SELECT id FROM stories WHERE id = :id OR author = 1", "stories(id author)"),
        ("SELECT id FROM stories WHERE id = :id + 1", "stories(id)"),
        ("SELECT * FROM stories", STORIES),
        ("SELECT count(*) FROM stories", "stories()"),
        ("SELECT s FROM stories s", STORIES),
        ("SELECT to_jsonb(s) FROM stories s WHERE id = :id", f"{STORIES} key id=id"),
        ("SELECT to_jsonb(j) FROM (stories s CROSS JOIN (SELECT 1) o) AS J", STORIES),
        ("SELECT count(j), j::text FROM (stories s CROSS JOIN (SELECT 1) o) AS j", STORIES),
        ("SELECT id FROM (stories s CROSS JOIN (SELECT 1) o) AS j WHERE ROW(j) IS NULL AND (j) < (j)", STORIES),
        ("SELECT ROW(j.*) FROM (stories s CROSS JOIN (SELECT 1) o) AS j", STORIES),
        ("SELECT ARRAY[j] FROM (stories s CROSS JOIN (SELECT 1) o) AS j", STORIES),
        ("SELECT described(j) FROM (stories s CROSS JOIN (SELECT 1) o) AS j", STORIES),
        ("SELECT described(s), ARRAY[s.id] FROM stories s", STORIES),
        ("SELECT to_jsonb(q) FROM (SELECT * FROM stories) AS q", STORIES),
        ("SELECT to_jsonb(q) FROM (SELECT id, s AS whole FROM stories s) AS q", STORIES),
        ("SELECT (j).title FROM (stories s CROSS JOIN (SELECT 1) o) AS j", STORIES),
        ("SELECT id FROM stories NATURAL JOIN (SELECT 1 AS id) o", STORIES),
        ("SELECT id FROM stories JOIN (SELECT 1 AS id) o USING (id)", "stories(id)"),
        (f'SELECT "{"a" * 80}" AS id FROM stories', "stories(id)"),
        ("SELECT a FROM (stories s CROSS JOIN (SELECT 1) o) AS j(a, b)", STORIES),
        ("SELECT j FROM stories s JOIN (SELECT 1 AS id) o USING (id) AS j", STORIES),
        ("SELECT public.stories FROM public.stories", STORIES),
        ("SELECT public.stories.title FROM public.stories", "stories(title)"),
        ("SELECT l.r FROM stories s, LATERAL (SELECT s AS r) l", STORIES),
        ("SELECT a FROM stories s(a, b)", STORIES),
        ("SELECT id FROM stories WHERE random() < author", "stories(id author)"),
        ("SELECT id FROM stories WHERE author IN (SELECT 1)", "stories(id author)"),
        ('SELECT "title" FROM stories', "stories(title)"),
        ("SELECT id FROM ONLY stories WHERE author = 1", "stories(id author)"),
        ("SELECT id FROM stories TABLESAMPLE system (1) WHERE author = 1", "stories(id author)"),
        ("TABLE stories", STORIES),
        ("this is no SQL", STORIES),
    ],
)
def test_one_table(sql: str, stories: str) -> None:
    assert reads_of(sql, tables=("public.stories",)) == [stories]


@pytest.mark.parametrize(
    ("sql", "reads"),
    [
        (
            "SELECT s.id FROM stories s JOIN votes v ON v.story_id = s.id AND v.vote = 1 WHERE s.id = :id",
            ["stories(id) key id=id", "votes(story_id vote) where vote = 1 key story_id=id"],
        ),
        # What is joined to it does not matter for a row that no left one joins.
        (
            "SELECT s.id FROM stories s LEFT JOIN votes v ON v.story_id = s.id AND v.vote = 1 AND s.author = 2"
            " WHERE s.id = :id",
            ["stories(id author) key id=id", "votes(story_id vote) where vote = 1 key story_id=id"],
        ),
        # The padded row would not fail.
        (
            "SELECT s.id FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.vote IS NULL",
            ["stories(id)", "votes(story_id vote)"],
        ),
        (
            "SELECT s.id FROM stories s LEFT JOIN votes v ON v.story_id = s.id WHERE v.vote = 3",
            ["stories(id)", "votes(story_id vote) where vote = 3"],
        ),
        (
            "SELECT s.id FROM stories s RIGHT JOIN votes v ON v.story_id = s.id AND v.vote = 1 WHERE s.author IS NULL",
            ["stories(id author)", "votes(story_id vote)"],
        ),
        (
            "SELECT s.id FROM stories s FULL JOIN votes v ON v.story_id = s.id WHERE v.vote = 1 AND s.author = 1",
            ["stories(id author) where author = 1", "votes(story_id vote) where vote = 1"],
        ),
        (
            "SELECT (SELECT max(vote) FROM votes v WHERE v.story_id = s.id) FROM stories s WHERE s.id = :id",
            ["stories(id) key id=id", "votes(story_id vote) key story_id=id"],
        ),
        (
            "SELECT x.n FROM stories s, LATERAL (SELECT count(*) AS n FROM votes v WHERE v.story_id = s.id) x"
            " WHERE s.id = :id",
            ["stories(id) key id=id", "votes(story_id) key story_id=id"],
        ),
        # Without LATERAL, s is another one, further out.
        (
            "SELECT (SELECT count(*) FROM stories s, (SELECT FROM votes v WHERE v.story_id = s.author) x"
            " WHERE s.author = :id) FROM stories s",
            ["stories(author)", "stories(author) key author=id", "votes(story_id)"],
        ),
        # A name of WITH may hide the table, so nothing that is said of it is believed.
        (
            "WITH votes AS (SELECT story_id FROM votes WHERE vote = 1) SELECT id FROM stories JOIN votes"
            " ON story_id = id WHERE story_id = :id",
            ["stories(id)", "votes(story_id vote)"],
        ),
        (
            "SELECT id FROM stories WHERE author = 1 UNION ALL SELECT id FROM stories WHERE id = :id"
            " UNION SELECT voter FROM votes",
            ["stories(id author) where author = 1", "stories(id author) key id=id", "votes(voter)"],
        ),
        ("SELECT id FROM stories NATURAL JOIN votes", [STORIES, VOTES]),
        (
            "SELECT id FROM stories, votes WHERE author = 1 AND vote = voter",
            ["stories(id author) where author = 1", "votes(voter vote) where vote = voter"],
        ),
        (
            "SELECT a.id FROM stories a JOIN stories b ON b.author = a.id JOIN votes ON voter = b.id WHERE a.id = :id",
            ["stories(id author) key id=id", "stories(id author) key author=id", "votes(voter)"],
        ),
    ],
)
def test_several_tables(sql: str, reads: list[str]) -> None:
    assert reads_of(sql) == reads


def test_a_view_of_the_upstream_is_read_through() -> None:
    found = reads_of(
        "SELECT id FROM scores WHERE id = :id", " SELECT s.id, v.vote FROM stories s, votes v WHERE v.vote = 2;"
    )
    assert found == ["stories(id)", "votes(vote) where vote = 2"]


def test_a_table_that_is_not_found_in_the_text_is_read_whole() -> None:
    assert reads_of("SELECT f(id) FROM stories") == ["stories(id)", VOTES]


def test_words() -> None:
    words = words_of("SELECT Now(), t.user, user, \"Odd\", 'today' FROM f(1) AS current_date -- current_time")
    assert words.called == {"now", "f"}
    assert "user" in words.bare
    assert "Odd" in words.names
    assert not {"current_time", "current_date", "today"} & words.bare
    assert words.strings == ("today",)
    assert words_of("SELECT t.user").bare == {"select", "t"}
