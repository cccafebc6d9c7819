"""Initial loads by Spark: a `service.engine.initial_load.way.Way` for large state.

*Invariants*: rows come from verified files only; an abandoned build leaves neither processes nor files; a failed build
is not repeated at once, so its load uses another way.

Not here: the build (`builds.build`).
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
from service.engine.builds.build import Build, BuildFailed, BuildOrder
from service.engine.builds.job import PROGRAM
from service.engine.builds.requirements import missing_requirement
from service.engine.initial_load.way import BATCH_ROWS, OpenedWay, ProgressReport
from service.engine.upstream import bridge
from service.engine.upstream.named_snapshot import NamedSnapshot, NamedSnapshots
from service.engine.upstream.results import UpstreamError
from service.engine.upstream.upstream import Upstream
from service.protocol.run_directory import RunDirectory, remove_abandoned
from service.settings.secrets import upstream_password
from service.settings.spark import SparkSettings
from service.settings.stack import Settings

log = structlog.get_logger()

#: Pause after a failure, during which loads use another way.
_ASIDE_S = 600.0
#: Consecutive expired snapshots that count as a failure.
_EXPIRED_LIMIT = 3


class SparkWay:
    """Implementation of `Way`, one per process; removes the files of previous processes.

    *State*: `_aside`, the end of a pause (None: permanent) and its reason; `builds`, the running builds.
    """

    def __init__(
        self, settings: SparkSettings, holder: NamedSnapshots, directory: Path, program: Sequence[str] = PROGRAM
    ) -> None:
        self._settings = settings
        self._holder = holder
        self._parent = settings.directory or directory / "builds"
        self._program = program
        self._run: RunDirectory | None = None
        self._numbers = count(1)
        self._aside: tuple[float | None, str] | None = None
        self._expired = 0
        #: Relations that a job could not build, and why.
        self._refused: dict[Relation, str] = {}
        #: Reasons already logged.
        self._said: set[str] = set()
        self.builds: list[Build] = []
        self._begin()

    @property
    def name(self) -> str:
        return "spark"

    def _begin(self) -> None:
        try:
            self._run = RunDirectory(self._parent)
        except OSError as error:
            self._stand_aside(f"[spark] directory {self._parent} cannot be used: {error.strerror or error}.", None)
            return
        # At exit, after builds that the loop ends.
        atexit.register(self.close)
        missing = missing_requirement() if tuple(self._program) == PROGRAM else None
        if missing is not None:
            self._stand_aside(str(missing), None)

    def takes(self, lookups: Sequence[Lookup], catalog: Catalog, rows: float) -> bool:
        """Accepts lookups with enough rows (of tables, if they are only counted) whose computation Spark supports."""
        read = sum(_rows_read(lookup, catalog) for lookup in lookups)
        if max(rows, read) < self._settings.threshold_rows or self._is_aside():
            return False
        for lookup in lookups:
            reason = self._refused.get(lookup.relation) or can_build(lookup.relation)
            if reason is not None:
                self._say(f"A load from {table_of(lookup.relation)} cannot be built by Spark: {reason}.")
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
    async def open(
        self, lookups: Sequence[Lookup], catalog: Catalog, report: ProgressReport
    ) -> AsyncIterator[OpenedWay]:
        """Holds a snapshot and starts a build; rows are available when it is done. Raises `UpstreamError`."""
        assert self._run is not None
        folder = self._run.path / f"build-{next(self._numbers)}"
        relations = [lookup.relation for lookup in lookups]
        order = BuildOrder(relations, catalog.tables, self._settings, self._holder.upstream, self._program)
        try:
            folder.mkdir(mode=0o700)
            async with AsyncExitStack() as stack:
                try:
                    held = await stack.enter_async_context(self._holder.held(map(table_of, relations), folder))
                except UpstreamError as error:
                    raise self._not_held(error) from None
                build = Build(order, held, folder, report)
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
            await asyncio.to_thread(self._remove, folder)

    def _remove(self, folder: Path) -> None:
        """Removes a build's directory, and what a job of a killed engine wrote after this one's start."""
        shutil.rmtree(folder, ignore_errors=True)
        remove_abandoned(self._parent)

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
        """Handles a missing snapshot. If the database is reachable, a way with one connection may succeed."""
        return error if error.code == "unavailable" else self._failed(error.code, str(error))

    def _failed(self, code: str, detail: str) -> UpstreamError:
        """Returns the error and pauses the way if necessary."""
        if code == "expired":
            self._expired += 1
            if self._expired < _EXPIRED_LIMIT:
                return UpstreamError("unavailable", detail, retryable=True)
        self._expired = 0
        self._stand_aside(detail)
        return UpstreamError("failed", detail, retryable=True)

    def close(self) -> None:
        run, self._run = self._run, None
        atexit.unregister(self.close)
        if run is not None:
            run.close()
        self._aside = (None, "The service is shutting down.")


def _rows_read(lookup: Lookup, catalog: Catalog) -> float:
    """Estimates the rows read for a lookup, including those that are grouped. (For a chain, the estimate is the number
    of rows.)"""
    table = catalog.tables.get(table_of(lookup.relation))
    return table.estimated_rows if table is not None and isinstance(lookup.relation, Aggregate) else 0.0


@dataclass(frozen=True, slots=True)
class _Opened:
    """Implementation of `OpenedWay`."""

    held: NamedSnapshot
    lookups: Sequence[Lookup]
    build: Build
    making: "asyncio.Future[Manifest]"

    @property
    def snapshot(self) -> Snapshot:
        return bridge.snapshot(self.held.snapshot)

    @property
    def bound(self) -> Position:
        return self.held.bound

    async def batches(self, lookup: Lookup) -> AsyncIterator[list[Row]]:
        """Yields the rows of a lookup once the build is done."""
        from service.engine.builds.rows import rows_of

        manifest = await asyncio.shield(self.making)
        (index,) = [n for n, other in enumerate(self.lookups) if other.id == lookup.id]
        try:
            async for rows in rows_of(self.build.files(index, manifest), BATCH_ROWS):
                yield rows
        except OSError as error:
            raise UpstreamError("failed", f"The build cannot be read: {error}.", retryable=True) from None


def spark_way(settings: Settings, upstream: Upstream) -> SparkWay | None:
    """Returns the way if it is configured and Spark can read the database from its machines. Raises `SettingsError`."""
    if settings.spark is None:
        return None
    spark = settings.spark
    password = upstream_password(settings.upstream)
    holder = upstream.named_snapshots(settings.upstream.url, password, cores(spark.master), spark.nice)
    if holder.local_only is not None and not is_local(spark.master):
        log.info("read without Spark", reason=f"[spark] master is {spark.master}: {holder.local_only}.")
        return None
    return SparkWay(spark, holder, settings.state.directory)


__all__ = ["SparkWay", "spark_way"]
