"""Build: a job that reads tables at a held snapshot, restarted from its finished parts if interrupted.

*Invariants*: a build is used only if its manifest names exactly these relations, tables and version, and all checksums
match; a finished part is not read again while the snapshot lives; the snapshot is released once all parts exist.

Not here: the snapshot (`upstream.named_snapshot`), the process (`builds.job`), failures (`builds.spark_way`).
"""

import asyncio
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from pickle import dumps
from typing import Any

import structlog

from dataflow.plan.nodes import Aggregate, Chain, table_of
from dataflow.schema import Table
from dataflow.spark.fingerprint import fingerprint
from dataflow.spark.manifest import Manifest, ManifestRefused, read_manifest, read_note, verify
from service.engine.builds.job import PROGRAM, JobEnd, JobProcess, JobProgress
from service.engine.initial_load.way import Progress, ProgressReport
from service.engine.upstream.named_snapshot import NamedSnapshot
from service.settings.spark import SparkSettings

log = structlog.get_logger()

#: Maximum job runs for one build, and the pauses between them.
ATTEMPTS = 4
_PAUSES_S = (0.5, 2.0, 5.0)
#: Problems that outlast the pauses.
_LASTING = frozenset({"disk_full", "disk_failed"})


class BuildFailed(Exception):
    """Final failure of a build. `code`: from the job, or ``expired``, ``killed``, ``died``, ``refused``."""

    def __init__(self, code: str, detail: str, hint: str | None = None) -> None:
        super().__init__(detail if hint is None else f"{detail} {hint}")
        self.code = code
        self.detail = detail


@dataclass(frozen=True, slots=True)
class BuildOrder:
    """Parameters of a build."""

    relations: Sequence[Chain | Aggregate]
    tables: Mapping[str, Table]
    settings: SparkSettings
    #: Description of the database for the job.
    upstream: Mapping[str, Any]
    program: Sequence[str] = PROGRAM

    @property
    def fingerprint(self) -> str:
        """Fingerprint that the build's manifest must have."""
        return fingerprint(self.relations, self.tables)


class Build:
    """Build in `folder`: ``await make()``. *State*: `pid` of the running job, `attempt`, its number."""

    def __init__(self, order: BuildOrder, held: NamedSnapshot, folder: Path, report: ProgressReport) -> None:
        self._order = order
        self._held = held
        self._folder = folder
        self._on_progress = report
        self._job: JobProcess | None = None
        self.attempt = 0

    @property
    def pid(self) -> int | None:
        """Process id of the latest job."""
        return None if self._job is None else self._job.pid

    @property
    def out(self) -> Path:
        return self._folder / "out"

    def files(self, index: int, manifest: Manifest) -> list[Path]:
        """Returns the files of a relation."""
        return [self.out / _id(index) / part.name for part in manifest.relations[_id(index)].files]

    async def make(self) -> Manifest:
        """Runs jobs until one succeeds. Raises `BuildFailed`."""
        for self.attempt in range(1, ATTEMPTS + 1):
            ended = await self._run()
            if ended.problem is None:
                self._held.released.set()
                return await self._manifest()
            log.warning(
                "spark job failed", attempt=self.attempt, code=ended.problem, reason=ended.detail, log=list(ended.log)
            )
            if ended.problem == "snapshot_lost":
                raise BuildFailed("expired", f"The snapshot has expired: {ended.detail}")
            if not ended.retryable or ended.problem in _LASTING or self.attempt == ATTEMPTS:
                raise BuildFailed(ended.problem, f"The Spark job failed: {ended.detail}", ended.hint)
            await self._pause(_PAUSES_S[self.attempt - 1])
        raise AssertionError("the last attempt ends it")

    async def _manifest(self) -> Manifest:
        try:
            manifest = read_manifest(self.out, self._order.fingerprint, self._held.version)
            await asyncio.to_thread(verify, self.out, manifest)
        except ManifestRefused as refused:
            raise BuildFailed("refused", f"The build cannot be used: {refused}.") from None
        if manifest.bound != self._held.bound or set(manifest.relations) != set(map(_id, range(self._count))):
            raise BuildFailed("refused", "The build cannot be used: its manifest has another fingerprint.")
        return manifest

    async def _run(self) -> JobEnd:
        """Runs one job. Raises `BuildFailed` if the snapshot expires meanwhile."""
        folder = self._folder / f"job-{self.attempt}"
        for path in (folder, self.out):
            path.mkdir(mode=0o700, exist_ok=True)
        self._job = JobProcess(self._order.program, self._order.settings.nice, folder)
        document = await asyncio.to_thread(self._document)
        running = asyncio.ensure_future(self._job.run(document, self._report))
        expiring = asyncio.ensure_future(self._held.expired.wait())
        try:
            await asyncio.wait({running, expiring}, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                ended = running.result()
                if ended.problem is None or not self._held.expired.is_set():
                    return ended
            raise _expired()
        finally:
            for task in (running, expiring):
                task.cancel()
            await asyncio.gather(running, expiring, return_exceptions=True)

    async def _pause(self, seconds: float) -> None:
        try:
            await asyncio.wait_for(self._held.expired.wait(), seconds)
        except TimeoutError:
            return
        raise _expired()

    def _report(self, progress: JobProgress) -> None:
        text = f"Spark: {progress.phase}"
        if progress.tasks:
            text += f", {progress.tasks_done} of {progress.tasks} parts, {progress.rows:,} rows"
        if progress.jvm_mib is not None:
            text += f"; Java takes {progress.jvm_mib} MiB"
        if self.attempt > 1:
            text += f"; attempt {self.attempt}"
        self._on_progress(Progress(text, progress.tasks_done / progress.tasks if progress.tasks else None))

    @property
    def _count(self) -> int:
        return len(self._order.relations)

    def _document(self) -> dict[str, Any]:
        """Returns the job's input document."""
        order, held = self._order, self._held
        document: dict[str, Any] = {
            "fingerprint": order.fingerprint,
            "out": str(self.out),
            "upstream": order.upstream,
            "snapshot": {"name": held.name, "version": held.version, "bound": held.bound},
            "relations": [
                {"id": _id(n), "pickle": b64encode(dumps((relation, order.tables[table_of(relation)]))).decode()}
                for n, relation in enumerate(order.relations)
            ],
            "spark": {"master": order.settings.master, "conf": _conf(order.settings)},
            "finished": self._finished(),
        }
        if order.settings.partitions is not None:
            document["partitions"] = order.settings.partitions
        return document

    def _finished(self) -> list[str]:
        """Counts the finished parts. (The job verifies their contents.)"""
        found = sorted(self.out.glob("*/part-*.parquet"))
        return [f"{path.parent.name}/{path.name}" for path in found if read_note(path, check=False) is not None]


def _conf(settings: SparkSettings) -> dict[str, str]:
    return {
        **settings.conf,
        "spark.driver.memory": f"{settings.driver_memory >> 20}m",
        "spark.executor.memory": f"{settings.executor_memory >> 20}m",
    }


def _id(index: int) -> str:
    return f"r{index}"


def _expired() -> BuildFailed:
    return BuildFailed("expired", "The snapshot has expired: the connection that held it is gone.")
