"""What API workers count beside their reads, as they have reported it last.

Not here: what they say (`service.worker.reports`); its names for Prometheus (`service.supervisor.admin.metrics`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_ERRORS = 50


@dataclass(slots=True)
class WorkersTelemetry:
    """What all workers have reported. *Maintains*: `errors` has the last ones, the oldest first."""

    _counted: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    errors: list[dict[str, str]] = field(default_factory=list)

    def report(self, worker: int, counted: Mapping[str, Any]) -> None:
        """A worker's newest report."""
        if not counted:
            return
        self._counted[worker] = counted
        self.errors = [*self.errors, *reversed(counted["errors"])][-_MOST_ERRORS:]

    def counters(self) -> dict[str, Any]:
        """The numbers, of each worker."""
        return {
            str(worker): {name: value for name, value in counted.items() if name != "errors"}
            for worker, counted in sorted(self._counted.items())
        }
