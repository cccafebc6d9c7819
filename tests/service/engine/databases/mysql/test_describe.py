"""Description of statements without running them."""

import pytest

from dataflow.errors import InvalidQuery
from dataflow.sql.statement import statement_of
from service.engine.upstream.results import Described
from tests.fixtures.mariadb import MariaDatabase
from tests.service.engine.databases.mysql.upstreams import asked

pytestmark = pytest.mark.mariadb


@pytest.fixture(autouse=True)
def _schema(mariadb: MariaDatabase) -> None:
    mariadb.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title varchar(50), score decimal(6,2), at datetime(3), mood"
        " enum('a','b'), u bigint unsigned, f float)",
        "CREATE TABLE votes (story_id int, user_id int)",
        "CREATE VIEW scores AS SELECT s.id, count(*) AS votes FROM stories s JOIN votes v ON v.story_id = s.id"
        " GROUP BY s.id",
        "CREATE VIEW nested AS SELECT votes FROM scores WHERE id > 3",
        "CREATE VIEW recent AS SELECT id FROM stories WHERE at > now()",
        "CREATE FUNCTION votes_of(i int) RETURNS bigint DETERMINISTIC RETURN (SELECT COUNT(*) FROM votes)",
        "CREATE FUNCTION upper_of(i int) RETURNS int DETERMINISTIC RETURN i",
        "CREATE SEQUENCE numbers",
    )


def described(database: MariaDatabase, sql: str) -> Described:
    return asked(database, lambda session: session.describe(statement_of(sql, "mariadb")))


def test_columns_and_parameters(mariadb: MariaDatabase) -> None:
    sql = "SELECT id, score AS s, title, mood, u + 1 AS u1, COUNT(*) AS n, f FROM stories WHERE id = :b AND title = :a"
    found = described(mariadb, sql)
    assert [(p.name, p.type.sql, p.many) for p in found.parameters] == [("a", "varchar", False), ("b", "int", False)]
    assert [(name, t.sql) for name, t in found.output] == [
        ("id", "int"),
        ("s", "decimal(6,2)"),
        ("title", "varchar"),
        ("mood", "enum('a','b')"),
        ("u1", "bigint unsigned"),
        ("n", "bigint"),
        ("f", "float"),
    ]
    assert found.text.endswith("FROM stories WHERE id = $2::int4 AND title = $1::varchar")
    assert found.tables == {f"{mariadb.name}.stories"}
    assert [name for name, _ in found.columns] == [name for name, _ in found.output]
    assert found.volatile is None


@pytest.mark.parametrize(
    ("sql", "parameters"),
    [
        (
            "SELECT 1 FROM stories WHERE id IN (:ids) AND id NOT IN (:others)",
            [("ids", "int4", True), ("others", "int4", True)],
        ),
        ("SELECT 1 FROM stories s WHERE :p IS NULL OR s.id = :p", [("p", "int4", False)]),
        (
            "SELECT 1 FROM stories WHERE at BETWEEN :a AND :b",
            [("a", "mysql_datetime", False), ("b", "mysql_datetime", False)],
        ),
        ("SELECT id FROM stories LIMIT :n OFFSET ?", [("n", "int8", False), ("p1", "int8", False)]),
        ("SELECT :a + 1 FROM stories WHERE title LIKE :b", [("a", "numeric", False), ("b", "text", False)]),
        ("SELECT 1 FROM stories JOIN votes ON story_id = id WHERE user_id < :u", [("u", "int4", False)]),
        ("SELECT :x", [("x", "text", False)]),
    ],
)
def test_types_of_parameters(mariadb: MariaDatabase, sql: str, parameters: list[tuple[str, str, bool]]) -> None:
    """By what they stand beside; a text can be compared with anything."""
    assert [(p.name, p.type.name, p.many) for p in described(mariadb, sql).parameters] == parameters


@pytest.mark.parametrize(
    ("sql", "tables"),
    [
        ("SELECT * FROM nested WHERE FALSE", {"stories", "votes"}),
        ("SELECT (SELECT COUNT(*) FROM votes) FROM dual WHERE EXISTS (SELECT 1 FROM stories)", {"stories", "votes"}),
        ("WITH c AS (SELECT 1) SELECT * FROM c", set()),
        ("WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r WHERE n < 3) SELECT n FROM r", set()),
        ("SELECT t.x FROM JSON_TABLE('[1]', '$[*]' COLUMNS (x int PATH '$')) t", set()),
        ("SELECT id FROM stories UNION SELECT user_id FROM votes ORDER BY 1", {"stories", "votes"}),
        ("SELECT id FROM (stories, votes)", {"stories", "votes"}),
    ],
)
def test_tables_through_views(mariadb: MariaDatabase, sql: str, tables: set[str]) -> None:
    found = described(mariadb, sql)
    assert found.tables == {f"{mariadb.name}.{table}" for table in tables}
    assert found.volatile is None


