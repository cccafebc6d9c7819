"""A few hundred random requests; ``make fuzz-api`` makes many more."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.seeds import day_seed
from tests.fixtures.service import RunningService
from tests.fuzz_api.running import fuzz
from tests.fuzz_api.site import site


@pytest.fixture(scope="module")
def service(postgres_server: EmbeddedPostgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    with site(postgres_server, tmp_path_factory.mktemp("site")) as running:
        yield running


@pytest.mark.postgres
@pytest.mark.parametrize("port", ["http", "admin"])
def test_random_requests_get_what_the_document_says(port: str, service: RunningService, tmp_path: Path) -> None:
    found = fuzz(service, getattr(service, port), examples=8, seed=day_seed(f"fuzz_api {port}"), directory=tmp_path)
    assert found.clean, found.output
    assert found.cases > 100
