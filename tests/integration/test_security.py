"""A guarded service: who gets in, what each token may read, and whose rows its owner sees, by every way of reading."""

import json
import subprocess
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from service.worker.reads.part import PART, read_part
from tests.fixtures.postgres import Database
from tests.fixtures.service import LIMIT_S, until, upquery
from tests.integration.guarded import (
    ALICES,
    BOBS,
    TOKENS,
    VIEWS,
    Guarded,
    bearer,
    code_of,
    guarded_service,
    tokens_text,
)

pytestmark = pytest.mark.postgres

AS_PART = {PART[0].decode(): PART[1].decode()}


@pytest.fixture(scope="module")
def guarded(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_service(module_database, tmp_path_factory.mktemp("guarded")) as running:
        yield running


def socket_url(guarded: Guarded) -> str:
    return guarded.service.http.replace("http://", "ws://") + "/v1/subscribe"


@pytest.mark.parametrize(
    "path", ["/v1/views/story?id=1", "/v1/views/none", "/v1/subscribe", "/openapi.json", "/", "/livez"]
)
def test_nothing_of_the_data_plane_is_there_without_a_token(guarded: Guarded, path: str) -> None:
    for token in (None, "upq_" + "x" * 43, "expired"):
        response = guarded.data(path, token)
        assert (response.status_code, code_of(response)) == (401, "unauthenticated")
        assert response.headers["www-authenticate"].startswith("Bearer")
    assert guarded.data(path, None, "POST", content=b"x").status_code == 401


def test_the_document_says_that_a_token_is_needed(guarded: Guarded) -> None:
    document = guarded.data("/openapi.json", "alice").json()
    assert document["components"]["securitySchemes"] == {"bearer": {"type": "http", "scheme": "bearer"}}
    assert document["security"] == [{"bearer": []}]


def test_a_socket_needs_a_token_too(guarded: Guarded) -> None:
    for token, status in ((None, 401), ("expired", 401), ("admin", 403)):
        with pytest.raises(InvalidStatus) as refused, connect(socket_url(guarded), additional_headers=bearer(token)):
            pass
        assert refused.value.response.status_code == status


def test_a_token_reads_the_views_that_it_names(guarded: Guarded) -> None:
    for _ in range(2):
        assert guarded.ids("/v1/views/story?id=1", "web") == [1]
        assert guarded.ids("/v1/views/story?id=1", "stories") == [1]
        assert guarded.ids("/v1/views/story/query", "stories", "POST", json={"keys": [{"id": 2}]}) == [2]
        assert guarded.ids("/v1/views/titled?title=title+3", "web") == [3]
    assert guarded.ids("/v1/views/noted?title=title+3&id=", "web") == [3]
    refused = [
        guarded.data("/v1/views/noted?title=title+3&id=", "stories"),
        guarded.data("/v1/views/noted?title=title+3&id=", "stories", "HEAD"),
        guarded.data("/v1/views/orders", "stories", headers={"accept": "text/event-stream"}),
        guarded.data("/v1/views/orders/subscribe", "stories"),
        guarded.data("/v1/views/orders?live=poll", "stories"),
        guarded.data("/v1/views/orders/query", "stories", "POST", json={"keys": [{}]}),
        guarded.data("/v1/read", "stories", "POST", json={"reads": [{"view": "stories"}, {"view": "orders"}]}),
        guarded.data("/v1/views/orders/query", "stories", "POST", json={"keys": [{}]}, headers=AS_PART),
        guarded.data("/v1/read", "stories", "POST", json={"reads": [{"view": "orders"}]}, headers=AS_PART),
        guarded.data("/v1/views/story?id=1", "admin"),
        guarded.data("/v1/checkpoint", "admin", "POST"),
    ]
    assert [r.status_code for r in refused] == [403] * len(refused)
    assert {code_of(r) for r in refused if r.content} == {"forbidden"}


def test_a_refusal_does_not_say_what_there_is(guarded: Guarded) -> None:
    there, nowhere = (guarded.data(f"/v1/views/{name}", "stories").text for name in ("orders", "ordurs"))
    assert there == nowhere.replace("ordurs", "orders")
    hint = guarded.data("/v1/views/stor", "stories").json()["hint"]
    assert "story" in hint or "stories" in hint
    assert "orders" not in guarded.data("/v1/views/stororder", "stories").json()["hint"]
    paths = guarded.data("/openapi.json", "stories").json()["paths"]
    assert {path for path in paths if "{" not in path and "views" in path} == {
        "/v1/views/story",
        "/v1/views/stories",
        "/v1/views/titled",
    }


def test_rows_are_the_token_owner_s_by_every_way_of_reading(guarded: Guarded) -> None:
    for token, ids in (("alice", ALICES), ("bob", BOBS)) * 2:
        assert guarded.ids("/v1/views/orders", token) == ids
        assert guarded.ids("/v1/views/late_orders?above=2", token) == [i for i in ids if i > 2]
        assert guarded.ids("/v1/views/orders/query", token, "POST", json={"keys": [{}]}) == ids
        assert guarded.ids("/v1/read", token, "POST", json={"reads": [{"view": "orders"}]}) == ids
        asked = {"keys": [{"id": id_} for id_ in (1, 2, 3)]}
        assert guarded.ids("/v1/views/order/query", token, "POST", json=asked) == [i for i in ids if i < 4]
        assert [i for i in (1, 2) if guarded.ids(f"/v1/views/order?id={i}", token)] == ids[:1]
        assert guarded.ids("/v1/views/some_orders?a=1&b=2", token) == [i for i in ids if i < 4]
        head = guarded.data("/v1/views/orders", token, "HEAD")
        assert head.headers["etag"] == guarded.data("/v1/views/orders", token).headers["etag"]
        assert (head.headers["cache-control"], head.headers["vary"]) == ("private, no-cache", "Authorization")


def test_a_part_of_a_batch_has_the_token_owner_s_rows(guarded: Guarded) -> None:
    for token, ids in (("alice", ALICES), ("bob", BOBS)) * 2:
        for path, body in (("orders/query", {"keys": [{}]}), ("order/query", {"keys": [{"id": id_} for id_ in ids]})):
            part = guarded.data(f"/v1/views/{path}", token, "POST", json=body, headers=AS_PART)
            head, results = read_part(part.content)
            assert [row["id"] for result in results for row in json.loads(result)["rows"]] == ids
            assert head.cache_control == "private, no-cache"


def test_a_list_of_claims_is_a_list_of_keys(guarded: Guarded) -> None:
    assert sorted(guarded.ids("/v1/views/orders_of", "alice")) == sorted(ALICES + BOBS)
    assert guarded.ids("/v1/views/orders_of", "bob") == []


def test_forwarded_misses_are_answered_with_the_token_owner_s_rows(guarded: Guarded) -> None:
    for name in ("orders", "order", "orders_of", "some_orders"):
        view = {"sql": VIEWS[name], "on_miss": "forward"}
        assert guarded.admin(f"/v1/catalog/views/forwarded_{name}", "admin", "PUT", json=view).status_code == 201
    for token, ids in (("alice", ALICES), ("bob", BOBS)) * 2:
        assert guarded.ids("/v1/views/forwarded_orders", token) == ids
        assert [i for i in (1, 2) if guarded.ids(f"/v1/views/forwarded_order?id={i}", token)] == ids[:1]
        assert guarded.ids("/v1/views/forwarded_some_orders?a=1&b=2", token) == [i for i in ids if i < 4]
    assert sorted(guarded.ids("/v1/views/forwarded_orders_of", "alice")) == sorted(ALICES + BOBS)
    for name in ("orders", "order", "orders_of", "some_orders"):
        assert guarded.admin(f"/v1/catalog/views/forwarded_{name}", "admin", "DELETE").status_code == 204


def test_a_tag_of_another_s_rows_is_no_match(guarded: Guarded) -> None:
    tag = guarded.data("/v1/views/orders", "alice").headers["etag"]
    assert guarded.data("/v1/views/orders", "alice", headers={"if-none-match": tag}).status_code == 304
    assert guarded.data("/v1/views/orders", "bob", headers={"if-none-match": tag}).status_code == 200


def test_pages_are_of_the_token_owner_s_rows(guarded: Guarded) -> None:
    first = guarded.data("/v1/views/orders?limit=2", "alice").json()
    assert guarded.ids(f"/v1/views/orders?limit=2&after={first['next']}", "alice") == ALICES[2:]
    assert guarded.data(f"/v1/views/orders?limit=2&after={first['next']}", "bob").status_code == 422


def test_subscribers_follow_their_own_rows(guarded: Guarded, module_database: Database) -> None:
    """Two that ask for the same."""
    ask = json.dumps({"type": "subscribe", "id": 1, "view": "orders", "params": {}})
    url = socket_url(guarded)
    with (
        connect(url, additional_headers=bearer("alice")) as alices,
        connect(url, additional_headers=bearer("bob")) as bobs,
    ):
        for own, ids in ((alices, ALICES), (bobs, BOBS)):
            own.send(ask)
            assert [row["id"] for row in heard(own, "snapshot")["rows"]] == ids
        module_database.execute("INSERT INTO orders VALUES (100, 'alice', 'new'), (101, 'bob', 'new')")
        for own, id_ in ((alices, 100), (bobs, 101)):
            assert heard(own, "change")["added"] == [{"id": id_, "item": "new"}]
    module_database.execute("DELETE FROM orders WHERE id > 99")


def heard(connection: ClientConnection, kind: str) -> dict[str, Any]:
    """The next message of a kind."""
    while True:
        message: dict[str, Any] = json.loads(connection.recv(LIMIT_S))
        if message["type"] == kind:
            return message


def test_claims_that_are_missing_or_do_not_fit_are_refused(guarded: Guarded) -> None:
    for path, token in (
        ("/v1/views/orders", "web"),
        ("/v1/views/orders", "stories"),
        ("/v1/views/orders_of", "number"),
        ("/v1/views/orders_of", "web"),
    ):
        response = guarded.data(path, token)
        assert (response.status_code, code_of(response)) == (403, "forbidden")
    assert guarded.ids("/v1/views/orders", "number") == []


def test_the_document_does_not_have_what_clients_cannot_give(guarded: Guarded) -> None:
    document = guarded.data("/openapi.json", "web").json()
    given = [p["name"] for p in document["paths"]["/v1/views/order"]["get"]["parameters"] if p["in"] == "query"]
    assert given == ["id"]
    assert "Authorization" not in json.dumps(document["paths"]["/v1/views/order"]["get"]["parameters"])


def test_the_document_has_sql_for_administrators_only(guarded: Guarded) -> None:
    readers = guarded.data("/openapi.json", "web").text
    assert "```sql" not in readers
    assert "claims." not in readers
    text = guarded.data("/openapi.json", "reading_admin").text
    assert "SELECT id, item FROM orders WHERE owner = :claims.sub" in text


def test_the_admin_port_is_for_administrators(guarded: Guarded) -> None:
    sql = {"sql": "SELECT id FROM stories WHERE id = :id"}
    for token, status in ((None, 401), ("web", 403), ("expired", 401)):
        refused = [
            guarded.admin("/v1/catalog/views", token),
            guarded.admin("/v1/stats", token),
            guarded.admin("/metrics", token),
            guarded.admin("/openapi.json", token),
            guarded.admin("/v1/catalog/views/mine", token, "PUT", json=sql),
            guarded.admin("/v1/catalog/views/story", token, "DELETE"),
            guarded.admin("/v1/evict", token, "POST", json={"view": "story"}),
            guarded.admin("/internal/control", token, "POST", json={"operation": "ListViews", "arguments": {}}),
            guarded.admin("/livez", token, "POST"),
            guarded.admin("/livez/", token),
            guarded.admin("/nothing", token),
        ]
        assert [r.status_code for r in refused] == [status] * len(refused)
        assert guarded.admin("/livez", token).status_code == 200
        assert guarded.admin("/readyz", token).json() == {"ready": True}
    assert guarded.admin("/v1/catalog/views/mine", "admin", "PUT", json=sql).status_code == 201
    assert guarded.admin("/v1/catalog/views/mine", "admin", "DELETE").status_code == 204
    said = guarded.admin(
        "/internal/control", "admin", "POST", json={"operation": "GetView", "arguments": {"name": "story"}}
    )
    assert said.json()["result"]["name"] == "story"
    longer = guarded.admin("/internal/control", "admin", "POST", json={"operation": "x" * (2 << 20)})
    assert longer.status_code == 413
    assert guarded.admin("/metrics", "admin").status_code == 200
    assert guarded.admin("/readyz", "admin").json()["streaming"] is True


def test_answers_by_claims_are_not_for_shared_caches(guarded: Guarded) -> None:
    sql = "SELECT id FROM orders WHERE owner = :claims.sub"
    shared = {"sql": sql, "cache_control": "public, max-age=5"}
    response = guarded.admin("/v1/catalog/views/shared", "admin", "PUT", json=shared)
    assert (response.status_code, response.json()["code"]) == (422, "view_unsupported")
    assert guarded.admin("/v1/catalog/views/shared", "admin", "PUT", json={"sql": sql}).status_code == 201
    assert guarded.admin("/v1/catalog/views/shared", "admin", "DELETE").status_code == 204


def test_the_command_line_sends_a_token(guarded: Guarded) -> None:
    urls = {"UPQUERY_URL": guarded.service.http, "UPQUERY_ADMIN_URL": guarded.service.admin}

    def view(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return upquery("view", *arguments, "--json", **urls, **variables)

    got = view("get", "story", "id=1", UPQUERY_TOKEN=TOKENS["web"] + "\n")
    assert json.loads(got.stdout)["rows"] == [{"id": 1, "title": "title 1"}]
    assert view("list", "--token", TOKENS["admin"]).returncode == 0
    bad = view("list", "--token", f"{TOKENS['admin']}\n{TOKENS['web']}")
    assert (bad.returncode, TOKENS["admin"] in bad.stdout + bad.stderr) == (1, False)


def test_what_a_token_is_good_for_changes_with_the_file(guarded: Guarded) -> None:
    """Also for who is subscribed: a token that was taken back ends what it began."""
    with (
        httpx.Client(timeout=LIMIT_S) as client,
        client.stream(
            "GET",
            guarded.service.http + "/v1/views/orders/subscribe",
            headers=bearer("bob"),
        ) as events,
        connect(socket_url(guarded), additional_headers=bearer("bob")) as socket,
    ):
        assert events.status_code == 200
        lines = events.iter_lines()
        assert next(lines)
        try:
            guarded.tokens.write_text(tokens_text(name for name in TOKENS if name != "bob"))
            until(lambda: guarded.data("/v1/views/orders", "bob").status_code == 401)
            assert guarded.ids("/v1/views/orders", "alice") == ALICES
            for _ in lines:
                pass
            with pytest.raises(ConnectionClosed):
                socket.recv(LIMIT_S)
            guarded.tokens.write_text("not TOML")
            until(lambda: "cannot be used" in guarded.said() or guarded.ids("/v1/views/story?id=1", "web") == [])
            assert guarded.ids("/v1/views/orders", "alice") == ALICES
        finally:
            guarded.tokens.write_text(tokens_text())
    until(lambda: guarded.data("/v1/views/orders", "bob").status_code == 200)
    assert "Traceback" not in guarded.said()
