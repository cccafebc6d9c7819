"""A guarded service over a real PostgreSQL: who gets in, what each may read, whose rows each one sees."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from service.auth.tokens import entry_text, new_token
from tests.fixtures.postgres import Database, empty_database
from tests.fixtures.service import RunningService, running_service

pytestmark = pytest.mark.postgres

VIEWS = {
    "story": "SELECT id, title FROM stories WHERE id = :id",
    "stories": "SELECT id, title FROM stories ORDER BY id",
    "orders": "SELECT id, item FROM orders WHERE owner = :claims.sub ORDER BY id",
    "order": "SELECT id, owner, item FROM orders WHERE owner = :claims.sub AND id = :id",
    "orders_of_groups": "SELECT id, owner FROM orders WHERE owner IN (:claims.org.members)",
    "orders_by_hand": "SELECT id, owner, now() > 'epoch' AS late FROM orders WHERE owner = :claims.sub AND id > :above",
}
OPTIONS: dict[str, dict[str, str]] = {
    "web": {},
    "stories": {"views": '["stor*"]'},
    "admin": {"rights": '["admin"]'},
    "alice": {"claims": '{sub = "alice", org = {members = ["alice", "bob"]}}'},
    "bob": {"claims": '{sub = "bob", org = {members = []}}'},
    "number": {"claims": "{sub = 7, org = {members = [1, {}]}}"},
    "expired": {"expires": f"{datetime.now(UTC) - timedelta(hours=1):%Y-%m-%dT%H:%M:%SZ}"},
}
TOKENS = {name: new_token() for name in OPTIONS}


def tokens_text(names: Iterator[str] | None = None) -> str:
    return "\n".join(entry_text(name, TOKENS[name], OPTIONS[name]) for name in names or OPTIONS)


class Guarded:
    """A service, asked with tokens."""

    def __init__(self, service: RunningService, tokens: Path) -> None:
        self.service = service
        self.tokens = tokens
        self._client = httpx.Client(timeout=30.0)

    def data(self, path: str, token: str | None, method: str = "GET", **options: Any) -> httpx.Response:
        return self._client.request(method, self.service.http + path, headers=bearer(token), **options)

    def admin(self, path: str, token: str | None, method: str = "GET", **options: Any) -> httpx.Response:
        return self._client.request(method, self.service.admin + path, headers=bearer(token), **options)

    def ids(self, path: str, token: str, method: str = "GET", **options: Any) -> list[int]:
        response = self.data(path, token, method, **options)
        assert response.status_code == 200, response.text
        body = response.json()
        return [row["id"] for result in body.get("results", [body]) for row in result["rows"]]


def bearer(token: str | None) -> dict[str, str]:
    return {} if token is None else {"authorization": f"Bearer {TOKENS.get(token, token)}"}


def prepare(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 9) i",
        "CREATE TABLE orders (id int PRIMARY KEY, owner text NOT NULL, item text NOT NULL)",
        "INSERT INTO orders SELECT i, (ARRAY['alice', 'bob'])[1 + i % 2], 'item' FROM generate_series(1, 8) i",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "ALTER TABLE orders REPLICA IDENTITY FULL",
    )


@pytest.fixture(scope="module")
def guarded(postgres_server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("guarded")
    tokens = directory / "tokens.toml"
    tokens.write_text(tokens_text())
    with empty_database(postgres_server) as database:
        prepare(database)
        auth = {"tokens_file": str(tokens)}
        with running_service(directory / "service", database.url, VIEWS, auth=auth, log={"level": "debug"}) as service:
            yield Guarded(service, tokens)


def code_of(response: httpx.Response) -> str:
    assert response.headers["content-type"] == "application/problem+json", response.text
    assert response.headers["cache-control"] == "no-store"
    return str(response.json()["code"])


@pytest.mark.parametrize("path", ["/v1/views/story?id=1", "/v1/views/none", "/openapi.json", "/", "/v1/read", "/livez"])
def test_nothing_of_the_data_plane_is_there_without_a_token(guarded: Guarded, path: str) -> None:
    for token in (None, "upq_" + "x" * 43, "expired"):
        response = guarded.data(path, token)
        assert (response.status_code, code_of(response)) == (401, "unauthenticated")
        assert response.headers["www-authenticate"].startswith("Bearer")


def test_a_token_reads_the_views_that_it_names(guarded: Guarded) -> None:
    for _ in range(2):
        assert guarded.ids("/v1/views/story?id=1", "web") == [1]
        assert guarded.ids("/v1/views/story?id=1", "stories") == [1]
        assert guarded.ids("/v1/views/story/query", "stories", "POST", json={"keys": [{"id": 2}]}) == [2]
    refused = [
        guarded.data("/v1/views/order?id=1", "stories"),
        guarded.data("/v1/views/nothing?id=1", "stories"),
        guarded.data("/v1/views/orders/query", "stories", "POST", json={"keys": [{}]}),
        guarded.data("/v1/read", "stories", "POST", json={"reads": [{"view": "stories"}, {"view": "orders"}]}),
        guarded.data("/v1/views/story?id=1", "admin"),
    ]
    assert [(r.status_code, code_of(r)) for r in refused] == [(403, "forbidden")] * len(refused)


def test_rows_are_the_token_owners(guarded: Guarded) -> None:
    for _ in range(2):
        assert guarded.ids("/v1/views/orders", "alice") == [2, 4, 6, 8]
        assert guarded.ids("/v1/views/orders", "bob") == [1, 3, 5, 7]
