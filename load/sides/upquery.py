"""Upquery in its usual configuration, with the application in front of the database that takes the site's writes."""

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from load import processes
from load.sides.admin_client import AdminClient
from load.sides.application import Application, running_writes
from load.sides.concurrent_start import together
from load.sides.service_process import Sections, Served, joined, memory_directory, running_service, stack_sections
from load.sides.side import Side, StartSide, UpstreamDatabase
from load.site import SiteDefinition


def upquery(
    memory: str = "1GiB",
    full: bool = False,
    workers: int = 1,
    name: str | None = None,
    sections: Sections | None = None,
) -> StartSide:
    """Upquery with a memory budget; `full`: every view is fully materialized.
    `sections`: more settings, by table."""
    engine = {"memory": memory}
    title = name or ("Upquery, full" if full else "Upquery")

    @contextmanager
    def start(upstream: UpstreamDatabase, site: SiteDefinition) -> Iterator[Side]:
        with (
            tempfile.TemporaryDirectory(prefix="upquery-load-") as directory,
            tempfile.TemporaryDirectory(prefix="upquery-load-", dir=memory_directory()) as run,
        ):
            usual = stack_sections(upstream.url, Path(directory), run, engine, workers)
            service = running_service(Path(directory) / "upquery.toml", joined(usual, sections or {}))
            with together(running_writes(upstream, site), service) as (application, served):
                AdminClient(served.admin).install(site, full=full)
                yield side_of(title, upstream, application, lambda: processes.family(served.pid), served, Path(run))

    return start


def side_of(
    title: str,
    upstream: UpstreamDatabase,
    application: Application | None,
    pids: Callable[[], list[int]],
    served: Served,
    run: Path,
) -> Side:
    """A service as a side. *pids*: its processes of the moment; *run*: its leaf store's directory."""
    admin = AdminClient(served.admin)
    applications = [] if application is None else [application.pid]
    return Side(
        name=title,
        reads_url=served.http,
        writes_url=served.http if application is None else application.url,
        pids=lambda: [*pids(), *applications, *upstream.pids()],
        resident_bytes=lambda: processes.resident_bytes(pids()) + processes.stored_bytes(run),
        state_bytes=admin.state_bytes,
        flush=admin.evict_all,
        admin_url=served.admin,
    )
