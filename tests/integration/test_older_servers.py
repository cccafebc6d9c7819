"""The servers of the distribution's packages, where some are installed: older ones than the tests' own."""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from random import Random

import pytest

from service.demo.postgres_server import EmbeddedPostgres
from tests.fixtures.corpus import corpus_upstream
from tests.fixtures.postgres import discard_server, empty_database, start_server
from tests.fixtures.seeds import day_seed
from tests.integration import partition_forms
from tests.integration.schema_forms import FORMS
from tests.integration.test_schema_changes import Site
from tests.sql.corpus_file import corpus_files, read_corpus_file
from tests.sql.corpus_run import CorpusRun

pytestmark = pytest.mark.postgres

#: Where Debian has the programs of each major version.
_INSTALLED = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
#: Files of the corpus, and forms of DDL, of each day.
FILES, DDL = 3, 6


@pytest.fixture(scope="module", params=_INSTALLED, ids=lambda binaries: binaries.parent.name)
def older_server(request: pytest.FixtureRequest) -> Iterator[EmbeddedPostgres]:
    server = start_server(binaries=request.param)
    yield server
    discard_server(server)


def test_corpus_of_an_older_server(older_server: EmbeddedPostgres, tmp_path: Path) -> None:
    chosen = Random(day_seed("older servers")).sample(corpus_files(), FILES)
    with corpus_upstream(older_server, tmp_path) as (service, oracle):
        for path in chosen:
            report = CorpusRun(read_corpus_file(path), service, oracle).run()
            assert not report.problems


def test_ddl_of_an_older_server(older_server: EmbeddedPostgres, tmp_path: Path) -> None:
    with empty_database(older_server) as database:
        usable = [form for form in [*FORMS, *partition_forms.FORMS] if database.version >= form.since]
        forms = Random(day_seed("older servers")).sample(usable, DDL)
        with closing(Site(database, tmp_path, forms, marked=True, shards=1)) as site:
            site.pass_through()
