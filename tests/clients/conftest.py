"""A service over a small news site, as a client's author finds it."""

import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from service.demo.loading import create_tables
from service.demo.postgres_server import EmbeddedPostgres
from service.demo.views import VIEWS
from tests.fixtures.postgres import empty_database
from tests.fixtures.service import RunningService, running_service

_DATA = """
INSERT INTO users (name, display_name, joined) VALUES ('elena', 'Elena', '2020-02-29'), ('noah', 'Noah', '2021-01-01');
INSERT INTO stories (title, url, author, created_at)
    SELECT 'Story ' || n, 'http://example.org/' || n, 'elena', TIMESTAMPTZ '2026-01-01 12:00Z' + n * INTERVAL '1 minute'
    FROM generate_series(1, 30) n;
INSERT INTO votes (story_id, user_id, value) SELECT 7, name, 1 FROM users;
"""


@pytest.fixture(scope="package")
def live(postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    views = {view.name: view.sql.strip() for view in VIEWS}
    with empty_database(postgres_server) as database:
        with psycopg.connect(database.url, autocommit=True) as connection:
            create_tables(connection)
            connection.execute(_DATA)
        with running_service(tmp_path_factory.mktemp("live"), database.url, views) as service:
            yield service


@pytest.fixture(scope="package")
def document(live: RunningService, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The service's OpenAPI document, as a file."""
    path = tmp_path_factory.mktemp("document") / "openapi.json"
    path.write_text(json.dumps(httpx.get(f"{live.http}/openapi.json").raise_for_status().json()))
    return path
