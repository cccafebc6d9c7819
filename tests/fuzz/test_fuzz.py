"""A few hundred random cases; ``make fuzz`` runs many more."""

from pathlib import Path

import pytest

from tests.fixtures.corpus import CorpusService
from tests.fuzz.cases import file_of
from tests.fuzz.running import run_seed


@pytest.mark.parametrize("seed", [1001, 1002])
def test_random_views_answer_as_postgres_does(seed: int, corpus_service: CorpusService, tmp_path: Path) -> None:
    """Before and after every change, in every tier, whole or in part."""
    report = run_seed(seed, tmp_path, corpus_service.service, corpus_service.oracle, views=15, steps=6)
    assert report.reads > 100
    assert not report.wrong_answers
    assert not report.failures


def test_a_seed_always_makes_the_same_file() -> None:
    """Else nothing that went wrong could be run again."""
    assert file_of(7, 20, 5) == file_of(7, 20, 5)
