"""SQL in values and claims over MariaDB, whose text protocol has no parameters: statements get constants."""

from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest

from service.web.auth.tokens import entry_text, new_token
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.service import RunningService, running_service
from tests.integration.guarded import SQL

pytestmark = pytest.mark.mariadb
#: What a backslash in a constant means is the server's setting.
MODES = ("", "NO_BACKSLASH_ESCAPES")

VIEWS = {
    "titled": "SELECT id, title FROM stories WHERE title = :title",
    # Not kept incrementally.
    "noted": "SELECT id, title, RAND() < 2 AS late FROM stories WHERE title = :title OR CAST(id AS CHAR) = :other",
    "listed": "SELECT id, RAND() < 2 AS late FROM stories WHERE title IN (:titles)",
    "counted": "SELECT id, RAND() < 2 AS late FROM stories WHERE id > :above LIMIT 1",
    "mine": "SELECT id FROM stories WHERE title = :claims.sub",
    "late_mine": "SELECT id, RAND() < 2 AS late FROM stories WHERE title = :claims.sub AND title <> :other",
}
TOKENS = [new_token() for _ in SQL]


@pytest.fixture(params=MODES, ids=["backslashes escape", "backslashes do not"])
def service(mariadb: MariaDatabase, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[RunningService]:
    mariadb.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title varchar(200) NOT NULL)",
        "INSERT INTO stories SELECT seq, CONCAT('title ', seq) FROM seq_1_to_9",
    )
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT @@global.sql_mode")
        (before,) = cursor.fetchone()
        cursor.execute("SET GLOBAL sql_mode = %s", (f"{before},{request.param}".strip(","),))
        try:
            tokens = tmp_path / "tokens.toml"
            claims = ({} if "\0" in sql else {"claims": f"{{sub = {quoted(sql)}}}"} for sql in SQL)
            texts = (entry_text(str(i), TOKENS[i], options) for i, options in enumerate(claims))
            tokens.write_text("\n".join(texts))
            auth = {"tokens_file": str(tokens)}
            with running_service(tmp_path / "service", mariadb.url, VIEWS, auth=auth) as running:
                yield running
        finally:
            cursor.execute("SET GLOBAL sql_mode = %s", (before,))


def quoted(text: str) -> str:
    """A TOML string."""
    return '"' + "".join(f"\\U{ord(character):08x}" for character in text) + '"'


def test_sql_in_values_and_claims_is_a_value(service: RunningService, mariadb: MariaDatabase) -> None:
    def ids(path: str, token: str) -> list[int] | int:
        response = httpx.get(f"{service.http}/v1/views/{path}", headers={"authorization": f"Bearer {token}"})
        return [row["id"] for row in response.json()["rows"]] if response.is_success else response.status_code

    for sql, token in zip(SQL, TOKENS, strict=True):
        text = quote(sql)
        found = {
            "titled": ids(f"titled?title={text}", token),
            "noted": ids(f"noted?title={text}&other={text}", token),
            "listed": ids(f"listed?titles={text}&titles={text}", token),
            "mine": ids("mine", token),
            "late_mine": ids(f"late_mine?other={text}", token),
        }
        assert all(rows in ([], 403, 422) for rows in found.values()), (sql, found)
        assert ids(f"counted?above={text}", token) in ([], [1], [2], [3], 422), sql
    assert ids("noted?title=title+3&other=4", TOKENS[0]) == [3, 4]
    with mariadb.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT COUNT(*) FROM stories")
        assert cursor.fetchone() == (9,)
