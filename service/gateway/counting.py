"""What a gateway's worker counts, and how the gateway is told: once a second, one datagram of JSON.

Not here: adding up and printing (the admin port of the gateway).
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
    """Counts since the worker's start."""

    #: What shards were asked, by shard: reads, parts of batches, streams.
    requests: Counter[int] = field(default_factory=Counter)
    #: What was asked of another replica, because one was away or could not answer.
    retries: int = 0
    #: Requests that no replica could answer.
    failed: int = 0
    #: Batches, by how they came to one version: ``met`` at once, ``met_again``, by ``one_shard``, or not (``apart``).
    outcomes: Counter[str] = field(default_factory=Counter)
    #: Streams, long polls and WebSockets that are open.
    streams: int = 0

    def as_dict(self) -> dict[str, Any]:
        """The same, for JSON."""
        return {
            "requests": {str(shard): count for shard, count in sorted(self.requests.items())},
            "retries": self.retries,
            "failed": self.failed,
            "outcomes": dict(self.outcomes),
            "streams": self.streams,
        }


async def report(path: Path, counted: Callable[[], dict[str, Any]]) -> None:
    """Send what is counted, each second, to the socket of whoever adds it up. Who is not there is not told."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        while True:
            with suppress(OSError):
                sender.sendto(orjson.dumps(counted()), str(path))
            await asyncio.sleep(_REPORT_S)