def test_definitions_of_views(mariadb: MariaDatabase) -> None:
    assert len(described(mariadb, "SELECT * FROM nested").views) == 2


@pytest.mark.parametrize(
    ("sql", "reason"),
    [
        ("SELECT id FROM stories WHERE at > now()", "NOW depends on the current time."),
        ("SELECT id FROM recent", "CURRENT_TIMESTAMP is the current time."),
        ("SELECT current_date - 1", "CURRENT_DATE is the current time."),
        ("SELECT UNIX_TIMESTAMP()", "UNIX_TIMESTAMP depends on the current time."),
        ("SELECT user()", "USER depends on the session."),
        ("SELECT CURRENT_USER", "CURRENT_USER depends on the session."),
        ("SELECT rand()", "RAND returns a different value each time."),
        ("SELECT @x", "The query uses a session variable"),
        ("SELECT @@sql_mode", "The query uses a session variable"),
        ("SELECT votes_of(1)", "The dependencies of VOTES_OF are unknown."),
        ("SELECT `votes_of`(1)", "The dependencies of VOTES_OF are unknown."),
        ("SELECT {database}.upper_of(1)", "UPPER_OF is a user-defined function"),
        ("SELECT table_name FROM information_schema.tables", "is a system table"),
        ("SELECT user FROM mysql.user", "is a system table"),
    ],
)
def test_what_the_stream_does_not_say_all_about(mariadb: MariaDatabase, sql: str, reason: str) -> None:
    assert reason in (described(mariadb, sql.format(database=mariadb.name)).volatile or "")


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT DATE_FORMAT(at, '%Y now()'), UNIX_TIMESTAMP(at), EXTRACT(YEAR FROM at), CONCAT('@u') FROM stories",
        "SELECT GROUP_CONCAT(DISTINCT title ORDER BY id SEPARATOR ','), JSON_ARRAYAGG(id), COUNT(*) FROM stories",
        "SELECT ROW_NUMBER() OVER (PARTITION BY title ORDER BY id), LAG(title) OVER (ORDER BY id) FROM stories",
        "SELECT CAST(id AS CHAR(10)), CONVERT(score, DECIMAL(10,1)), IF(id IN (1, 2), 'a', 'b') FROM stories",
        "SELECT CASE WHEN (u > 1) THEN (SELECT 1) ELSE (2) END FROM stories WHERE NOT (u = 3) AND (id, u) IN ((1, 2))",
        "SELECT DATE_ADD(at, INTERVAL 1 DAY), at + INTERVAL (id) HOUR, TIMESTAMPDIFF(DAY, at, at) FROM stories",
        "SELECT t.`user` FROM (SELECT 1 AS `user`) t -- now()",
    ],
)
def test_what_depends_on_tables_and_pinned_settings_only(mariadb: MariaDatabase, sql: str) -> None:
    assert described(mariadb, sql).volatile is None


@pytest.mark.parametrize(
    ("sql", "reason", "where"),
    [
        ("SELECT nope FROM stories WHERE id = :id", "Unknown column 'nope'", "nope"),
        ("SELECT id FROM stories WHERE id = :id AND titel = 'x'", "Unknown column 'titel'", "titel"),
        ("SELECT id FROM storys", "storys' doesn't exist", "storys"),
        ("SELECT id FROM stories WHERE ORDER 5", "syntax error", "ORDER"),
    ],
)
def test_errors_say_where(mariadb: MariaDatabase, sql: str, reason: str, where: str) -> None:
    with pytest.raises(InvalidQuery) as caught:
        described(mariadb, sql)
    assert reason in caught.value.reason
    assert caught.value.span is not None
    assert sql[caught.value.span.start : caught.value.span.end] == where


@pytest.mark.parametrize("sql", ["DELETE FROM stories", "SHOW TABLES", "SELECT 1 INTO @x"])
def test_what_is_no_select(mariadb: MariaDatabase, sql: str) -> None:
    with pytest.raises(InvalidQuery, match="gives no columns"):
        described(mariadb, sql)
