"""The parent of all processes: starts them, restarts them, stops them, and serves the admin port.

Invariants: the sockets are bound before any child runs, so a port in use is told at once; a child never outlives its
parent (`service.child`); the run directory is gone when the supervisor is.

Not here: the admin routes (`admin`); what the children do (`engine_process`, `worker`).
"""

import asyncio
import contextlib
import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import structlog
import uvicorn

from service.access_log.keys import claims_key
from service.admin.app import admin_app
from service.admin.control import Control, ControlClient
from service.admin.engines import Engines
from service.auth.admin_guard import AdminGuard
from service.auth.authority import Authority, check_settings
from service.child import STOP_S, StartReport, WorkerChild, child_environment, read_report, send_configuration
from service.http.body_limit import BodyLimit
from service.http.direct_protocol import bounded
from service.run_directory import RunDirectory
from service.runtime.backoff import Backoff
from service.settings.errors import SettingsError
from service.settings.load import Settings
from service.shards.shares import engine_children, shards_of
from service.worker import WorkerConfig, connection_limits_of

log = structlog.get_logger()

#: A child that lived this long before it died had started well.
STEADY_S = 30.0
#: Connections waiting to be accepted.
BACKLOG = 2048
#: Of the admin port: this process has other things to do than to hold those of strangers.
ADMIN_CONNECTIONS = 200
#: Of each connection, in the kernel, as far as its client has not asked for them.
_UNSENT_BYTES = 1 << 17


class StartError(Exception):
    """The service cannot start; the text says why and what to do."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


@dataclass(frozen=True, slots=True)
class Endpoints:
    """Where a started service listens, and its supervisor's process."""

    http: str
    admin: str
    pid: int


