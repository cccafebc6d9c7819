"""Each of the chart's alerts fires when what it is about happens (`make faults`), and not before."""

import os
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.faults.alerts import Rule, Scraped, rules
from tests.faults.bed import Bed, running_bed
from tests.faults.faults import crashed, killed, stopped, without_descriptors
from tests.faults.sides import PostgresSide
from tests.fixtures.service import until
from tests.integration.consistency import RECOVERY_S
from tests.tidy.sources import ROOT

#: Nobody waits for an hour.
HURRY = 20.0
#: What outgrows the memory budget.
MEMORY, ROWS = "64MiB", 600_000
LIMIT_S = 120.0


def test_rules_are_about_metrics_that_there_are() -> None:
    documented = (ROOT / "docs" / "telemetry.md").read_text(encoding="utf-8")
    metrics = set(re.findall(r"`(upquery_\w+)", documented))
    assert len(rules()) >= 6
    for rule in rules():
        assert set(rule.metrics) <= metrics, rule


@contextmanager
def one_after_the_other(bed: Bed, times: int, break_it: Callable[[], None]) -> Iterator[None]:
    """Broken so often, healed in between."""
    for _ in range(times):
        break_it()
        until(bed.is_whole, RECOVERY_S)
    yield


def lose_stream(bed: Bed) -> None:
    before = bed.service.stats()["counters"]["streams"]
    bed.side.end_stream()
    until(lambda: bed.service.stats()["counters"]["streams"] > before)


def kill_worker(bed: Bed) -> None:
    with killed("worker-0")(bed):
        pass


@contextmanager
def outgrown(bed: Bed) -> Iterator[None]:
    """Let a full materialization exceed its limit."""
    assert isinstance(bed.side, PostgresSide)
    bed.side.database.execute(f"INSERT INTO kept SELECT i, i FROM generate_series(1000, {ROWS}) i")
    yield
    bed.side.database.execute("DELETE FROM kept WHERE id >= 1000")


CAUSES = {
    "UpqueryProcessHangs": stopped("engine", goes_on=False),
    "UpqueryProcessRestarts": lambda bed: one_after_the_other(bed, 3, lambda: kill_worker(bed)),
    "UpqueryAnswersAreOld": crashed,
    "UpqueryStreamIsLostAgainAndAgain": lambda bed: one_after_the_other(bed, 4, lambda: lose_stream(bed)),
    "UpqueryTableDoesNotAnswer": lambda bed: bed.side.locked(),
    "UpqueryHasNoFilesLeft": without_descriptors,
    "UpqueryIsOverItsBudget": outgrown,
}


@contextmanager
def scraping(bed: Bed) -> Iterator[Scraped]:
    """Twice a second, for the length of a block."""
    scraped, ended = Scraped(), threading.Event()

    def scrape() -> None:
        while not ended.wait(0.5):
            scraped.scrape(bed.service)

    thread = threading.Thread(target=scrape)
    thread.start()
    try:
        yield scraped
    finally:
        ended.set()
        thread.join()


def fires(bed: Bed, rule: Rule) -> None:
    """Break what it is about, wait until it fires, and until all is well again."""
    with scraping(bed) as scraped:
        bed.load.pause(3.0)
        assert not scraped.fires(rule, HURRY), f"{rule.name} fires before anything is broken"
        bed.load.disturbed.set()
        with CAUSES[rule.name](bed):
            until(lambda: scraped.fires(rule, HURRY), LIMIT_S)
        sys.stdout.write(f"{rule.name} fired\n")
        until(bed.load.is_right, RECOVERY_S)
        until(bed.is_whole, RECOVERY_S)
        bed.load.disturbed.clear()


if "ALL_FAULTS" in os.environ:

    @pytest.mark.postgres
    def test_each_fires_when_its_cause_is_there() -> None:
        assert CAUSES.keys() == {rule.name for rule in rules()}
        with running_bed(PostgresSide, memory=MEMORY) as bed:
            for rule in rules():
                fires(bed, rule)
