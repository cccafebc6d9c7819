"""What the engine process and the process of an audit say to each other.

The job comes as one pickle on standard input; then lines of JSON go both ways: ``take`` and ``look`` to the job,
`SAID` of each, how far it is, and in the end the result, or why there is none, from it.

Not here: who says what when (`audits`, `job`).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dataflow.types import ViewId
from service.engine.views.registry import ViewPlan
from service.settings.stack import Settings

#: Who computes the answers anew: connections of the job's own, or Spark.
Way = Literal["direct", "spark"]


@dataclass(frozen=True, slots=True)
class Audited:
    """A view that is looked at."""

    id: ViewId
    name: str
    plan: ViewPlan


@dataclass(frozen=True, slots=True)
class AuditJob:
    """What to do. `sample`: so many keys of each view, at random; `shown`: so many differences are said in full;
    `time_s`: what is not compared by then is left out, and said to be."""

    settings: Settings
    leaf: Path
    views: tuple[Audited, ...]
    way: Way
    sample: int | None
    shown: int
    time_s: float


@dataclass(slots=True)
class ViewResult:
    """What was found of a view: `keys` are cached, `compared` of them, `differences` of these. `skipped`: how many
    were not, by reason; a view that is not looked at at all has one reason, of 0 keys or more."""

    view: str
    tier: str
    keys: int = 0
    compared: int = 0
    differences: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str, keys: int = 1) -> None:
        """So many keys are not compared."""
        self.skipped[reason] = self.skipped.get(reason, 0) + keys


@dataclass(frozen=True, slots=True)
class Difference:
    """A key whose cached rows are not the upstream's: rows (as JSON) that are missing, and that are too many; or all
    of them in another order. Of many rows, the first."""

    view: str
    key: list[str | None]
    missing: list[str]
    extra: list[str]
    missing_rows: int
    extra_rows: int
    reordered: bool = False
