"""The console, in the browser: what a newcomer sees of a running service."""

import hashlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from service.demo.postgres_server import EmbeddedPostgres
from service.supervisor.console.routes import CONSOLE_PATHS
from tests.fixtures.chromium import page_text, require_chromium, screenshot
from tests.fixtures.postgres import empty_database
from tests.fixtures.service import RunningService, running_service, until

VIEWS = {
    "story": "SELECT id, title FROM stories WHERE id = :id",
    "votes_of": "SELECT s.id, count(v.story_id) AS votes FROM stories s LEFT JOIN votes v ON v.story_id = s.id "
    "WHERE s.id = :id GROUP BY s.id",
    "marked": "SELECT id, '<script>document.title = \"broken in\"</script>' AS said FROM stories WHERE id = :id",
    "gone": "SELECT nothing FROM stories WHERE id = :id",
}
_TABLES = (
    "CREATE TABLE stories (id int PRIMARY KEY, title text)",
    "CREATE TABLE votes (story_id int, voter int, PRIMARY KEY (story_id, voter))",
    "ALTER TABLE stories REPLICA IDENTITY FULL",
    "ALTER TABLE votes REPLICA IDENTITY FULL",
    "INSERT INTO stories SELECT n, 'Story ' || n FROM generate_series(1, 9) n",
)


@pytest.fixture(scope="module")
def service(postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with empty_database(postgres_server) as database:
        database.execute(*_TABLES)
        with running_service(tmp_path_factory.mktemp("service"), database.url, VIEWS) as running:
            for number in (1, 2, 3, 3):
                running.rows("story", id=number)
            until(lambda: running.view("story")["counters"]["hits"] >= 1)
            yield running


@pytest.mark.postgres
def test_the_page_shows_views_graph_and_errors(service: RunningService, tmp_path: Path) -> None:
    page = page_text(f"{service.admin}/#view=votes_of", tmp_path)
    assert "1 view is broken" in page
    for name in VIEWS:
        assert f'data-view="{name}"' in page
    assert "25.0 %" in page
    # The chosen box, and what it was made from.
    assert "view votes_of</h3>" in page
    assert "count(v.story_id) AS votes" in page
    assert page.count("data-node=") == len(httpx.get(f"{service.admin}/v1/graph").json())
    # The reason of the broken view, as a recent error.
    assert 'class="broken">error' in page


@pytest.mark.postgres
def test_what_the_service_says_is_text(service: RunningService, tmp_path: Path) -> None:
    page = page_text(f"{service.admin}/#view=marked", tmp_path)
    assert "<title>Upquery</title>" in page
    assert "&lt;script&gt;document.title" in page


@pytest.mark.postgres
def test_a_picture_of_it(service: RunningService, tmp_path: Path) -> None:
    empty = _picture("data:text/html,", tmp_path / "empty.png")
    assert _picture(f"{service.admin}/", tmp_path / "console.png") != empty
    assert (tmp_path / "console.png").stat().st_size > 20_000


def _picture(url: str, path: Path) -> str:
    screenshot(url, path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.postgres
def test_nothing_from_elsewhere_may_run(service: RunningService) -> None:
    require_chromium()
    for path in sorted(CONSOLE_PATHS):
        response = httpx.get(service.admin + path)
        assert response.status_code == 200
        policy = response.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
    for path in ("/console/routes.py", "/console/..%2froutes.py", "/console/"):
        assert httpx.get(service.admin + path).status_code == 404
