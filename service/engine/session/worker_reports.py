"""Latest counters and errors reported by each API worker.

Not here: the contents of a report (`service.worker.reports`); the names of metrics
(`service.supervisor.admin.metrics`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_ERRORS = 50


@dataclass(slots=True)
class WorkersTelemetry:
    """Reports of all workers. *Maintains*: `errors` has the latest errors, oldest first."""

    _counted: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    errors: list[dict[str, str]] = field(default_factory=list)

    def report(self, worker: int, counted: Mapping[str, Any]) -> None:
        """Replaces the worker's counters and appends its errors."""
        if not counted:
            return
        self._counted[worker] = counted
        self.errors = [*self.errors, *reversed(counted["errors"])][-_MOST_ERRORS:]

    def counters(self) -> dict[str, Any]:
        """Numeric counters by worker."""
        return {
            str(worker): {name: value for name, value in counted.items() if name != "errors"}
            for worker, counted in sorted(self._counted.items())
        }
