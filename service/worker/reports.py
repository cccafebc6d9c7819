"""Counters of a worker other than reads, and its last errors, for its report once a second.

All values are counted elsewhere; nothing here is on the path of a request.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import uvicorn

from service.ground.errors import PROBLEMS
from service.ground.log_repeats import REPEATS
from service.ground.logs import RECENT_ERRORS
from service.ground.open_files import files_left
from service.protocol.counters import AccessLogCounts, WorkerCounts
from service.protocol.engine_client import EngineClient
from service.worker.access_log.log import AccessLog

#: Maximum errors of a report.
_MOST_ERRORS = 20


@dataclass(slots=True)
class WorkerTelemetry:
    """Counters since the worker's start. *State*: `_told` errors were reported."""

    server: uvicorn.Server
    engine: EngineClient
    access_log: AccessLog | None = None
    #: Batches over several shards, by the way in which they reached one version.
    outcomes: Mapping[str, int] = field(default_factory=dict)
    _told: int = field(default=0, init=False)

    def counts(self) -> WorkerCounts:
        """Return the counters."""
        state, log = self.server.server_state, self.access_log
        return WorkerCounts(
            requests=state.total_requests,
            connections=len(state.connections),
            files_left=files_left(),
            problems=dict(PROBLEMS),
            wire=dict(self.engine.asked),
            outcomes=dict(self.outcomes),
            access_log=AccessLogCounts() if log is None else AccessLogCounts(log.lines, log.dropped),
            log_left_out=REPEATS.left_out,
        )

    def take_errors(self) -> list[dict[str, str]]:
        """Return the latest errors since the last call, newest first."""
        errors = RECENT_ERRORS.newest_first()[: min(RECENT_ERRORS.seen - self._told, _MOST_ERRORS)]
        self._told = RECENT_ERRORS.seen
        return errors
