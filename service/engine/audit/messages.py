"""Messages between the engine process and an audit's process.

Standard input has the job as a pickle; lines of JSON follow in both directions: the commands ``take`` and ``look``,
their replies (`SAID`), progress, and finally the result or an error.

Not here: the sequence of messages (`audits`, `job`).
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from dataflow.types import ViewId
from service.engine.views.registry import ViewPlan
from service.settings.stack import Settings

#: Source of fresh results: connections of the job's own, or Spark.
Way = Literal["direct", "spark"]


@dataclass(frozen=True, slots=True)
class ViewToAudit:
    """View to audit."""

    id: ViewId
    name: str
    plan: ViewPlan


@dataclass(frozen=True, slots=True)
class AuditJob:
    """Parameters of an audit. `sample`: random keys of each view; `shown`: differences reported in full; `time_s`: keys
    not compared by then are counted as skipped.
    """

    settings: Settings
    leaf: Path
    views: tuple[ViewToAudit, ...]
    way: Way
    sample: int | None
    shown: int
    time_s: float


@dataclass(slots=True)
class ViewResult:
    """Result of a view: `keys` are cached, `compared` of them, with `differences`. `skipped`: keys not compared, by
    reason; a view that is not audited has one reason, with 0 keys or more.
    """

    view: str
    tier: str
    keys: int = 0
    compared: int = 0
    differences: int = 0
    skipped: dict[str, int] = field(default_factory=dict)

    def skip(self, reason: str, keys: int = 1) -> None:
        """Counts keys that are not compared."""
        self.skipped[reason] = self.skipped.get(reason, 0) + keys


@dataclass(frozen=True, slots=True)
class Difference:
    """Key whose cached rows differ from the upstream's: missing and surplus rows (as JSON), or all rows in another
    order. Of many rows, the first.
    """

    view: str
    key: list[str | None]
    missing: list[str]
    extra: list[str]
    missing_rows: int
    extra_rows: int
    reordered: bool = False
