"""Attacks on a guarded service: forged headers, smuggled parameters, crooked paths, SQL in every place."""

import json
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.fixtures.postgres import Database
from tests.integration.guarded import (
    ALICES,
    BOBS,
    INJECTION,
    PASSWORD,
    SQL,
    TOKENS,
    Guarded,
    code_of,
    guarded_service,
)
from tests.service.web.auth.signed_tokens import FORGED, token

pytestmark = pytest.mark.postgres
SIGNED = token(sub="alice", exp=int(time.time()) + 86_400)


@pytest.fixture(scope="module")
def guarded(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded_service(module_database, tmp_path_factory.mktemp("guarded")) as running:
        # Both have read: what could be mixed up is there.
        for token in ("alice", "bob"):
            for path in ("/v1/views/orders", "/v1/views/order?id=1", "/v1/views/order?id=2", "/v1/views/orders_of"):
                running.data(path, token)
        yield running


HEADERS = {
    "no scheme": TOKENS["alice"],
    "another scheme": f"Basic {TOKENS['alice']}",
    "no token": "Bearer ",
    "two tokens": f"Bearer {TOKENS['alice']} {TOKENS['bob']}",
    "two tokens with a comma": f"Bearer {TOKENS['alice']}, Bearer {TOKENS['bob']}",
    "a tab": f"Bearer\t{TOKENS['alice']}",
    "a part of a token": f"Bearer {TOKENS['alice'][:-1]}",
    "more than a token": f"Bearer {TOKENS['alice']}A",
    "another case": f"Bearer {TOKENS['alice'].swapcase()}",
    "quotes": f'Bearer "{TOKENS["alice"]}"',
    "a parameter": f"Bearer token={TOKENS['alice']}",
    "a name of a token": "Bearer alice",
    "SQL": f"Bearer {INJECTION}",
    "bytes that are no text": "Bearer \xff\xfe",
    "a long token": "Bearer " + "A" * 20_000,
    "dots": "Bearer ..",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS.keys())
def test_forged_headers_are_refused(guarded: Guarded, header: str) -> None:
    request = f"GET /v1/views/orders HTTP/1.1\r\nHost: a\r\nConnection: close\r\nAuthorization: {header}\r\n\r\n"
    answer = guarded.raw(request.encode("latin-1"))
    assert re.match(rb"HTTP/1.1 4(01|31) ", answer), answer
    assert b"upq_" not in answer


def test_signed_tokens_are_told_from_forged_ones(guarded: Guarded) -> None:
    for _ in range(2):
        assert guarded.ids("/v1/views/orders", SIGNED) == ALICES
        assert guarded.ids("/v1/views/story?id=1", token(scope="upquery:read:story")) == [1]
        assert guarded.data("/v1/views/orders", token(scope="upquery:read:story")).status_code == 403
        assert guarded.admin("/v1/stats", token(scope="upquery:admin")).status_code == 200
        assert guarded.admin("/v1/stats", SIGNED).status_code == 403
        for how, forge in FORGED.items():
            response = guarded.data("/v1/views/orders", forge())
            assert (response.status_code, code_of(response)) == (401, "unauthenticated"), how
            assert guarded.admin("/v1/stats", forge()).status_code == 401, how


def test_the_scheme_s_case_does_not_matter(guarded: Guarded) -> None:
    assert guarded.data("/v1/views/orders", None, headers={"authorization": f"bEARER  {TOKENS['bob']}"}).is_success


def test_several_headers_are_nobody_s(guarded: Guarded) -> None:
    """A proxy may have checked the one, and we take the other."""
    for others in ([f"Authorization: Bearer {TOKENS['bob']}"], [f"authorization: Bearer {TOKENS['alice']}"]):
        assert guarded.target("/v1/views/orders", "alice", *others)[0] == 401


def test_a_token_is_only_taken_from_its_header(guarded: Guarded) -> None:
    token = TOKENS["alice"]
    for path in (f"/v1/views/orders?access_token={token}", f"/v1/views/orders?token={token}"):
        assert guarded.data(path, None).status_code == 401
    for name in ("x-authorization", "proxy-authorization", "x-forwarded-authorization", "cookie"):
        assert guarded.data("/v1/views/orders", None, headers={name: f"Bearer {token}"}).status_code == 401
    assert guarded.data("/v1/views/orders", None, headers={"upquery.principal": "alice"}).status_code == 401


def test_requests_that_share_a_connection_share_no_token(guarded: Guarded) -> None:
    """Sent at once: the first has one, the second has another one, the third has none."""
    lines = [f"Authorization: Bearer {TOKENS['alice']}\r\n", f"Authorization: Bearer {TOKENS['bob']}\r\n", ""]
    for path in ("orders", "order?id=1"):
        requests = [f"GET /v1/views/{path} HTTP/1.1\r\nHost: a\r\n{line}\r\n" for line in lines]
        requests[-1] = requests[-1].replace("Host: a\r\n", "Host: a\r\nConnection: close\r\n")
        answers = guarded.raw("".join(requests).encode())
        assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"200", b"200", b"401"]
        found = [json.loads(rows) for rows in re.findall(rb'"rows":(\[.*?\])', answers)]
        assert [[row["id"] for row in rows] for rows in found] == ([ALICES, BOBS] if path == "orders" else [[1], []])


