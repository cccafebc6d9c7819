"""Rights to send SQL to a guarded service; no view with claims answers it."""

import json
from pathlib import Path

import httpx
import pytest
from websockets.sync.client import connect

from service.web.auth.tokens import entry_text, new_token
from tests.fixtures.postgres import Database
from tests.fixtures.service import HTTP, running_gateway, running_service, until

pytestmark = pytest.mark.postgres

OPTIONS = {
    "web": {},
    "sql": {"rights": '["read", "query"]', "views": '["none"]'},
    "claimed": {"rights": '["read", "query"]', "claims": '{sub = "alice"}'},
    "only_sql": {"rights": '["query"]'},
}
ORDERS = (
    "CREATE TABLE orders (id int PRIMARY KEY, owner text NOT NULL, item text NOT NULL)",
    "ALTER TABLE orders REPLICA IDENTITY FULL",
    "INSERT INTO orders VALUES (1, 'alice', 'a'), (2, 'bob', 'b')",
)
OWN = "SELECT id, item FROM orders WHERE owner = :claims.sub ORDER BY id"
ANY = "SELECT id, item FROM orders WHERE owner = :owner ORDER BY id"
#: The clients' of the first, and of what has it as a constant.
ASKED = ANY.replace(":owner", "'alice'")


def test_views_of_queries_are_unknown_to_who_may_not_query(database: Database, tmp_path: Path) -> None:
    database.execute(*ORDERS)
    tokens = {name: new_token() for name in ("reader", "analyst", "admin")}
    file = tmp_path / "tokens.toml"
    rights = {"reader": {}, "analyst": {"rights": '["read", "query"]'}, "admin": {"rights": '["admin"]'}}
    secret = tmp_path / "admin-token"
    secret.write_text(tokens["admin"])
    file.write_text("\n".join(entry_text(name, tokens[name], rights[name]) for name in tokens))
    auth = {"tokens_file": str(file)}
    adhoc = {"enabled": True, "install_after": 2}
    by_admin = {"admin_token_file": str(secret)}
    with (
        running_service(tmp_path / "service", database.url, {"own": OWN}, auth=auth, adhoc=adhoc) as running,
        running_gateway(tmp_path / "gateway", [[running]], auth=auth, gateway=by_admin) as gateway,
    ):

        def send(server: str, who: str, method: str, path: str, **request: object) -> httpx.Response:
            headers = {"authorization": f"Bearer {tokens[who]}"}
            return HTTP.request(method, f"{server}{path}", headers=headers, **request)

        def installed() -> str:
            asked = send(running.http, "analyst", "POST", "/v1/query", json={"sql": ASKED})
            return asked.headers.get("upquery-view", "")

        name = until(installed)
        unknown = f"adhoc_{'0' * 16}"
        for server in (running.http, gateway.http):
            assert send(server, "analyst", "GET", f"/v1/views/{name}?c1=bob").json()["rows"] == [{"id": 2, "item": "b"}]
            for method, path, request in ways(name):
                refused = send(server, "reader", method, path, **request)
                other = [json.loads(json.dumps(part).replace(name, unknown)) for part in (path, request)]
                as_unknown = send(server, "reader", method, other[0], **other[1])
                assert refused.status_code == as_unknown.status_code in {403, 422}, refused.text
                assert refused.text.replace(name, unknown) == as_unknown.text
            for who in ("reader", "analyst"):
                near = send(server, who, "GET", f"/v1/views/{name[:-1]}")
                assert "Did you mean" not in near.text
            assert not socket_follows(server, tokens["reader"], name)
            assert socket_follows(server, tokens["analyst"], name)


def ways(view: str) -> list[tuple[str, str, dict[str, object]]]:
    params = {"c1": "bob"}
    return [
        ("GET", f"/v1/views/{view}?c1=bob", {}),
        ("POST", f"/v1/views/{view}/query", {"json": {"keys": [params]}}),
        ("POST", "/v1/read", {"json": {"reads": [{"view": view, "params": params}]}}),
        # Of another form than the fast ways take.
        ("POST", "/v1/read", {"json": {"reads": [{"view": view, "params": params}], "more": 1}}),
        ("GET", f"/v1/views/{view}?c1=bob&live=poll", {}),
        ("GET", f"/v1/views/{view}/subscribe?c1=bob", {}),
    ]


def socket_follows(server: str, token: str, view: str) -> bool:
    url = server.replace("http", "ws", 1) + "/v1/subscribe"
    with connect(url, additional_headers={"authorization": f"Bearer {token}"}, proxy=None) as socket:
        socket.send(json.dumps({"id": 1, "type": "subscribe", "view": view, "params": {"c1": "bob"}}))
        return json.loads(socket.recv(10))["type"] != "problem"


def test_the_right_to_query(database: Database, tmp_path: Path) -> None:
    database.execute(*ORDERS)
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
