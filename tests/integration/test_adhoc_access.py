"""Who may send SQL to a guarded service, and that no view with claims answers it."""

import json
from pathlib import Path

import httpx
import pytest

from service.auth.tokens import entry_text, new_token
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, running_service

pytestmark = pytest.mark.postgres

OPTIONS = {
    "web": {},
    "sql": {"rights": '["read", "query"]', "views": '["none"]'},
    "claimed": {"rights": '["read", "query"]', "claims": '{sub = "alice"}'},
    "only_sql": {"rights": '["query"]'},
}
OWN = "SELECT id, item FROM orders WHERE owner = :claims.sub ORDER BY id"
ANY = "SELECT id, item FROM orders WHERE owner = :owner ORDER BY id"
#: The clients' of the first, and of what has it as a constant.
ASKED = ANY.replace(":owner", "'alice'")


def test_the_right_to_query(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE orders (id int PRIMARY KEY, owner text NOT NULL, item text NOT NULL)",
        "INSERT INTO orders VALUES (1, 'alice', 'a'), (2, 'bob', 'b')",
    )
    tokens = {name: new_token() for name in OPTIONS}
    file = tmp_path / "tokens.toml"
    file.write_text("\n".join(entry_text(name, tokens[name], options) for name, options in OPTIONS.items()))
    settings = {"auth": {"tokens_file": str(file)}, "adhoc": {"enabled": True, "install_after": 2}}
    service = running_service(tmp_path / "service", database.url, {"own": OWN}, **settings)
    with service as running:

        def ask(token: str | None, sql: str = ASKED, **body: object) -> httpx.Response:
            headers = {} if token is None else {"authorization": f"Bearer {tokens[token]}"}
            return HTTP.post(f"{running.http}/v1/query", json={"sql": sql, **body}, headers=headers)

        assert [ask(token).status_code for token in (None, "web", "only_sql")] == [401, 403, 403]
        for token in ("sql", "claimed"):
            for sql, body in [(ASKED, {}), (ANY, {"params": {"owner": "alice"}})]:
                response = ask(token, sql, **body)
                assert response.json()["rows"] == [{"id": 1, "item": "a"}]
                assert response.headers.get("upquery-view", "") != "own"
            # A claim is nobody's parameter.
            for params in ({"claims.sub": "bob"}, {}, {"sub": "bob"}):
                refused = ask(token, OWN, params=params)
                assert (refused.status_code, refused.json()["code"]) == (422, "query_invalid"), refused.text
        assert "alice" not in json.dumps(ask("web").json())
