"""An API worker process: uvicorn with the hot route in front of FastAPI."""

import asyncio
import gc
import resource
import socket
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import uvicorn

from service.ground.traces import tracing_of
from service.leaf_store.reader import LeafReader
from service.protocol.engine_client import EngineClient
from service.protocol.engine_requests import Report
from service.protocol.liveness import follow_loop
from service.protocol.worker_config import WorkerConfig
from service.settings.auth import AuthSettings
from service.settings.sections import HttpSettings
from service.settings.telemetry import AccessLogSettings, TraceSettings
from service.web.auth.authority import Authority
from service.web.auth.guard import Guard
from service.web.bounded_protocol import ConnectionLimits
from service.web.client_limit import ClientLimit
from service.web.compression import Compression
from service.web.deferred import DirectApp
from service.web.direct_protocol import bounded
from service.web.request_log import RequestLog
from service.web.server import DrainingServer
from service.worker.access_log.keys import KeyTexts
from service.worker.access_log.log import AccessLog
from service.worker.access_log.logged_app import LoggedApp
from service.worker.reports import WorkerTelemetry
from service.worker.routes.app import build_app
from service.worker.routes.hot import HotRoute
from service.worker.shards.opened import sharded_app
from service.worker.shards.router import Router
from service.worker.subscriptions.socket_protocol import SocketProtocol

if TYPE_CHECKING:
    from service.ground.tracing import Tracing

#: Interval of a worker's reports: counters and sampled reads.
_REPORT_S = 1.0
#: Interval at which a worker that starts before the engine looks for the leaf store.
_LOOK_S = 0.02
#: Open files of a worker besides its connections.
_OTHER_FILES = 64


def run_worker(config: WorkerConfig, listener: socket.socket) -> None:
    """Run the process: serve on `listener` (bound by the supervisor, shared by all workers) until SIGTERM.

    If the engine has not created the leaf store yet, wait for it.
    """
    paths = ((config.leaf_path, config.engine_socket), *config.others)
    readers = [_reader(leaf) for leaf, _ in paths]
    tracing = tracing_of(config.traces, f"worker-{config.number}")
    engines = [_engine_client(path, tracing) for _, path in paths]
    app = _app(config, readers, engines)
    shards = [app] if isinstance(app, HotRoute) else app.shards
    log = None if config.access_log is None else access_log_of(config.access_log, app, config)
    outside = wrapped(app, config, log)
    if tracing is not None and config.traces is not None:
        outside = _traced(outside, tracing, config.traces)
    server = server_of(
        outside, config.graceful_shutdown_s, ConnectionLimits(config.http, loopback_only=config.auth is None)
    )
    allow_files(config.http.max_connections + _OTHER_FILES)
    server.drain = app.drain
    server.give_up = partial(_close_all, engines)
    # The present objects live as long as the process; exclude them from collections.
    gc.freeze()
    gc.enable()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        outcomes = {} if isinstance(app, HotRoute) else app.reads.outcomes
        telemetry = [WorkerTelemetry(server, engine, log, outcomes) for engine in engines]
        runner.run(_serve(server, listener, list(zip(engines, shards, telemetry, strict=True)), config.number, log))
    if tracing is not None:
        tracing.close()


def _engine_client(path: Path, tracing: "Tracing | None") -> EngineClient:
    if tracing is None:
        return EngineClient(path)
    from service.worker.traced_client import TracedEngineClient

    return TracedEngineClient(path, tracing)


def _traced(app: DirectApp, tracing: "Tracing", settings: TraceSettings) -> DirectApp:
    from service.worker.traced_app import TracedApp

    return TracedApp(app, tracing, settings.sample_rate)


def _app(config: WorkerConfig, readers: Sequence[LeafReader], engines: Sequence[EngineClient]) -> HotRoute | Router:
    limits, guarded = config.http, config.auth is not None
    if len(engines) == 1:
        return build_app(readers[0], engines[0], limits, config.subscriptions, guarded=guarded, adhoc=config.adhoc)
    return sharded_app(readers, engines, limits, config.subscriptions, guarded=guarded, adhoc=config.adhoc)


