"""Execution of a build: remaining and finished work, and errors in words for users.

Not here: the process around it (`build`), tasks (`build_tasks`).
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from dataflow.spark.build_job import BuildJob
from dataflow.spark.build_plan import Plan, file_name, plan_for
from dataflow.spark.build_progress import ProgressLines
from dataflow.spark.manifest import FilePart, Manifest, RelationFiles, read_note, write_manifest
from dataflow.spark.problems import SparkProblem, found_in
from dataflow.spark.relations import width
from dataflow.spark.session import cores, java_process, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

#: Of a job, unless its `conf` says otherwise: what is read is split here, and nothing is to be split otherwise.
_SETTINGS = {"spark.sql.adaptive.enabled": "false", "spark.speculation": "false"}
_FIXED = {"spark.sql.ansi.enabled": "true"}
#: What Spark's messages say of what is not the data's fault: a pattern, and the problem.
_KNOWN = (
    (
        re.compile(r"No space left on device|Disk quota exceeded", re.IGNORECASE),
        SparkProblem("disk_full", "Spark's temporary files have filled the disk.", "Make room.", retryable=True),
    ),
    (
        re.compile(r"OutOfMemoryError|Java heap space|GC overhead"),
        SparkProblem("out_of_memory", "Java has not enough memory.", "Give it more, as spark.driver.memory.", True),
    ),
    (
        re.compile(r"ARITHMETIC_OVERFLOW|NUMERIC_VALUE_OUT_OF_RANGE"),
        SparkProblem("unsupported", "A sum is too large for Spark to be exact.", "Load the view without Spark."),
    ),
)


class BuildWork:
    """A job that is being carried out.

    *State*: `_parts`, whole files by path, `_tasks`, how many of Spark's tasks this run needs.
    """

    def __init__(self, job: BuildJob) -> None:
        self._job = job
        self._parts: dict[Path, FilePart] = {}
        self._wanted: list[Path] = []
        self._tasks = 0
        #: Of these, when Spark was last asked.
        self._done = 0
        self._spark: SparkSession | None = None

    def run(self, lines: ProgressLines) -> None:
        """Carry it out. Raises SparkProblem."""
        job = self._job
        with job.upstream.opened() as opened:
            opened.require(job.version, sorted({wanted.table.name for wanted in job.relations}))
            plan, known = plan_for(job, opened, cores(job.master))
            self._look(plan, known)
            if self._missing():
                self._spark = session(
                    "upquery build",
                    job.master,
                    {**_SETTINGS, **job.conf, **_FIXED},
                    memory=job.conf.get("spark.driver.memory", "1g"),
                )
                lines.enter("reading")
                with spark_problems():
                    self._write(self._spark, plan)
        lines.enter("writing")
        self._finish(plan)
        lines.enter("done")

    # --- how far it is ------------------------------------------------------------------------------------------------

    def tasks(self) -> tuple[int, int]:
        """Spark's tasks that are done, of those that this run needs."""
        if self._spark is None:
            return 0, self._tasks
        # When Java ends, waits for its answers fail; Py4j raises all kinds of errors then.
        with suppress(Exception):
            self._done = self._completed(self._spark)
        return min(self._done, self._tasks), self._tasks

    def _completed(self, spark: "SparkSession") -> int:
        tracker = spark.sparkContext.statusTracker()
        done = 0
        for job in tracker.getJobIdsForGroup(None):
            progress = tracker.getJobInfo(job)
            for stage in progress.stageIds if progress is not None else ():
                info = tracker.getStageInfo(stage)
                done += 0 if info is None else info.numCompletedTasks
        return done

    def rows(self) -> int:
        for path in self._wanted:
            if path not in self._parts and (part := read_note(path, check=False)) is not None:
                self._parts[path] = part
        return sum(part.rows for part in list(self._parts.values()))

    def java(self) -> int | None:
        process = java_process()
        return None if process is None else process.pid

    # --- files --------------------------------------------------------------------------------------------------------

    def _look(self, plan: Plan, known: bool) -> None:
        """Finds files that are there already and of this plan."""
        for name, relation in plan.items():
            for index in range(relation.files):
                path = self._path(name, index)
                self._wanted.append(path)
                part = read_note(path) if known and f"{name}/{path.name}" in self._job.finished else None
                if part is not None:
                    self._parts[path] = part
                else:
                    _forget(path)
        for name, relation in plan.items():
            missing = len(self._missing_of(name, relation.files))
            self._tasks += (
                missing if relation.buckets is None else (len(relation.parts) + relation.files) * bool(missing)
            )

    def _path(self, name: str, index: int) -> Path:
        return self._job.out / name / file_name(index)

    def _missing(self) -> bool:
        return any(path not in self._parts for path in self._wanted)

    def _missing_of(self, name: str, files: int) -> list[int]:
        return [index for index in range(files) if self._path(name, index) not in self._parts]

    def _write(self, spark: "SparkSession", plan: Plan) -> None:
        # Needs Spark, which was asked for by now.
        from dataflow.spark.build_tasks import FileTask, write_buckets, write_files

        job = self._job
        whole = [
            FileTask(
                str(self._path(wanted.id, index)),
                width(wanted.relation),
                tuple(job.upstream.ranged(wanted.relation, wanted.table, plan[wanted.id].parts[index])),
            )
            for wanted in job.relations
            if plan[wanted.id].buckets is None
            for index in self._missing_of(wanted.id, plan[wanted.id].files)
        ]
        write_files(spark, job.upstream, whole)
        for wanted in job.relations:
            missing = self._missing_of(wanted.id, plan[wanted.id].files)
            if plan[wanted.id].buckets is not None and missing:
                write_buckets(spark, job.upstream, wanted, plan[wanted.id], job.out / wanted.id, missing)

    def _finish(self, plan: Plan) -> None:
        """The manifest, once every file is there."""
        self.rows()
        relations = {}
        for name, relation in plan.items():
            if self._missing_of(name, relation.files):
                raise SparkProblem(
                    "disk_failed",
                    "Files that Spark wrote are not here.",
                    "All of Spark's machines must write into the same directory.",
                )
            files = tuple(self._parts[self._path(name, index)] for index in range(relation.files))
            relations[name] = RelationFiles(sum(part.rows for part in files), files)
        job = self._job
        write_manifest(job.out, Manifest(job.fingerprint, job.version, job.bound, job.upstream.snapshot, relations))


def _forget(path: Path) -> None:
    """Nothing that is there counts."""
    for name in (path, path.with_name(f"{path.name}.json")):
        name.unlink(missing_ok=True)


@contextmanager
def spark_problems() -> Iterator[None]:
    """Converts exceptions of Spark into problems: one that a task raised, or one known by its message; never the
    message itself."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, ConnectionError, EOFError) as problem:
        raise in_our_words(str(problem)) from problem


def in_our_words(message: str) -> SparkProblem:
    """The problem that a message of Spark's is about."""
    found = found_in(message)
    if found is not None:
        return found
    for pattern, problem in _KNOWN:
        if pattern.search(message):
            return problem
    raised = re.findall(r"^([A-Za-z_][\w.]*(?:Error|Exception)):", message, re.MULTILINE)
    last = f" ({raised[-1]})" if raised else ""
    return SparkProblem("task_failed", f"A task of Spark's failed too often{last}.", "Its log says more.", True)


__all__ = ["BuildWork", "in_our_words", "spark_problems"]
