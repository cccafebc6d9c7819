"""Latest report of each API worker.

Not here: the contents of a report (`service.worker.reports`); the names of metrics
(`service.supervisor.admin.metrics`).
"""

from dataclasses import dataclass, field, replace

from service.protocol.counters import ReadCounters, SubscriptionCounts, WorkerCounts, total
from service.protocol.engine_requests import Report

_MOST_ERRORS = 50


@dataclass(slots=True)
class WorkersTelemetry:
    """Reports of all workers. *Maintains*: `errors` has the latest errors, oldest first."""

    _latest: dict[int, Report] = field(default_factory=dict)
    errors: list[dict[str, str]] = field(default_factory=list)

    def take(self, report: Report) -> None:
        """Replaces the worker's counters and appends its errors."""
        self._latest[report.worker] = replace(report, touches=[], errors=[])
        self.errors = [*self.errors, *reversed(report.errors)][-_MOST_ERRORS:]

    @property
    def number(self) -> int:
        """Number of workers that have reported."""
        return len(self._latest)

    def reads_of(self, view: str) -> ReadCounters:
        """Reads of a view by all workers."""
        return total(ReadCounters, (report.reads[view] for report in self._latest.values() if view in report.reads))

    def subscriptions(self) -> SubscriptionCounts:
        """Counters of all workers together."""
        return total(SubscriptionCounts, (report.subscriptions for report in self._latest.values()))

    def processes(self) -> dict[str, WorkerCounts]:
        """Counters of processes, by worker."""
        latest = sorted(self._latest.items())
        return {str(worker): report.process for worker, report in latest if report.process is not None}
