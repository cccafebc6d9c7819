"""Under load, an attack concerns who makes it: the others' answers stay right, and those in memory stay there."""

from collections.abc import Iterator

import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import until
from tests.integration.attacks import ATTACKS, Attack, Others, Site, attacked_site

pytestmark = pytest.mark.postgres


@pytest.fixture(scope="module")
def site(module_database: Database, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    with attacked_site(tmp_path_factory.mktemp("attacks"), module_database) as site:
        until(lambda: site.service.hits("person", id=1))
        until(lambda: site.service.hits("account", account=1))
        Others(site).warm()
        yield site


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.__name__)
def test_an_attack_concerns_who_makes_it(site: Site, attack: Attack) -> None:
    others = Others(site)
    with others.at_work():
        until(lambda: all(others.took_s.values()))
        attack(site)
    assert others.wrong == []
    assert 500 not in site.statuses, site.statuses
    counters = site.service.stats()["counters"]
    assert (counters["engine_failures"], counters["streams_lost"]) == (0, 0)
    assert site.service.call("GET", "/livez").status_code == 200
    log = site.service.log.read_text()
    assert "Traceback" not in log
