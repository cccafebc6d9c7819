"""Upquery that is restarted under load: with fixed ports, and a state directory that stays."""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from load import processes
from load.sides.admin_client import AdminClient
from load.sides.application import running_writes
from load.sides.child import free_port
from load.sides.service_process import Sections, Served, joined, memory_directory, running_service, stack_sections
from load.sides.side import Side, UpstreamDatabase
from load.sides.upquery import side_of
from load.site import SiteDefinition


@dataclass(slots=True)
class RestartableService:
    """A service, stopped by SIGTERM and started again with the same configuration."""

    config: Path
    sections: Sections
    served: Served | None = None
    _running: ExitStack = field(default_factory=ExitStack)

    def start(self) -> Served:
        """Return once it is ready. Raises `SideError`."""
        self.served = self._running.enter_context(running_service(self.config, self.sections))
        return self.served

    def stop(self) -> None:
        """Return once all its processes have ended."""
        self.served = None
        self._running.close()

    def pids(self) -> list[int]:
        """The processes of this moment; none while it is stopped."""
        served = self.served
        return [] if served is None else processes.family(served.pid)


@contextmanager
def restartable_upquery(
    upstream: UpstreamDatabase, site: SiteDefinition, memory: str
) -> Iterator[tuple[Side, RestartableService]]:
    """A service that continues from checkpoints, with the application that takes the site's writes; all views ready."""
    with (
        tempfile.TemporaryDirectory(prefix="upquery-load-") as directory,
        tempfile.TemporaryDirectory(prefix="upquery-load-", dir=memory_directory()) as run,
        running_writes(upstream, site) as application,
        ExitStack() as ending,
    ):
        usual = stack_sections(upstream.url, Path(directory), run, {"memory": memory}, workers=1)
        fixed: Sections = {
            "http": {"port": free_port(), "admin_port": free_port()},
            "state": {"persistent": True},
            "log": {"level": "error"},
        }
        service = RestartableService(Path(directory) / "upquery.toml", joined(usual, fixed))
        ending.callback(service.stop)
        served = service.start()
        AdminClient(served.admin).install(site, full=False)
        yield side_of("Upquery", upstream, application, service.pids, served, Path(run)), service
