"""Upquery as on several machines, all on this one: pods of one shard each, and a gateway in front of them.

Not here: a stack (`upquery`), which has all of that in one place.
"""

import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from load import processes
from load.sides.admin_client import AdminClient
from load.sides.application import running_writes
from load.sides.concurrent_start import together
from load.sides.service_process import Sections, Served, memory_directory, running_service, stack_sections, write_config
from load.sides.side import Side, UpstreamDatabase
from load.site import SiteDefinition


@dataclass(frozen=True, slots=True)
class PodSettings:
    #: API workers of each pod, and of the gateway.
    workers: int = 1
    gateway_workers: int = 1
    #: Of each pod.
    memory: str = "1GiB"
    #: Within which keys move to pods that are added.
    move_s: float = 10.0


@dataclass(slots=True)
class Pods:
    """Running pods; they end with `stack`."""

    settings: PodSettings
    upstream: UpstreamDatabase
    stack: ExitStack
    directory: Path
    #: By shard.
    pods: list[Side] = field(default_factory=list)

    def add(self, more: int, of: int) -> None:
        """So many pods more, the next shards `of` so many. No gateway knows them yet."""
        first = len(self.pods)
        starting = [self._running(number, of) for number in range(first, first + more)]
        self.pods += self.stack.enter_context(together(*starting))

    @contextmanager
    def _running(self, number: int, of: int) -> Iterator[Side]:
        directory = self.directory / f"pod-{number}"
        directory.mkdir()
        with tempfile.TemporaryDirectory(prefix="upquery-load-", dir=memory_directory()) as run:
            engine = {"memory": self.settings.memory}
            usual = stack_sections(self.upstream.url, directory, run, engine, self.settings.workers)
            with running_service(
                directory / "upquery.toml", {**usual, "shard": {"number": number, "of": of}}
            ) as served:
                yield _pod(f"pod {number}", served, Path(run))

    def pids(self) -> list[int]:
        return [pid for pod in self.pods for pid in pod.pids()]


@dataclass(frozen=True, slots=True)
class GatewaySide:
    """A gateway and what is behind it."""

    behind: Pods
    served: Served
    #: Reads of it are the gateway's.
    side: Side
    config: Path

    def use_all(self) -> None:
        """Tell it of all the pods that there are; it sees by itself that its file is another one."""
        write_config(self.config, _gateway_sections(self.behind))


@contextmanager
def running_pods(
    upstream: UpstreamDatabase, site: SiteDefinition, shards: int, settings: PodSettings
) -> Iterator[GatewaySide]:
    """So many pods with the site's views, and a gateway. Raises `SideError`."""
    with (
        running_writes(upstream, site) as application,
        tempfile.TemporaryDirectory(prefix="upquery-load-") as directory,
        ExitStack() as stack,
    ):
        behind = Pods(settings, upstream, stack, Path(directory))
        behind.add(shards, shards)
        config = Path(directory) / "gateway.toml"
        # It ends before its pods do.
        with running_service(config, _gateway_sections(behind), "--role", "gateway") as served:
            admin = AdminClient(served.admin)
            admin.install(site, full=False)
            applications = [] if application is None else [application.pid]
            side = Side(
                name=f"{shards} pods behind a gateway",
                reads_url=served.http,
                writes_url=served.http if application is None else application.url,
                pids=lambda: [*processes.family(served.pid), *behind.pids(), *applications, *upstream.pids()],
                resident_bytes=lambda: sum(pod.resident_bytes() for pod in behind.pods),
                state_bytes=lambda: sum(pod.state_bytes() for pod in behind.pods),
                flush=admin.evict_all,
                admin_url=served.admin,
            )
            yield GatewaySide(behind, served, side, config)


def _pod(name: str, served: Served, run: Path) -> Side:
    """A pod by itself: it answers any key, and of whole views its own."""
    admin = AdminClient(served.admin)
    return Side(
        name=name,
        reads_url=served.http,
        # Nobody writes through it.
        writes_url=served.http,
        pids=lambda: processes.family(served.pid),
        resident_bytes=lambda: processes.resident_bytes(processes.family(served.pid)) + processes.stored_bytes(run),
        state_bytes=admin.state_bytes,
        flush=admin.evict_all,
        admin_url=served.admin,
    )


def _gateway_sections(behind: Pods) -> Sections:
    return {
        "gateway": {
            "shards": len(behind.pods),
            "addresses": [[pod.reads_url] for pod in behind.pods],
            "admin_addresses": [[pod.admin_url] for pod in behind.pods],
            "move_s": behind.settings.move_s,
        },
        "http": {"port": 0, "admin_port": 0, "workers": behind.settings.gateway_workers},
        "log": {"level": "warning"},
    }
