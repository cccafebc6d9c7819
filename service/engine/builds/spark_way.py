"""Large initial state, built by Spark: a way to read it (`service.engine.initial_load.way`).

*Invariants*: rows are given of verified files only; nothing of a build is left, neither processes nor files, when it
is not wanted any more; what cannot be built is not tried again at once, so that it is read in another way.

Not here: the build itself (`builds.build`).
"""

import asyncio
import atexit
import shutil
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from time import monotonic

import structlog

from dataflow.plan.nodes import Aggregate, Relation, table_of
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog
from dataflow.spark.manifest import Manifest
from dataflow.spark.relations import can_build
from dataflow.spark.session import cores, is_local
from dataflow.types import Position, Row, Snapshot
from service.engine.builds.build import Build, BuildFailed, Order
from service.engine.builds.holder import Holder, NamedSnapshot
from service.engine.builds.job import PROGRAM
from service.engine.builds.postgres_holder import PostgresHolder
from service.engine.builds.requirements import missing_requirement
from service.engine.initial_load.way import BATCH_ROWS, OpenedWay, Told
from service.engine.upstream import bridge
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.protocol.run_directory import RunDirectory
from service.settings.secrets import upstream_password
from service.settings.spark import SparkSettings
from service.settings.stack import Settings

log = structlog.get_logger()

#: How long after a failure Spark is not asked: whoever is waiting is served in another way meanwhile.
_ASIDE_S = 600.0
#: Snapshots that expire one after the other, until that is taken for a failure.
_EXPIRED_LIMIT = 3


class SparkWay:
    """Is a `Way`. Made once in a process: what a process before left is removed.

    *State*: `_aside` is until when nothing is taken (None: for good), and why; `builds`, those that are being made.
    """

    def __init__(
        self, settings: SparkSettings, holder: Holder, directory: Path, program: Sequence[str] = PROGRAM
    ) -> None:
        self._settings = settings
        self._holder = holder
        self._parent = settings.directory or directory / "builds"
        self._program = program
        self._run: RunDirectory | None = None
        self._numbers = count(1)
        self._aside: tuple[float | None, str] | None = None
        self._expired = 0
        #: Relations that a job could not build though it ran, and why.
        self._refused: dict[Relation, str] = {}
        #: Reasons that have been said.
        self._said: set[str] = set()
        self.builds: list[Build] = []
        self._begin()

    @property
    def name(self) -> str:
        """``spark``."""
        return "spark"

    def _begin(self) -> None:
        try:
            self._run = RunDirectory(self._parent)
        except OSError as error:
            self._stand_aside(f"[spark] directory {self._parent} cannot be used: {error.strerror or error}.", None)
            return
        # When the process ends, after builds that its loop ends.
        atexit.register(self.close)
        missing = missing_requirement() if tuple(self._program) == PROGRAM else None
        if missing is not None:
            self._stand_aside(str(missing), None)

    def takes(self, lookups: Sequence[Lookup], catalog: Catalog, rows: float) -> bool:
        """Whether there are enough rows (of tables, where they are only counted), and Spark computes them."""
        read = sum(_rows_read(lookup, catalog) for lookup in lookups)
        if max(rows, read) < self._settings.threshold_rows or self._is_aside():
            return False
        for lookup in lookups:
            reason = self._refused.get(lookup.relation) or can_build(lookup.relation)
            if reason is not None:
                self._say(f"A load from {table_of(lookup.relation)} is not for Spark: {reason}.")
                return False
        return True

    def _is_aside(self) -> bool:
        if self._aside is None:
            return False
        until, _ = self._aside
        return until is None or monotonic() < until

    def _stand_aside(self, reason: str, seconds: float | None = _ASIDE_S) -> None:
        self._aside = (None if seconds is None else monotonic() + seconds, reason)
        log.warning("large initial state is read without Spark", reason=reason, for_s=seconds)

    def _say(self, reason: str) -> None:
        if reason not in self._said:
            self._said.add(reason)
            log.info("read without Spark", reason=reason)

    @asynccontextmanager
    async def open(self, lookups: Sequence[Lookup], catalog: Catalog, told: Told) -> AsyncIterator[OpenedWay]:
        """Hold a snapshot and begin to build; the rows come when the build is done. Raises `UpstreamError`."""
        assert self._run is not None
        folder = self._run.path / f"build-{next(self._numbers)}"
        relations = [lookup.relation for lookup in lookups]
        order = Order(relations, catalog.tables, self._settings, self._holder.upstream, self._program)
        try:
            folder.mkdir(mode=0o700)
            async with AsyncExitStack() as stack:
                try:
                    held = await stack.enter_async_context(self._holder.held(map(table_of, relations), folder))
                except UpstreamError as error:
                    raise self._not_held(error) from None
                build = Build(order, held, folder, told)
                self.builds.append(build)
                making = asyncio.ensure_future(self._make(build, relations))
                try:
                    yield _Opened(held, lookups, build, making)
                finally:
                    self.builds.remove(build)
                    making.cancel()
                    await asyncio.gather(making, return_exceptions=True)
        except OSError as error:
            raise self._failed("disk", f"A build cannot be written: {error.strerror or error}.") from None
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    async def _make(self, build: Build, relations: Sequence[Relation]) -> Manifest:
        try:
            manifest = await build.make()
        except BuildFailed as failed:
            if failed.code == "unsupported":
                self._refused.update(dict.fromkeys(relations, failed.detail))
                raise UpstreamError("failed", str(failed), retryable=True) from None
            raise self._failed(failed.code, str(failed)) from None
        except OSError as error:
            raise self._failed("disk", f"A build cannot be written: {error.strerror or error}.") from None
        self._expired = 0
        log.info("built", tables=sorted(set(map(table_of, relations))), attempts=build.attempt)
        return manifest

    def _not_held(self, error: UpstreamError) -> UpstreamError:
        """There is no snapshot. Unless the database cannot be reached, one connection may do where several do not."""
        return error if error.code == "unavailable" else self._failed(error.code, str(error))

    def _failed(self, code: str, detail: str) -> UpstreamError:
        """What to say; and what is done about it from now on."""
        if code == "expired":
            self._expired += 1
            if self._expired < _EXPIRED_LIMIT:
                return UpstreamError("unavailable", detail, retryable=True)
        self._expired = 0
        self._stand_aside(detail)
        return UpstreamError("failed", detail, retryable=True)

    def close(self) -> None:
        """Remove what there is on disk."""
        run, self._run = self._run, None
        atexit.unregister(self.close)
        if run is not None:
            run.close()
        self._aside = (None, "The service is stopping.")


