"""Runs seeds over one service and one database, and says what came of them."""

import re
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from tests.fixtures.service import RunningService
from tests.fuzz.cases import file_of
from tests.fuzz.dialect import Dialect
from tests.sql.corpus_file import read_corpus_file
from tests.sql.corpus_run import CorpusRun, Report
from tests.sql.upstream_oracle import Oracle

#: A view that could not be put although its SQL is not to blame.
_FAILED = re.compile(r": (5\d\d |broken)")
#: Views and transactions of one seed.
VIEWS, STEPS = 30, 10


@dataclass
class Outcome:
    """All seeds so far."""

    cases: int = 0
    views: int = 0
    tiers: Counter[str] = field(default_factory=Counter)
    #: Why views are not incremental, and how many.
    reasons: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def add(self, seed: int, report: Report) -> int:
        """One more seed; how much is wrong with it."""
        self.cases += report.reads
        self.views += report.views
        self.tiers.update(report.tiers)
        self.reasons.update(_reason(text) for text in report.other_tier)
        failed = [text for text in report.other_tier if _FAILED.search(text)]
        wrong = [*report.wrong_answers, *report.failures, *failed]
        self.problems += [f"seed {seed}: {text}" for text in wrong]
        return len(wrong)


def run_seed(
    seed: int,
    directory: Path,
    dialect: Dialect,
    processes: tuple[RunningService, Oracle],
    views: int = VIEWS,
    steps: int = STEPS,
) -> Report:
    """One seed's file, which is left in `directory`."""
    path = directory / f"fuzz_{seed}.test"
    path.write_text(file_of(seed, views, steps, dialect), encoding="utf-8")
    return CorpusRun(read_corpus_file(path), *processes).run()


def _reason(text: str) -> str:
    return re.sub(r"\b(fuzz_\d+(\.test:\d+)?|q\d+|c\d+|p\d+)\b", "…", text)