SMUGGLED = [
    "claims.sub=bob",
    "claims.sub=alice",
    "claims%2Esub=bob",
    "%63laims.sub=bob",
    "Claims.sub=bob",
    "claims.sub=bob&claims.sub=alice",
    "claims.sub:null",
    "claims.sub%3Anull",
    "claims[sub]=bob",
    "claims=bob",
    "sub=bob",
    "claims.=bob",
    "claims.sub%00=bob",
    " claims.sub=bob".replace(" ", "+"),
    "claims.sub=",
    "owner=bob",
    "upquery.principal=bob",
]


@pytest.mark.parametrize("smuggled", SMUGGLED)
def test_a_claim_is_no_parameter_of_a_query(guarded: Guarded, smuggled: str) -> None:
    for path in (
        f"/v1/views/orders?{smuggled}",
        f"/v1/views/order?id=2&{smuggled}",
        f"/v1/views/order?{smuggled}&id=2",
    ):
        for method, headers in (("GET", {}), ("GET", {"accept": "text/event-stream"})):
            response = guarded.data(path, "alice", method, headers=headers)
            assert response.status_code == 422, response.text
            assert code_of(response) == ("parameter_type" if smuggled.count("=") > 1 else "parameter_unknown")
        assert guarded.data(path, "alice", "HEAD").status_code == 422
    # And nothing of it stays.
    assert guarded.ids("/v1/views/orders", "alice") == ALICES
    assert guarded.ids("/v1/views/order?id=2", "alice") == []


@pytest.mark.parametrize(
    "key",
    [
        '{"id": 2, "claims.sub": "bob"}',
        '{"claims.sub": "bob", "id": 2}',
        '{"id": 2, "\\u0063laims.sub": "bob"}',
        '{"id": 2, "claims": {"sub": "bob"}}',
        '{"id": 2, "claims.sub": ["alice", "bob"]}',
        '{"id": 2, "claims.sub": null}',
        '{"claims.sub": "bob"}',
    ],
)
def test_a_claim_is_no_parameter_of_a_body(guarded: Guarded, key: str) -> None:
    for path, body in (
        ("/v1/views/order/query", f'{{"keys": [{key}]}}'),
        ("/v1/views/order/query", f'{{"keys": [{{"id": 1}}, {key}]}}'),
        ("/v1/read", f'{{"reads": [{{"view": "order", "params": {key}}}]}}'),
    ):
        for kind in ("application/json", "application/json; charset=utf-8"):
            response = guarded.data(path, "alice", "POST", content=body, headers={"content-type": kind})
            assert (response.status_code, code_of(response)) == (422, "parameter_unknown"), response.text
    assert guarded.ids("/v1/views/order/query", "alice", "POST", json={"keys": [{"id": 2}]}) == []


TARGETS = [
    "/v1/views/orders",
    "/v1/views/%6frders",
    "/v1/views/%6Frders",
    "/v1/views/order%73",
    "/v1/views/%256frders",
    "/v1/views//orders",
    "//v1/views/orders",
    "/v1//views/orders",
    "/v1/views/./orders",
    "/v1/views/stories/../orders",
    "/v1/views/stories/%2e%2e/orders",
    "/v1/views/stories%2f..%2forders",
    "/v1/views/stories%2F..%2Forders",
    "/v1/views/stories/..%2forders",
    "/v1/views/stories\\..\\orders",
    "/v1/views/orders/",
    "/v1/views/orders%2f",
    "/v1/views/orders%00",
    "/v1/views/orders%20",
    "/v1/views/orders;a",
    "/v1/views/orders%3Fa",
    "/v1/views/orders#stories",
    "/v1/views/Orders",
    "/V1/VIEWS/orders",
    "/v1/views/orders/subscribe",
    "/v1/views/%6frders/subscribe",
    "/v1/views/stories/../orders/subscribe",
    "/v1/views/orders?live=poll",
    "http://a/v1/views/orders",
    "http://a/v1/views/%6frders",
    "http://a//v1/views/orders",
    "http://orders@a/v1/views/orders",
    "a:80/v1/views/orders",
    "*",
    "v1/views/orders",
    "/v1/views/orders\t",
    "/v1/views/\xef\xbd\x8frders",
]