def _rows_read(lookup: Lookup, catalog: Catalog) -> float:
    """How many rows its groups are made of, by the database's estimate. (Of a chain, it has estimated the rows.)"""
    table = catalog.tables.get(table_of(lookup.relation))
    return table.estimated_rows if table is not None and isinstance(lookup.relation, Aggregate) else 0.0


@dataclass(frozen=True, slots=True)
class _Opened:
    """Is an `OpenedWay`."""

    held: NamedSnapshot
    lookups: Sequence[Lookup]
    build: Build
    making: "asyncio.Future[Manifest]"

    @property
    def snapshot(self) -> Snapshot:
        """What the rows are as of."""
        return bridge.snapshot(self.held.snapshot)

    @property
    def bound(self) -> Position:
        """All that the snapshot sees is in the stream by it."""
        return self.held.bound

    async def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        """The rows of a lookup, once the build is done."""
        from service.engine.builds.rows import rows_of

        manifest = await asyncio.shield(self.making)
        (index,) = [n for n, other in enumerate(self.lookups) if other.id == lookup.id]
        try:
            async for rows in rows_of(self.build.files(index, manifest), BATCH_ROWS):
                yield rows
        except OSError as error:
            raise UpstreamError("failed", f"The build cannot be read: {error}.", retryable=True) from None


def spark_way(settings: Settings, upstream: Upstream) -> SparkWay | None:
    """The way, if it is configured and Spark can read that database from where it runs. Raises `SettingsError`."""
    if settings.spark is None:
        return None
    holder = _holder(settings, settings.spark, upstream)
    return None if holder is None else SparkWay(settings.spark, holder, settings.state.directory)


def _holder(settings: Settings, spark: SparkSettings, upstream: Upstream) -> Holder | None:
    from service.engine.databases.postgres.upstream import PostgresUpstream

    url, password = settings.upstream.url, upstream_password(settings.upstream)
    if isinstance(upstream, PostgresUpstream):
        return PostgresHolder(upstream.pool, url, password)
    from service.engine.builds.mysql_holder import MySqlHolder
    from service.engine.databases.mysql.upstream import MySqlUpstream

    assert isinstance(upstream, MySqlUpstream)
    if not is_local(spark.master):
        reason = "tables of MariaDB and MySQL are read by processes on this machine, which other masters do not reach"
        log.info("read without Spark", reason=f"[spark] master is {spark.master}: {reason}.")
        return None
    return MySqlHolder(upstream.pool, url, password, cores(spark.master), spark.nice)


__all__ = ["SparkWay", "spark_way"]