class Child:
    """One child process, kept alive.

    State: `process` is the running one, or the last; `restarts` counts those after the first.
    """

    def __init__(self, name: str, configuration: object, inherited: tuple[int, ...] = ()) -> None:
        self.name = name
        self._configuration = configuration
        self._inherited = inherited
        self._backoff = Backoff()
        self._stopping = False
        self._keeper: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.restarts = 0

    @property
    def alive(self) -> bool:
        """Whether the process runs right now."""
        return self.process is not None and self.process.returncode is None

    async def start(self) -> None:
        """Starts the process and keeps it running. Raises `StartError` if the first start fails."""
        report = await self._spawn()
        if not report.ready:
            raise StartError(report.message or f"The {self.name} process died while it started.", report.exit_code)
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Asks the process to stop, ends it if it does not, and does not start it again."""
        self._stopping = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self.process is None or not self.alive:
            return
        self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), STOP_S)
        except TimeoutError:
            log.warning("child did not stop; ending it", child=self.name)
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    async def _keep(self) -> None:
        started = time.monotonic()
        while not self._stopping:
            assert self.process is not None
            code = await self.process.wait()
            if time.monotonic() - started > STEADY_S:
                self._backoff.succeeded()
            delay_s = self._backoff.failed()
            log.error("child died; starting it again", child=self.name, exit_code=code, delay_s=delay_s)
            await asyncio.sleep(delay_s)
            self.restarts += 1
            started = time.monotonic()
            report = await self._spawn()
            if not report.ready and report.message:
                log.error("child cannot start", child=self.name, reason=report.message)

    async def _spawn(self) -> StartReport:
        self.process = process = await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "service.child",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=self._inherited,
            env=child_environment(),
            # Ctrl-C in a terminal reaches the whole foreground group; children stop when the supervisor says so.
            start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(send_configuration(self._configuration))
        report = read_report(await process.stdout.readline())
        if report is None:
            await process.wait()
            return StartReport(ready=False)
        if not report.ready:
            await process.wait()
        return report


class _AdminServer(uvicorn.Server):
    """uvicorn without its signal handlers: the supervisor has its own."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class Supervisor:
    """A whole service. ``start()``, then ``wait()`` until it is told to stop, then ``stop()``."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._sockets: list[socket.socket] = []
        self._run: RunDirectory | None = None
        self._admin: _AdminServer | None = None
        self._admin_task: asyncio.Task[None] | None = None
        self._stop_asked = asyncio.Event()
        self.engines: list[Child] = []
        self.workers: list[Child] = []

    async def start(self) -> Endpoints:
        """Binds the ports, starts all processes. After a `StartError` nothing is left behind."""
        try:
            return await self._start()
        except BaseException:
            await self.stop()
            raise

    async def _start(self) -> Endpoints:
        self._check_auth()
        http, admin = self._settings.http.port, self._settings.http.admin_port
        api = self._bind(http, "port")
        admin_socket = self._bind(admin, "admin_port")
        self._run = run = RunDirectory(self._settings.engine.directory)
        self.engines = [Child(child.name, child) for child in engine_children(self._settings, run.path)]
        self.workers = [self._worker(n, run, api) for n in range(self._settings.http.workers)]
        self._start_admin(run, admin_socket)
        # The workers wait for the leaf store themselves: starting both at once saves a second.
        results = await asyncio.gather(
            *(child.start() for child in [*self.engines, *self.workers]), return_exceptions=True
        )
        for failure in results:
            if isinstance(failure, BaseException):
                raise failure
        return Endpoints(_url(api), _url(admin_socket), os.getpid())

    def _check_auth(self) -> None:
        if self._settings.auth is not None:
            try:
                check_settings(self._settings.auth)
            except SettingsError as error:
                raise StartError(str(error), exit_code=2) from None

    def _worker(self, number: int, run: RunDirectory, listener: socket.socket) -> Child:
        first, *others = [run.paths.of_shard(shard) for shard in shards_of(self._settings)]
        config = WorkerConfig(
            number,
            first.leaf,
            first.engine_socket,
            others=tuple((paths.leaf, paths.engine_socket) for paths in others),
            http=self._settings.http,
            auth=self._settings.auth,
            subscriptions=self._settings.subscriptions,
            access_log=self._settings.access_log,
            claims_key=self._claims_key(),
            traces=self._settings.traces,
            slow_ms=self._settings.log.slow_ms,
            adhoc=self._settings.adhoc.enabled,
        )
        child = WorkerChild(config, listener.fileno(), self._settings.log)
        return Child(f"worker-{number}", child, (listener.fileno(),))

    def _claims_key(self) -> bytes | None:
        log, state = self._settings.access_log, self._settings.state
        return claims_key(state.directory) if log is not None and log.claims == "hash" else None

    def _start_admin(self, run: RunDirectory, listener: socket.socket) -> None:
        http = self._settings.http
        app = self._guarded(BodyLimit(admin_app(self._control(run), self), http.max_body_bytes))
        config = uvicorn.Config(
            app,
            http=bounded(replace(connection_limits_of(http), max_connections=ADMIN_CONNECTIONS)),
            ws="none",
            log_config=None,
            access_log=False,
            lifespan="off",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=1,
        )
        self._admin = _AdminServer(config)
        self._admin_task = asyncio.create_task(self._admin.serve(sockets=[listener]))

    def _control(self, run: RunDirectory) -> Control:
        clients = [ControlClient(run.paths.of_shard(shard).control_socket) for shard in shards_of(self._settings)]
        return clients[0] if len(clients) == 1 else Engines(clients)

    def _guarded(self, app: Any) -> Any:
        auth = self._settings.auth
        return app if auth is None else AdminGuard(app, Authority.of(auth), open_metrics=auth.open_metrics)

    def children(self) -> list[Child]:
        """All children, whether they run or not."""
        return [*self.engines, *self.workers]

    def ask_stop(self) -> None:
        """Makes `wait` return."""
        self._stop_asked.set()

    async def wait(self) -> None:
        """Returns when SIGTERM or SIGINT came, or `ask_stop` was called."""
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self.ask_stop)
        await self._stop_asked.wait()

    async def stop(self) -> None:
        """Stops all processes, readers first, and removes what the run left. May be called again."""
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        await asyncio.gather(*(engine.stop() for engine in self.engines))
        if self._admin is not None and self._admin_task is not None:
            self._admin.should_exit = True
            await asyncio.gather(self._admin_task, return_exceptions=True)
        for bound in self._sockets:
            bound.close()
        run, self._run = self._run, None
        if run is not None:
            run.close()

    def _bind(self, port: int, key: str) -> socket.socket:
        host = self._settings.http.host
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        # Named, so that asyncio switches Nagle's algorithm off: bodies would wait 40 ms for the head's acknowledgement.
        bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        # What a client does not read waits here, in the log that it shares with others, and not in the kernel.
        bound.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
        try:
            bound.bind((host, port))
            bound.listen(BACKLOG)
        except OSError as error:
            bound.close()
            raise StartError(
                f"Port {port} on {host} cannot be used: {(error.strerror or str(error)).lower()}. "
                f"Stop the program that has it, or set [http] {key} (UPQUERY_HTTP__{key.upper()}) to another one."
            ) from None
        bound.setblocking(False)
        self._sockets.append(bound)
        return bound


def _url(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def serve(settings: Settings, ready: Callable[[Endpoints], None]) -> None:
    """A service until it is told to stop. `ready` is called once it answers. Raises `StartError`."""
    supervisor = Supervisor(settings)
    waiting = asyncio.create_task(supervisor.wait())
    starting = asyncio.create_task(supervisor.start())
    try:
        await asyncio.wait({waiting, starting}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            ready(starting.result())
            await waiting
    finally:
        for task in (starting, waiting):
            task.cancel()
        await asyncio.gather(starting, waiting, return_exceptions=True)
        await supervisor.stop()
