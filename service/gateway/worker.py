"""A gateway's worker process: uvicorn in front of the pods of all shards."""

import asyncio
import gc
import socket

from service.gateway.counting import report
from service.gateway.opening import Gateway, GatewayReport
from service.protocol.gateway_worker_config import GatewayWorkerConfig
from service.protocol.liveness import follow_loop
from service.settings.gateway_file import GatewayFile
from service.web.bounded_protocol import ConnectionLimits
from service.web.server import DrainingServer
from service.worker.process import allow_files, server_of, wrapped

#: Maximum shards for which connections are provided, also one for each client: streams have no other bound.
_MOST_SHARDS = 64
#: Open files of a worker besides its connections.
_OTHER_FILES = 64


def run_gateway_worker(config: GatewayWorkerConfig, listener: socket.socket) -> None:
    """Run the process: serve on `listener` (bound by the supervisor, shared by all workers) until SIGTERM."""
    following = GatewayFile(config.path, config.settings)
    # The pods may have changed, if this is not the first worker of its number.
    following.look()
    gateway = Gateway.of(following.settings)
    limits = ConnectionLimits(config.http, loopback_only=config.auth is None)
    server = server_of(wrapped(gateway.app, config), config.graceful_shutdown_s, limits)
    server.drain = gateway.app.drain
    clients, connections = config.http.max_connections, config.settings.gateway.connections
    allow_files(clients + (clients + connections) * _MOST_SHARDS + _OTHER_FILES)
    gc.freeze()
    gc.enable()
    with asyncio.Runner(loop_factory=server.config.get_loop_factory()) as runner:
        runner.run(_serve(server, gateway, following, config, listener))


async def _serve(
    server: DrainingServer,
    gateway: Gateway,
    following: GatewayFile,
    config: GatewayWorkerConfig,
    listener: socket.socket,
) -> None:
    follow_loop()
    tasks = [asyncio.ensure_future(following.run(lambda settings: gateway.topology.change(settings.gateway)))]
    if config.report_path is not None:
        counted = GatewayReport(config.number, server, gateway)
        tasks.append(asyncio.ensure_future(report(config.report_path, counted.as_dict)))
    try:
        await server.serve(sockets=[listener])
    finally:
        for task in tasks:
            task.cancel()
        await gateway.topology.close()
