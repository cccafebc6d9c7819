"""The parent of all processes of a stack: starts them, restarts them, stops them, and serves the admin port.

Invariants: the sockets are bound before any child runs; the run directory is gone when the supervisor is.

Not here: the admin routes (`admin`); the children's work (`service.engine.process`, `service.worker.process`), their
supervision (`children`).
"""

import asyncio
import os
import socket
from typing import TYPE_CHECKING

import structlog
from pydantic import ByteSize

from service.leaf_store.reserve import FILE_PER_CONTENTS
from service.protocol.child import STOP_S, WorkerChild
from service.protocol.run_directory import RunDirectory
from service.protocol.shares import engine_children, shards_of, stream_child
from service.protocol.worker_config import WorkerConfig
from service.settings.stack import Settings
from service.settings.transport import transports
from service.supervisor.children import Child, StartError, start_all
from service.supervisor.foreground import check_auth
from service.supervisor.ports import Endpoints, Ports

if TYPE_CHECKING:
    from service.supervisor.admin.port import AdminPort

log = structlog.get_logger()

#: With less memory nothing would stay.
_LEAST_BYTES = 16 << 20
_MORE_ROOM = (
    "Give it more (docker run --shm-size=2g; Kubernetes: a sizeLimit of its volume), or set another [engine] directory."
)
#: Time for the stream process to stop. Its stream has ended with the engines; a slot may still have to be dropped, but
#: the next start does that otherwise.
_STREAM_STOP_S = 4.0


class Supervisor:
    """A whole stack: a `service.supervisor.foreground.Service`."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._ports: Ports | None = None
        self._run: RunDirectory | None = None
        self._admin: AdminPort | None = None
        #: Reads the change stream, if there are several engines.
        self.stream: Child | None = None
        self._stream_listener: socket.socket | None = None
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
        settings = self._settings
        check_auth(settings.auth)
        _warn_of_unverified_servers(settings)
        self._ports = ports = Ports(settings.http)
        self._run = run = RunDirectory(settings.engine.directory)
        self._settings = settings = _within_room(settings, run)
        watchdog_s = settings.engine.watchdog_s
        stop_s = STOP_S + settings.state.checkpoint_s
        self.engines = [Child(each.name, each, (), watchdog_s, stop_s) for each in engine_children(settings, run.paths)]
        if len(self.engines) > 1:
            self.stream = self._stream(run)
        self.workers = [self._worker(n, run, ports.api) for n in range(settings.http.workers)]
        # The workers wait for the leaf store themselves: starting all at once saves a second.
        starting = asyncio.create_task(start_all(self.children()))
        try:
            await self._open_admin(run, ports)
            await starting
        finally:
            starting.cancel()
            await asyncio.gather(starting, return_exceptions=True)
        return ports.endpoints(os.getpid())

    async def _open_admin(self, run: RunDirectory, ports: Ports) -> None:
        """Import and open the admin port while the children start: both take about as long. The import runs in a
        thread, so that a signal to stop is heeded."""

        def admin_port() -> "AdminPort":
            from service.supervisor.admin.stack import stack_admin_port

            return stack_admin_port(self._settings, run.paths, self, ports.admin)

        self._admin = await asyncio.to_thread(admin_port)
        self._admin.open()

    def _stream(self, run: RunDirectory) -> Child:
        """Its socket is bound here: engines that come before it, or while it is started again, wait."""
        self._stream_listener = listener = socket.socket(socket.AF_UNIX)
        listener.bind(str(run.paths.stream_socket))
        listener.listen(len(self.engines))
        child = stream_child(self._settings, listener.fileno())
        return Child("stream", child, (listener.fileno(),), self._settings.engine.watchdog_s, _STREAM_STOP_S)

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
        return Child(f"worker-{number}", child, (listener.fileno(),), self._settings.engine.watchdog_s)

    def _claims_key(self) -> bytes | None:
        log, state = self._settings.access_log, self._settings.state
        if log is None or log.claims != "hash":
            return None
        # Only the access log needs it, and all that it knows of keys.
        from service.worker.access_log.keys import claims_key

        return claims_key(state.directory)

    def children(self) -> list[Child]:
        """All children, whether they run or not."""
        stream = [] if self.stream is None else [self.stream]
        return [*stream, *self.engines, *self.workers]

    def served_before(self) -> bool:
        """Return whether an engine was there once: its leaf store is."""
        return any(engine.restarts for engine in self.engines)

    async def stop(self) -> None:
        """Stops all processes, readers first, and removes what the run left. May be called again."""
        if self._ports is not None:
            self._ports.refuse()
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        await asyncio.gather(*(engine.stop() for engine in self.engines), self._close_admin())
        if self.stream is not None:
            # Not earlier: an engine whose stream ends has no place for a checkpoint, and a slot may have to be left.
            await self.stream.stop()
        if self._stream_listener is not None:
            self._stream_listener.close()
        if self._ports is not None:
            self._ports.close()
        run, self._run = self._run, None
        if run is not None:
            run.close()

    async def _close_admin(self) -> None:
        if self._admin is not None:
            await self._admin.close()


def _warn_of_unverified_servers(settings: Settings) -> None:
    """One warning for each URL of another machine that leaves TLS to the driver's default."""
    for each in transports(settings.upstream, settings.cdc):
        if each.undecided:
            log.warning(
                "the database server is not verified: anyone who can intercept the connection can impersonate it",
                setting=each.setting,
                host=each.host,
                hint=f"{each.remedy} {each.parameter}={each.mode} there accepts it without this warning.",
            )


def _within_room(settings: Settings, run: RunDirectory) -> Settings:
    """The settings, with no more memory than the run's directory has room for. A page for which there is none ends the
    process that writes to it (SIGBUS: mmap(2)). Raises `StartError`."""
    configured, room_bytes = int(settings.engine.memory), run.room_bytes
    memory_bytes = int(room_bytes / FILE_PER_CONTENTS)
    if memory_bytes >= configured:
        return settings
    where = run.path.parent
    if memory_bytes < _LEAST_BYTES:
        raise StartError(f"{where} has room for {room_bytes} bytes only, which is too little. {_MORE_ROOM}")
    log.warning(
        "less memory is used than is configured: the file system of the leaf store is small",
        directory=str(where),
        room_bytes=room_bytes,
        configured_bytes=configured,
        memory_bytes=memory_bytes,
        hint=_MORE_ROOM,
    )
    engine = settings.engine.model_copy(update={"memory": ByteSize(memory_bytes)})
    return settings.model_copy(update={"engine": engine})
