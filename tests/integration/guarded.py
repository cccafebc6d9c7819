"""A guarded service over PostgreSQL, asked with tokens, and with bytes that no client library sends."""

import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from service.web.auth.tokens import entry_text, new_token
from tests.fixtures.postgres import Database
from tests.fixtures.service import LIMIT_S, RunningService, running_service
from tests.service.web.auth.signed_tokens import AUDIENCE, ISSUER, KEYS

VIEWS = {
    "story": "SELECT id, title FROM stories WHERE id = :id",
    "titled": "SELECT id, title FROM stories WHERE title = :title",
    "stories": "SELECT id, title FROM stories ORDER BY id",
    "orders": "SELECT id, item FROM orders WHERE owner = :claims.sub ORDER BY id",
    "order": "SELECT id, owner, item FROM orders WHERE owner = :claims.sub AND id = :id",
    "some_orders": "SELECT id, owner FROM orders WHERE owner = :claims.sub AND id IN (:a, 3, :b) ORDER BY id",
    "orders_of": "SELECT id, owner FROM orders WHERE owner IN (:claims.org.members)",
    # Not kept incrementally: the database gets the values.
    "late_orders": "SELECT id, owner, now() > 'epoch' AS late FROM orders WHERE owner = :claims.sub AND id > :above",
    "noted": "SELECT id, title, now() > 'epoch' AS late FROM stories WHERE title = :title OR id::text = :id",
}
#: What would be more than a value if it got into SQL as it is.
SQL = [
    "' OR '1' = '1",
    "x' UNION SELECT id, owner FROM orders --",
    "x'; DROP TABLE orders; --",
    "\\' OR 1=1 -- ",
    "\\\\' OR 1=1 -- ",
    "x\\",
    "$1",
    "$2::int8",
    "$$ || (SELECT owner FROM orders LIMIT 1) || $$",
    ":id",
    ":claims.sub",
    '"; SELECT 1; --',
    "1) OR (1=1",
    "1; SELECT pg_sleep(10)",
    "title 1' AND pg_sleep(10) IS NULL AND '1'='1",
    "%27%20OR%201=1",
    "\x00' OR 1=1",
    "\x1a\b\n\r' OR 1=1",
    "\u02bc OR 1=1 --",
    "\u00bf' OR 1=1 -- ",
    "/*! ' OR 1=1 */",
    "1e1 OR 1=1",
]
INJECTION = SQL[0]
#: The password of the database, which every connection may leave out: it must not be seen anywhere.
PASSWORD = "pw-4f1c9d7e"
OPTIONS: dict[str, dict[str, str]] = {
    "web": {},
    "stories": {"views": '["stor*", "titled"]'},
    "admin": {"rights": '["admin"]'},
    "reading_admin": {"rights": '["read", "admin"]'},
    "alice": {"claims": '{sub = "alice", org = {members = ["alice", "bob"]}}'},
    "bob": {"claims": '{sub = "bob", org = {members = []}}'},
    "number": {"claims": "{sub = 7, org = {members = [1, {}]}}"},
    "mallory": {"claims": f"{{sub = {json.dumps(INJECTION)}, org = {{members = [{json.dumps(INJECTION)}]}}}}"},
    "expired": {"expires": f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"},
}
TOKENS = {name: new_token() for name in OPTIONS}
#: How long a request may take to arrive.
RECEIVE_S = 2.0
#: Rows of both owners, in turn.
ALICES, BOBS = [1, 3, 5, 7], [2, 4, 6, 8]


def tokens_text(names: Iterable[str] = tuple(OPTIONS)) -> str:
    """The file of these tokens."""
    return "\n".join(entry_text(name, TOKENS[name], OPTIONS[name]) for name in names)


def bearer(token: str | None) -> dict[str, str]:
    """The header for a token, by its name or as it is."""
    return {} if token is None else {"authorization": f"Bearer {TOKENS.get(token, token)}"}


class Guarded:
    """A service, asked with tokens."""

    def __init__(self, service: RunningService, tokens: Path) -> None:
        self.service = service
        self.tokens = tokens
        self._client = httpx.Client(timeout=LIMIT_S)

    def data(self, path: str, token: str | None, method: str = "GET", **options: Any) -> httpx.Response:
        """The response of the data plane."""
        headers = {**bearer(token), **options.pop("headers", {})}
        return self._client.request(method, self.service.http + path, headers=headers, **options)

    def admin(self, path: str, token: str | None, method: str = "GET", **options: Any) -> httpx.Response:
        """The response of the admin port."""
        return self._client.request(method, self.service.admin + path, headers=bearer(token), **options)

    def ids(self, path: str, token: str, method: str = "GET", **options: Any) -> list[int]:
        """The ids of the rows of an answer."""
        response = self.data(path, token, method, **options)
        assert response.status_code == 200, response.text
        body = response.json()
        return [row["id"] for result in body.get("results", [body]) for row in result["rows"]]

    def raw(self, request: bytes, *, admin: bool = False) -> bytes:
        """Return the answer to these bytes, until the connection is closed."""
        address = urlsplit(self.service.admin if admin else self.service.http)
        assert address.hostname
        assert address.port
        with socket.create_connection((address.hostname, address.port), LIMIT_S) as connection:
            connection.sendall(request)
            received = b""
            while part := connection.recv(1 << 16):
                received += part
            return received

    def target(self, target: str, token: str, *headers: str) -> tuple[int, bytes]:
        """The status and the body for a request target that is sent as it is."""
        lines = [f"GET {target} HTTP/1.1", "Host: a", "Connection: close", f"Authorization: Bearer {TOKENS[token]}"]
        answer = self.raw("\r\n".join([*lines, *headers, "", ""]).encode("latin-1"))
        head, _, body = answer.partition(b"\r\n\r\n")
        return int(head.split()[1]) if head else 0, body

    def said(self) -> str:
        """All that the service's processes have logged."""
        return self.service.log.read_text(errors="replace")


@contextmanager
def guarded_service(database: Database, directory: Path) -> Iterator[Guarded]:
    """A guarded service over stories that all may read, and orders of two owners."""
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 9) i",
        "CREATE TABLE orders (id int PRIMARY KEY, owner text NOT NULL, item text NOT NULL)",
        "INSERT INTO orders SELECT i, (ARRAY['bob', 'alice'])[1 + i % 2], 'item' FROM generate_series(1, 8) i",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    )
    tokens = directory / "tokens.toml"
    tokens.write_text(tokens_text())
    keys = directory / "jwks.json"
    keys.write_text(json.dumps({"keys": KEYS}))
    jwt = {"jwks_file": str(keys), "issuer": ISSUER, "audience": AUDIENCE, "leeway_s": 0}
    sections: dict[str, dict[str, Any]] = {
        "auth": {"tokens_file": str(tokens)},
        "auth.jwt": jwt,
        "http": {"receive_timeout_s": RECEIVE_S},
        "log": {"level": "debug"},
    }
    url = database.url.replace("postgres@", f"postgres:{PASSWORD}@")
    with running_service(directory / "service", url, VIEWS, **sections) as service:
        yield Guarded(service, tokens)


def code_of(response: httpx.Response) -> str:
    """The code of a problem."""
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert response.headers["cache-control"] == "no-store"
    return str(response.json()["code"])
