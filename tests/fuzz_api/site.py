"""The service that random requests go to: the demo's views over a small news site, and values that have answers."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psycopg

from service.demo.loading import create_tables
from service.demo.postgres_server import EmbeddedPostgres
from service.demo.views import VIEWS
from tests.fixtures.postgres import Database, empty_database
from tests.fixtures.service import RunningService, running_service

DATA = """
INSERT INTO users (name, display_name, joined)
    SELECT 'user' || n, 'User ' || n, '2020-02-29' FROM generate_series(1, 9) n;
INSERT INTO stories (title, url, author, created_at)
    SELECT 'Story ' || n, NULL, 'user' || (1 + n % 4), TIMESTAMPTZ '2026-01-01 12:00Z' + n * INTERVAL '1 minute'
    FROM generate_series(1, 60) n;
INSERT INTO votes (story_id, user_id, value)
    SELECT s, 'user' || u, CASE WHEN (s + u) % 3 = 0 THEN -1 ELSE 1 END
    FROM generate_series(1, 60, 2) s, generate_series(1, 9) u WHERE (s + u) % 2 = 0;
INSERT INTO comments (story_id, author, body)
    SELECT 1 + n % 7, 'user' || (1 + n % 9), 'Said ' || n FROM generate_series(1, 50) n;
INSERT INTO tags (name) VALUES ('databases'), ('python');
INSERT INTO taggings (story_id, tag_id) SELECT n, 1 + n % 2 FROM generate_series(1, 60) n;
"""
_PARAMETERS: dict[str, list[Any]] = {
    "id": [1, 2, 3, 7, 60],
    "story_id": [1, 2, 3, 7],
    "author": ["user1", "user2", "user3"],
    "name": ["user1", "user2"],
    "tag": ["databases", "python"],
}

_QUERIES = [
    *(view.sql for view in VIEWS),
    "SELECT id, title FROM stories WHERE id = 7",
    "SELECT now()",
    "SELECT 1/0",
    "SELECT $1::int",
    "DELETE FROM tags",
]


@contextmanager
def demo_database(server: EmbeddedPostgres) -> Iterator[Database]:
    """A database of the demo's tables with few rows, for the length of a block."""
    with empty_database(server) as database:
        with psycopg.connect(database.url, autocommit=True) as connection:
            create_tables(connection)
            connection.execute(DATA)
        yield database


@contextmanager
def site(server: EmbeddedPostgres, directory: Path) -> Iterator[RunningService]:
    """The service for the length of a block."""
    with demo_database(server) as database:
        views = {view.name: view.sql.strip() for view in VIEWS}
        settings = {"subscriptions": {"poll_s": 0.2}, "adhoc": {"enabled": True}}
        with running_service(directory, database.url, views, **settings) as service:
            yield service


def values_of(service: RunningService) -> dict[str, dict[str, list[Any]]]:
    """Parameters that have rows, tokens of pages by view, and the views' names."""
    tokens: dict[str, list[Any]] = {}
    for view in VIEWS:
        if view.example is None or view.example[0] not in _PARAMETERS or "ORDER BY" not in view.sql:
            continue
        name = view.example[0]
        for value in _PARAMETERS[name]:
            page = httpx.get(f"{service.http}/v1/views/{view.name}", params={name: value, "limit": 3}).json()
            tokens.setdefault(view.name, []).extend([page["next"]] if page["next"] else [])
    names = [view.name for view in VIEWS]
    paths: dict[str, list[Any]] = {"view": names, "name": names}
    return {"parameters": _PARAMETERS, "tokens": tokens, "path": paths, "query": {"sql": _QUERIES}}
