"""Counters of a gateway's workers, which send them to one datagram socket (`service.gateway.counting`).

Not here: counters of the pods (`fleet`).
"""

import asyncio
import socket
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import orjson

from service.ground.logs import merged_errors
from service.protocol.admin_operations import Control, Operation
from service.protocol.stats import GatewayWorkerCounts, Stats
from service.supervisor.admin.metrics import Labels, http_samples, left_out
from service.supervisor.admin.prometheus import MetricSample

R = TypeVar("R")
#: Newest errors of all workers together.
_MOST_ERRORS = 50


class WorkerReports(asyncio.DatagramProtocol):
    """*State*: `_newest`, what each worker reported last, by its number; `errors`, the last ones, oldest first."""

    def __init__(self) -> None:
        self._newest: dict[int, GatewayWorkerCounts] = {}
        self._transport: asyncio.DatagramTransport | None = None
        self.errors: deque[dict[str, str]] = deque(maxlen=_MOST_ERRORS)

    async def open(self, path: Path) -> None:
        """Listens. The socket's file goes with its directory."""
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(
            lambda: self, local_addr=str(path), family=socket.AF_UNIX
        )

    def datagram_received(self, data: bytes, addr: Any) -> None:  # noqa: ARG002
        report = orjson.loads(data)
        self.errors.extend(reversed(report.pop("errors")))
        self._newest[report.pop("number")] = GatewayWorkerCounts(**report)

    def counted(self) -> dict[str, GatewayWorkerCounts]:
        return {str(number): report for number, report in sorted(self._newest.items())}

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class GatewayControl:
    """A `Control`: that of the pods, with the gateway's own counters in its `Stats`."""

    def __init__(self, pods: Control, reports: WorkerReports) -> None:
        self._pods = pods
        self._reports = reports

    async def call(self, operation: Operation[R]) -> R:
        """The operation's reply. Raises its ApiError."""
        reply = await self._pods.call(operation)
        if isinstance(reply, Stats):
            reply.recent_errors = merged_errors(reply.recent_errors, self._reports.errors)
            reply.gateway = self._reports.counted()
        return reply


def gateway_samples(reports: WorkerReports) -> Iterator[MetricSample]:
    """Metrics of the workers."""
    for number, report in reports.counted().items():
        yield from _worker_samples((("worker", number),), report)
        yield left_out(f"worker-{number}", report.log_left_out)


def _worker_samples(worker: Labels, report: GatewayWorkerCounts) -> Iterator[MetricSample]:
    yield from http_samples(worker, report.served, report.connections, report.problems)
    for shard, asked in report.requests.items():
        labels = (*worker, ("shard", shard))
        yield MetricSample("upquery_gateway_requests", asked, "Requests sent to a shard.", labels, counter=True)
    for outcome, answered in report.outcomes.items():
        labels = (*worker, ("outcome", outcome))
        help_ = "Requests over several shards, by how they reached one version."
        yield MetricSample("upquery_sharded_requests", answered, help_, labels, counter=True)
    for name, counted, help_ in (
        ("retries", report.retries, "Requests retried on another replica."),
        ("failed_requests", report.failed, "Requests that no replica of a shard could answer."),
        ("moved_slots", report.moved_slots, "Slots of keys that moved to another shard."),
    ):
        yield MetricSample(f"upquery_gateway_{name}", counted, help_, worker, counter=True)
    for name, now, help_ in (
        ("streams", report.streams, "Open streams, long polls and WebSockets."),
        ("shards", report.shards, "Number of shards that keys are read from or move to."),
        ("moving", report.moving, "Whether keys are moving to other shards."),
        ("away_pods", len(report.away), "Pods that a worker cannot reach."),
    ):
        yield MetricSample(f"upquery_gateway_{name}", float(now), help_, worker)
