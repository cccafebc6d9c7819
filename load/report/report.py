"""The report of an experiment, as data."""

from collections.abc import Sequence
from dataclasses import dataclass

from load.driver.outcome import RunOutcome
from load.report.figures import Result
from load.report.plots import Plot, ReportTable


@dataclass(frozen=True, slots=True)
class Report:
    title: str
    #: What was done and how to read it, a paragraph for somebody who was not there.
    about: str
    results: Sequence[Result]
    tables: Sequence[ReportTable] = ()
    plots: Sequence[Plot] = ()
    outcomes: Sequence[RunOutcome] = ()