def access_log_of(settings: AccessLogSettings, app: HotRoute | Router, config: WorkerConfig) -> AccessLog:
    """Return the access log for the reads of `app`."""
    texts = KeyTexts(config.claims_key, settings.sample_rate if settings.sample == "keys" else 1.0)
    return AccessLog(settings, app.reads, texts, config.number)


class Outside(Protocol):
    """The part of a worker's configuration that wrappers need."""

    @property
    def http(self) -> HttpSettings: ...

    @property
    def auth(self) -> AuthSettings | None:
        """Authentication; None: every client is admitted."""
        ...

    @property
    def slow_ms(self) -> float:
        """Slower requests are logged."""
        ...


def wrapped(app: DirectApp, config: Outside, log: AccessLog | None = None) -> DirectApp:
    """Return the application within its configured wrappers; others cost nothing."""
    if log is not None:
        app = LoggedApp(app, log)
    if config.http.compress_bytes:
        app = Compression(app, config.http.compress_bytes)
    if (waiting := waiting_of_client(config)) is not None:
        app = ClientLimit(app, waiting)
    if config.auth is not None:
        app = Guard(app, Authority.of(config.auth))
    return RequestLog(app, config.slow_ms)


def waiting_of_client(config: Outside) -> int | None:
    """Return the limit on waiting requests of a client; None: unlimited. By address, all clients of a proxy would be
    one."""
    if config.http.client_waiting_reads is not None:
        return config.http.client_waiting_reads
    return None if config.auth is None else max(1, config.http.waiting_reads // 4)


def allow_files(files: int) -> None:
    """Raise the limit on open files, as far as the system allows: the default may be below the connections' number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = files if hard == resource.RLIM_INFINITY else min(files, hard)
    if soft not in (resource.RLIM_INFINITY, wanted) and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def server_of(app: Any, graceful_shutdown_s: float, limits: ConnectionLimits | None = None) -> DrainingServer:
    """Return the HTTP server of a worker."""
    limits = limits or ConnectionLimits()
    return DrainingServer(
        uvicorn.Config(
            app,
            http=bounded(limits),
            loop="uvloop",
            ws=SocketProtocol,
            # Clients' messages are short, and compression would be repeated for each subscriber of a topic.
            ws_max_size=1 << 20,
            ws_per_message_deflate=False,
            lifespan="off",
            access_log=False,
            log_config=None,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=limits.http.keep_alive_s,  # type: ignore[arg-type]
            timeout_graceful_shutdown=int(max(1, graceful_shutdown_s)),
            backlog=2048,
        )
    )


def _reader(path: Path) -> LeafReader:
    while True:
        try:
            return LeafReader.open(path)
        except FileNotFoundError:
            time.sleep(_LOOK_S)


async def _serve(
    server: uvicorn.Server,
    listener: socket.socket,
    shards: Sequence[tuple[EngineClient, HotRoute, WorkerTelemetry]],
    number: int,
    log: AccessLog | None,
) -> None:
    follow_loop()
    reporters = [
        asyncio.ensure_future(_report(engine, shard, number, telemetry)) for engine, shard, telemetry in shards
    ]
    writing = None if log is None else asyncio.ensure_future(log.run())
    try:
        await server.serve(sockets=[listener])
    finally:
        for reporter in reporters:
            reporter.cancel()
        if log is not None and writing is not None:
            log.stop()
            await writing
        await _close_all([engine for engine, _, _ in shards])


async def _close_all(engines: Sequence[EngineClient]) -> None:
    """Close the engine clients; waiting requests get a problem."""
    await asyncio.gather(*(engine.close() for engine in engines))


async def _report(engine: EngineClient, app: HotRoute, number: int, telemetry: WorkerTelemetry) -> None:
    while True:
        await asyncio.sleep(_REPORT_S)
        await engine.report(
            Report(
                number,
                app.counters(),
                app.take_touches(),
                app.subscribe.subscriptions.counters(),
                telemetry.counts(),
                telemetry.take_errors(),
            )
        )
