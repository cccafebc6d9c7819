"""Counters of a gateway's worker, and their report: one JSON datagram a second.

Not here: sums and output (the gateway's admin port).
"""

import asyncio
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

_REPORT_S = 1.0


@dataclass(slots=True)
class GatewayCounters:
    """Counters since the worker's start."""

    #: Requests to shards, by shard: reads, parts of batches, streams.
    requests: Counter[int] = field(default_factory=Counter)
    #: Requests repeated at another replica because one was away or could not answer.
    retries: int = 0
    #: Requests that no replica could answer.
    failed: int = 0
    #: Batches by the way to one version: ``met`` at once, ``met_again``, by ``one_shard``, or ``apart`` (refused).
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Open streams, long polls and WebSockets.
    streams: int = 0

    def as_dict(self) -> dict[str, Any]:
        return {
            "requests": {str(shard): count for shard, count in sorted(self.requests.items())},
            "retries": self.retries,
            "failed": self.failed,
            "outcomes": dict(self.outcomes),
            "streams": self.streams,
        }


async def report(path: Path, counted: Callable[[], dict[str, Any]]) -> None:
    """Send the counters each second to the supervisor's socket; without a receiver they are dropped."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        while True:
            with suppress(OSError):
                sender.sendto(orjson.dumps(counted()), str(path))
            await asyncio.sleep(_REPORT_S)
