"""The site without a cache: the application asks the database for each request, through the same HTTP stack."""

from collections.abc import Iterator
from contextlib import contextmanager

from load import processes
from load.peers.configuration import PeerConfiguration
from load.sides.application import running_application
from load.sides.side import Side, UpstreamDatabase
from load.site import SiteDefinition

NAME = "direct"


@contextmanager
def direct(upstream: UpstreamDatabase, site: SiteDefinition) -> Iterator[Side]:
    with running_application(PeerConfiguration("direct", site, upstream.url)) as app:
        yield Side(
            name=NAME,
            reads_url=app.url,
            writes_url=app.url,
            pids=lambda: [app.pid, *upstream.pids()],
            resident_bytes=lambda: processes.resident_bytes([app.pid]),
            state_bytes=lambda: 0,
        )
