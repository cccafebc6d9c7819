"""Every file of ``corpus/`` over a service and PostgreSQL, at one version after every change. See README.md."""

from pathlib import Path

import pytest

from tests.fixtures.corpus import CorpusService
from tests.sql.corpus_file import corpus_files, read_corpus_file
from tests.sql.corpus_run import CorpusRun

pytestmark = pytest.mark.postgres


@pytest.mark.parametrize("path", corpus_files(), ids=lambda path: path.stem)
def test_answers_are_the_upstreams(path: Path, corpus_service: CorpusService) -> None:
    report = CorpusRun(read_corpus_file(path), corpus_service.service, corpus_service.oracle).run()
    corpus_service.report(report)
    assert not report.problems, "\n".join(report.problems)