@pytest.mark.parametrize("target", TARGETS)
def test_no_path_gets_around_the_rights_of_a_token(guarded: Guarded, target: str) -> None:
    """The token may read stories; the rows that must not come have items."""
    status, body = guarded.target(target, "stories")
    assert 400 <= status < 500
    assert b"item" not in body
    if "subscribe" not in target and "live" not in target:
        assert guarded.target(target, "alice")[0] < 500
    answer = guarded.raw(f"GET {target} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode("latin-1"))
    assert re.match(rb"HTTP/1.1 40[01] ", answer), answer


@pytest.mark.parametrize(
    "header",
    [
        "X-Original-URL: /v1/views/orders",
        "X-Rewrite-URL: /v1/views/orders",
        "X-Forwarded-Prefix: /v1/views/orders",
        "X-HTTP-Method-Override: POST",
        "Forwarded: for=127.0.0.1",
        "X-Forwarded-For: 127.0.0.1",
    ],
)
def test_headers_do_not_name_another_path(guarded: Guarded, header: str) -> None:
    status, body = guarded.target("/v1/views/stories", "stories", header)
    assert status == 200
    assert b"item" not in body
    assert guarded.target("/v1/views/orders", "stories", header)[0] == 403


def test_large_requests_are_refused(guarded: Guarded) -> None:
    body = json.dumps({"keys": [{"id": 1}], "more": "x" * (1 << 20)})
    response = guarded.data("/v1/views/story/query", "web", "POST", content=body)
    assert (response.status_code, code_of(response)) == (413, "too_large")
    keys = {"keys": [{"id": n} for n in range(1001)]}
    response = guarded.data("/v1/views/story/query", "web", "POST", json=keys)
    assert (response.status_code, code_of(response)) == (413, "too_large")
    for header in ("X-Long: " + "x" * 200_000, "Authorization: Bearer " + "x" * 200_000):
        assert guarded.target("/v1/views/story?id=1", "web", header)[0] in (0, 400, 401, 431)
    assert guarded.ids("/v1/views/story?id=1", "web") == [1]


@pytest.mark.parametrize("admin", [False, True], ids=["data", "admin"])
def test_who_sends_slowly_is_sent_away(guarded: Guarded, admin: bool) -> None:
    """The rest of these never comes; the connection ends all the same, on both ports, with a token and without."""
    token = f"Authorization: Bearer {TOKENS['admin' if admin else 'web']}\r\n"
    path = "/v1/catalog/plan" if admin else "/v1/read"
    beginnings = (
        "GET /v1/views/sto",
        "GET /v1/views/story?id=1 HTTP/1.1\r\nHost: a\r\nX-",
        f"POST {path} HTTP/1.1\r\nHost: a\r\n{token}Content-Type: application/json\r\nContent-Length: 100\r\n\r\n{{",
    )
    with ThreadPoolExecutor(len(beginnings)) as pool:
        answers = list(pool.map(lambda beginning: guarded.raw(beginning.encode(), admin=admin), beginnings))
    assert all(answer == b"" or answer.startswith(b"HTTP/1.1 408 ") for answer in answers), answers
    long = "GET / HTTP/1.1\r\nHost: a\r\nX-Long: " + "x" * 20_000 + "\r\n\r\n"
    assert guarded.raw(long.encode(), admin=admin).startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("sql", SQL)
def test_sql_in_values_is_a_value(guarded: Guarded, sql: str) -> None:
    text = quote(sql)
    for path in (
        f"/v1/views/titled?title={text}",
        f"/v1/views/noted?title={text}&id={text}",
        f"/v1/views/story?id={text}",
        f"/v1/views/orders?limit={text}",
        f"/v1/views/orders?after={text}",
        f"/v1/views/late_orders?above={text}",
        f"/v1/views/story?id=1&{text}=1",
        f"/v1/views/{quote(sql, safe='')}",
    ):
        response = guarded.data(path, "alice")
        if response.status_code == 200:
            assert response.json()["rows"] == []
        else:
            assert response.status_code in (400, 404, 422), response.text
            assert "item" not in response.text
    for key in ({"title": sql}, {"title": [sql]}, {sql: "x"}):
        assert guarded.data("/v1/views/titled/query", "alice", "POST", json={"keys": [key]}).status_code in (200, 422)
    header = re.sub("[^ -~]", "", sql).strip()
    assert guarded.target("/v1/views/story?id=1", "alice", f"Upquery-Min-Version: {header}")[0] == 400
    assert guarded.target("/v1/views/story?id=1", "alice", f'If-None-Match: "{header}"')[0] == 200


def test_sql_in_claims_is_a_value(guarded: Guarded) -> None:
    for path in ("orders", "order?id=1", "orders_of", "late_orders?above=0"):
        assert guarded.ids(f"/v1/views/{path}", "mallory") == []


@pytest.mark.parametrize("sql", SQL)
def test_sql_in_what_administrators_send_is_a_value(guarded: Guarded, sql: str) -> None:
    name = quote(sql, safe="")
    good = {"sql": "SELECT id FROM stories WHERE id = :id"}
    answers = [
        guarded.admin(f"/v1/catalog/views/{name}", "admin"),
        guarded.admin(f"/v1/catalog/views/{name}", "admin", "PUT", json=good),
        guarded.admin(f"/v1/catalog/views/{name}/plan", "admin"),
        guarded.admin(f"/v1/catalog/views/{name}", "admin", "DELETE"),
        guarded.admin("/v1/evict", "admin", "POST", json={"view": sql}),
        guarded.admin("/v1/evict", "admin", "POST", json={"view": "story", "keys": [{"id": sql}]}),
        guarded.admin("/v1/evict", "admin", "POST", json={"view": "story", "keys": [{sql: "1"}]}),
    ]
    assert {answer.status_code for answer in answers} <= {400, 404, 422}
    evicted = guarded.admin("/v1/evict", "admin", "POST", json={"view": "titled", "keys": [{"title": sql}]})
    assert evicted.status_code in (200, 422)


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE orders",
        "SELECT id FROM stories WHERE id = :id; DROP TABLE orders",
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT id FROM gone",
        "SELECT id INTO taken FROM orders",
        "SELECT id FROM orders FOR UPDATE",
        "SELECT query_to_xml('DELETE FROM orders', true, true, '')::text AS gone",
        "SELECT pg_sleep(100)",
        "SELECT lo_import('/etc/passwd')",
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity",
        "SELECT set_config('session_replication_role', 'replica', false)",
        "SELECT nextval('s')",
        "COPY orders TO PROGRAM 'id'",
        "SELECT id FROM orders WHERE owner = :Claims.sub",
        "SELECT id FROM orders WHERE owner = :claims",
        "SELECT id FROM orders WHERE owner = :claims .sub",
        'SELECT id FROM orders WHERE owner = :"claims.sub"',
    ],
)
def test_sql_that_does_more_than_read_is_no_view(guarded: Guarded, sql: str) -> None:
    response = guarded.admin("/v1/catalog/views/bad", "admin", "PUT", json={"sql": sql})
    assert response.status_code == 422, response.text
    assert guarded.admin("/v1/catalog/plan", "admin", "POST", json={"sql": sql}).status_code == 422


def test_nothing_was_lost_and_nothing_was_told(guarded: Guarded, module_database: Database) -> None:
    """After all of the above: the rows are there, and no log, number or problem has a secret."""
    assert module_database.query("SELECT count(*) FROM orders") == [(8,)]
    module_database.execute("UPDATE orders SET item = 'seen' WHERE id = 1")
    module_database.execute("UPDATE orders SET item = 'item' WHERE id = 1")
    secrets = [*TOKENS.values(), PASSWORD, SIGNED]
    told = [
        guarded.said(),
        guarded.admin("/v1/stats", "admin").text,
        guarded.admin("/metrics", "admin").text,
        guarded.admin("/v1/catalog/views", "admin").text,
        guarded.admin("/openapi.json", "admin").text,
        guarded.data("/openapi.json", "web").text,
    ]
    assert [secret for secret in secrets for text in told if secret in text] == []
    assert "Traceback" not in told[0]
    assert not [path for path in (guarded.service.directory / "state").rglob("*") if has(path, secrets)]


def has(path: Path, secrets: list[str]) -> bool:
    return path.is_file() and any(secret in path.read_text(errors="replace") for secret in secrets)
