"""Common types of the experiments of ``upquery bench``."""

from collections.abc import Callable, Sequence
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


#: Tells people what is being done now.
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class RunConditions:
    """The cores of the servers and of the generator, alike for all sides; None: not pinned."""

    server_cores: tuple[int, ...] | None
    client_cores: tuple[int, ...] | None

    @property
    def text(self) -> str:
        if self.server_cores is None or self.client_cores is None:
            return "not pinned"
        return f"servers on cores {list(self.server_cores)}, generator on {list(self.client_cores)}"
