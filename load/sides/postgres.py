"""The database under a comparison: an embedded PostgreSQL of its own, tuned alike for all sides.

The settings are what somebody who cares has on a machine with a few gigabytes to spare, with two exceptions that favour
no side: nothing survives a power cut (``fsync = off``), because the disk is not what is compared, and no parallel
workers, because the servers share one core. JIT compilation is off: it costs short queries more than it gains.
"""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import psycopg

from load import processes
from load.sides.side import UpstreamDatabase
from load.site import SiteDefinition
from service.demo.postgres_server import EmbeddedPostgres

SETTINGS = {
    "shared_buffers": "1GB",
    "effective_cache_size": "4GB",
    "work_mem": "16MB",
    "maintenance_work_mem": "256MB",
    "random_page_cost": "1.1",
    "jit": "off",
    "max_parallel_workers_per_gather": "0",
    "max_connections": "100",
    "wal_level": "logical",
    "fsync": "off",
    "full_page_writes": "off",
    "max_wal_size": "8GB",
    "checkpoint_timeout": "30min",
}


@contextmanager
def running_upstream(
    site: SiteDefinition, load: Callable[[str], None], settings: Mapping[str, str] | None = None
) -> Iterator[UpstreamDatabase]:
    """A server with the site's schema, and the rows that `load` (given its URL) writes; gone at the end. `settings`:
    more than the usual ones."""
    directory = Path(tempfile.mkdtemp(prefix="upquery-load-"))
    # mkdtemp's directory is private; it is ours alone, so the server's account may pass through.
    directory.chmod(0o711)
    server = EmbeddedPostgres(directory / "server", {**SETTINGS, **(settings or {})})
    try:
        server.start()
        execute(server.url, site.schema_sql)
        load(server.url)
        execute(server.url, "VACUUM (ANALYZE, FREEZE)")
        execute(server.url, "CHECKPOINT")
        pid = server.pid
        assert pid is not None
        yield UpstreamDatabase(server.url, lambda: processes.family(pid))
    finally:
        server.stop("immediate")
        shutil.rmtree(directory, ignore_errors=True)


def execute(url: str, sql: str) -> None:
    """Runs SQL on a connection of its own."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(sql)
