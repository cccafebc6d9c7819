"""The parent of all processes of a gateway (docs/gateway.md): keeps its workers, serves its admin port, and looks after
the pods behind it.

*Invariants*: the sockets are bound before any child runs; a gateway keeps nothing: the run directory has a socket, and
is gone when the supervisor is.

Not here: what the workers do (`service.gateway`); what is done for the pods (`service.supervisor.fleet.fleet`).
"""

import asyncio
import os
from pathlib import Path

import httpx

from service.protocol.child import GatewayWorkerChild
from service.protocol.gateway_worker_config import GatewayWorkerConfig
from service.protocol.run_directory import RunDirectory
from service.settings.errors import SettingsError
from service.settings.gateway import GatewaySettings
from service.settings.gateway_file import GatewayFile
from service.supervisor.admin.app import admin_app
from service.supervisor.admin.metrics import process_samples
from service.supervisor.admin.port import AdminPort
from service.supervisor.admin.prometheus import prometheus_text
from service.supervisor.children import Child, StartError, start_all
from service.supervisor.fleet.fleet import Fleet
from service.supervisor.fleet.gateway_metrics import GatewayControl, WorkerReports, gateway_samples
from service.supervisor.fleet.remote import remote_client
from service.supervisor.foreground import check_auth
from service.supervisor.ports import Endpoints, Ports


class GatewaySupervisor:
    """A whole gateway: a `service.supervisor.foreground.Service`. `path`: the file of the settings, which is
    followed."""

    def __init__(self, settings: GatewaySettings, path: Path | None) -> None:
        self._settings = settings
        self._path = path
        self._ports: Ports | None = None
        self._run: RunDirectory | None = None
        self._admin: AdminPort | None = None
        self._client: httpx.AsyncClient | None = None
        self._fleet: Fleet | None = None
        self._reports = WorkerReports()
        self._tasks: list[asyncio.Task[None]] = []
        self.workers: list[Child] = []

    async def start(self) -> Endpoints:
        """Binds the ports, starts all processes. After a `StartError` nothing is left behind."""
        try:
            return await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> Endpoints:
        settings = self._settings
        check_auth(settings.auth)
        _check_token(settings)
        self._ports = ports = Ports(settings.http)
        self._run = run = RunDirectory()
        await self._reports.open(run.paths.report_socket)
        self._client = remote_client(settings.gateway.connect_timeout_s)
        self._fleet = fleet = Fleet(settings, self._client)
        control = GatewayControl(fleet.engines, self._reports)
        app = admin_app(control, self, self._metrics)
        self._admin = AdminPort(app, settings.http, settings.auth, ports.admin)
        self._admin.open()
        following = GatewayFile(self._path, settings)
        self._tasks = [asyncio.create_task(fleet.run()), asyncio.create_task(following.run(self._follow))]
        self.workers = [self._worker(n) for n in range(settings.http.workers)]
        await start_all(self.workers)
        return ports.endpoints(os.getpid())

    def _worker(self, number: int) -> Child:
        configuration = self._configuration(number)
        return Child(f"worker-{number}", configuration, (configuration.listener,))

    def _configuration(self, number: int) -> GatewayWorkerChild:
        assert self._run is not None
        assert self._ports is not None
        config = GatewayWorkerConfig(number, self._settings, self._path, self._run.paths.report_socket)
        return GatewayWorkerChild(config, self._ports.api.fileno())

    def _follow(self, settings: GatewaySettings) -> None:
        """The pods are others; also for workers that are started again, while the file cannot be used."""
        self._settings = settings
        for number, worker in enumerate(self.workers):
            worker.configuration = self._configuration(number)
        if self._fleet is not None:
            self._fleet.follow(settings)

    def children(self) -> list[Child]:
        """All children, whether they run or not."""
        return self.workers

    def served_before(self) -> bool:
        """Return whether all shards were there once: what others can answer is answered while one is away."""
        return self._fleet is not None and self._fleet.was_ready

    async def _metrics(self) -> bytes:
        pods = [] if self._fleet is None else self._fleet.samples()
        return prometheus_text([*process_samples(self.workers), *pods, *gateway_samples(self._reports)])

    async def stop(self) -> None:
        """Stops all of it. May be called again."""
        if self._ports is not None:
            self._ports.refuse()
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        if self._admin is not None:
            await self._admin.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            await self._client.aclose()
        self._reports.close()
        if self._ports is not None:
            self._ports.close()
        run, self._run = self._run, None
        if run is not None:
            run.close()


def _check_token(settings: GatewaySettings) -> None:
    try:
        settings.gateway.token()
    except SettingsError as error:
        raise StartError(str(error), exit_code=2) from None
