"""Construction of a gateway's application, and its report."""

from dataclasses import dataclass, field
from typing import Any

import uvicorn

from service.gateway.app import GatewayApp
from service.gateway.batches import GatewayBatches
from service.gateway.counting import GatewayCounters
from service.gateway.known import LearnedViews
from service.gateway.reading import GatewayReads
from service.gateway.relaying import Relays
from service.gateway.replica import PodTimeouts
from service.gateway.sockets import Sockets
from service.gateway.streams import Streams
from service.gateway.topology import Topology
from service.ground.errors import PROBLEMS
from service.ground.log_repeats import REPEATS
from service.ground.logs import RECENT_ERRORS
from service.settings.gateway import GatewaySettings

#: Waits of a pod, each up to the read timeout: for a minimum version, for earlier commits (``on_lag``), for fills. The
#: pod itself reports when they take too long.
_WAITS = 3
#: Maximum errors of a report.
_MOST_ERRORS = 20


@dataclass(frozen=True, slots=True)
class Gateway:
    """The application and its parts."""

    app: GatewayApp
    topology: Topology
    counters: GatewayCounters

    @classmethod
    def of(cls, settings: GatewaySettings) -> "Gateway":
        """Construct the gateway; nothing is connected yet."""
        section, http = settings.gateway, settings.http
        reach = PodTimeouts(
            section.connections,
            section.connect_timeout_s,
            section.probe_s,
            silent_s=http.read_timeout_s + _WAITS * max(http.read_timeout_s, http.max_wait_s),
            waiting_s=http.read_timeout_s,
        )
        counters, known = GatewayCounters(), LearnedViews()
        topology = Topology(section, reach, known, counters)
        reads = GatewayReads(topology, known)
        app = GatewayApp(
            reads,
            Relays(topology, known, settings.log.slow_ms / 1000),
            GatewayBatches(topology, known, reads, http, counters),
            Streams(counters),
            Sockets(topology, known, counters, section.connect_timeout_s),
            max_body_bytes=http.max_body_bytes,
        )
        return cls(app, topology, counters)


@dataclass(slots=True)
class GatewayReport:
    """A worker's report. *State*: `_told` errors were reported."""

    number: int
    server: uvicorn.Server
    gateway: Gateway
    _told: int = field(default=0, init=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the counters and the present state; the errors are those since the last report."""
        state, homes = self.server.server_state, self.gateway.topology.homes
        errors = RECENT_ERRORS.newest_first()[: min(RECENT_ERRORS.seen - self._told, _MOST_ERRORS)]
        self._told = RECENT_ERRORS.seen
        return {
            "number": self.number,
            **self.gateway.counters.as_dict(),
            "served": state.total_requests,
            "connections": len(state.connections),
            "problems": dict(PROBLEMS),
            "away": self.gateway.topology.away,
            "shards": homes.shards,
            "moving": homes.is_moving,
            "moved_slots": homes.moved,
            "log_left_out": REPEATS.left_out,
            "errors": errors,
        }
