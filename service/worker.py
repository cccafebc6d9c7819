"""An API worker process: uvicorn with the hot route in front of FastAPI."""

import asyncio
import gc
import socket
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn

from service.auth.authority import Authority
from service.auth.guard import Guard
from service.http.app import build_app
from service.http.direct_protocol import DirectProtocol
from service.http.hot import HotRoute
from service.http.reads import Limits
from service.http.server import DrainingServer
from service.leaf_store.reader import LeafReader
from service.settings.auth import AuthSettings
from service.settings.sections import SubscriptionSettings
from service.subscriptions.socket_protocol import SocketProtocol
from service.wire import EngineClient

#: How often a worker reports its counters, and what was read.
_REPORT_S = 1.0
#: How often a worker that was started first looks for the leaf store.
_LOOK_S = 0.02


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """What a worker needs; picklable, for a spawned process."""

    #: 0, 1, … : which worker this is, in its reports.
    number: int
    leaf_path: Path
    engine_socket: Path
    #: How long a miss may wait.
    read_timeout_s: float = 5.0
    #: The largest request body, and the most keys in one request.
    max_body_bytes: int = 1 << 20
    max_keys: int = 1000
    #: How long requests that are being answered have when the worker is stopped.
    graceful_shutdown_s: float = 3.0
    #: Who is let in; None: everybody.
    auth: AuthSettings | None = None
    subscriptions: SubscriptionSettings = field(default_factory=SubscriptionSettings)


def run_worker(config: WorkerConfig, listener: socket.socket) -> None:
    """The process's main: serves on `listener` (bound by the supervisor, shared by all workers) until SIGTERM.

    May be started before the engine process has created the leaf store: it then waits for it.
    """
    reader = _reader(config.leaf_path)
    engine = EngineClient(config.engine_socket)
    limits = Limits(config.read_timeout_s, config.max_body_bytes, config.max_keys)
    app = build_app(reader, engine, limits, config.subscriptions, guarded=config.auth is not None)
    guarded = app if config.auth is None else Guard(app, Authority.of(config.auth))
    server = server_of(guarded, config.graceful_shutdown_s)
    server.drain = app.subscribe.subscriptions.close
    # What is there now stays: a collection would only walk it again and again.
    gc.collect()
    gc.freeze()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_serve(server, listener, engine, app, config.number))


def server_of(app: Any, graceful_shutdown_s: float) -> DrainingServer:
    """The HTTP server of a worker."""
    return DrainingServer(
        uvicorn.Config(
            app,
            http=DirectProtocol,
            loop="uvloop",
            ws=SocketProtocol,
            # What clients say is short; and compressing would be done anew for each of a topic's subscribers.
            ws_max_size=1 << 20,
            ws_per_message_deflate=False,
            lifespan="off",
            access_log=False,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_keep_alive=75,
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
    server: uvicorn.Server, listener: socket.socket, engine: EngineClient, app: HotRoute, number: int
) -> None:
    reporter = asyncio.ensure_future(_report(engine, app, number))
    try:
        await server.serve(sockets=[listener])
    finally:
        reporter.cancel()
        await engine.close()


async def _report(engine: EngineClient, app: HotRoute, number: int) -> None:
    while True:
        await asyncio.sleep(_REPORT_S)
        followed = app.subscribe.subscriptions.counters()
        await engine.report(number, app.counters(), app.take_touches(), followed)
