"""Tasks on Spark that write parts of tables as files.

A part whose rows are the file's goes from the upstream to Parquet within one Python task; Java sees none of it.
State rows that have to be put together go through Spark's shuffle, by the texts of what they are grouped by.

*Invariants*: a task that is tried again makes the same file; what it says when it fails holds no SQL.

Not here: which parts (`build_plan`), when (`build`).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import MAX_PREC, Context
from functools import partial
from pathlib import Path

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSource, DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StringType, StructType

from dataflow.plan.nodes import Aggregate
from dataflow.spark.build_job import WantedRelation
from dataflow.spark.build_parts import names, write_part
from dataflow.spark.build_plan import RelationPlan, file_name
from dataflow.spark.problems import SparkProblem
from dataflow.spark.relations import StateMerge, merges
from dataflow.spark.snapshot_source import read, register, relation_options
from dataflow.spark.upstreams import BatchUpstream


@dataclass(frozen=True, slots=True)
class FileTask:
    """A file, and the statements whose rows it is to hold."""

    path: str
    width: int
    statements: tuple[str, ...]


def write_files(spark: SparkSession, upstream: BatchUpstream, tasks: Sequence[FileTask]) -> None:
    """Write files, each in a task of its own."""
    if tasks:
        # The password is in the function, which is sent from memory to memory: data may go by way of the disk.
        write = partial(_write_file, upstream)
        spark.sparkContext.parallelize(tasks, len(tasks)).foreach(write)


def _write_file(upstream: BatchUpstream, task: FileTask) -> None:
    try:
        write_part(Path(task.path), task.width, read(upstream, task.statements, names(task.width)))
    except SparkProblem as problem:
        raise RuntimeError(problem.marked()) from None


def write_buckets(
    spark: SparkSession,
    upstream: BatchUpstream,
    wanted: WantedRelation,
    plan: RelationPlan,
    folder: Path,
    missing: Iterable[int],
) -> None:
    """Write those files of an aggregate that are `missing`, each with the state rows of a bucket of groups."""
    assert isinstance(wanted.relation, Aggregate)
    assert plan.buckets is not None
    columns = merges(wanted.relation)
    register(spark)
    statements = [upstream.ranged(wanted.relation, wanted.table, part) for part in plan.parts]
    options = {**upstream.options(), **relation_options(statements, names(len(columns)))}
    rows = merged(spark.read.format("upquery").options(**options).load(), columns, plan.buckets)
    spark.dataSource.register(BucketSink)
    sink = {"folder": str(folder), "width": str(len(columns)), "missing": json.dumps(sorted(missing))}
    rows.write.format("upquery-buckets").options(**sink).mode("append").save()


def merged(rows: DataFrame, columns: Sequence[StateMerge], buckets: int) -> DataFrame:
    """State rows of several parts as those of the whole, in so many partitions."""
    found = names(len(columns))
    keys = [name for name, merge in zip(found, columns, strict=True) if merge is StateMerge.KEY]
    sums = [
        _sum(name, merge).alias(name) for name, merge in zip(found, columns, strict=True) if merge is not StateMerge.KEY
    ]
    spread = rows.repartition(buckets, *keys) if keys else rows.repartition(1)
    return spread.groupBy(*keys).agg(*sums).select(*found)


def _sum(name: str, merge: StateMerge) -> Column:
    """With ANSI arithmetic, so that what is too large fails and is never cut."""
    if merge is StateMerge.COUNT:
        return f.sum(f.col(name).cast("bigint")).cast("string")
    if merge is StateMerge.WHOLE:
        return f.sum(f.col(name).cast("decimal(38,0)")).cast("string")
    return f.udf(decimals_added, StringType(), useArrow=False)(f.collect_list(name))


def decimals_added(texts: Sequence[str]) -> str | None:
    """The sum of decimals of one scale, with that scale; of NaNs or of infinities of one sign, that."""
    if not texts:
        return None
    if not texts[0][-1:].isdigit():
        return texts[0]
    # Never rounds: there is no precision that a sum of the upstream's could exceed.
    context = Context(prec=MAX_PREC)
    total = context.create_decimal(texts[0])
    for text in texts[1:]:
        total = context.add(total, context.create_decimal(text))
    return format(total, "f")


class BucketSink(DataSource):
    """The format ``upquery-buckets``: a file of each partition of rows, if it is wanted. (Spark's other ways from rows
    to Arrow batches in Python need pandas.)"""

    @classmethod
    def name(cls) -> str:
        return "upquery-buckets"

    def schema(self) -> str:
        """Spark asks before it writes: as many texts as rows have."""
        return ", ".join(f"{name} string" for name in names(int(self.options["width"])))

    def writer(self, schema: StructType, overwrite: bool) -> "BucketWriter":
        del schema, overwrite
        return BucketWriter(
            self.options["folder"], int(self.options["width"]), frozenset(json.loads(self.options["missing"]))
        )


class BucketWriter(DataSourceArrowWriter):
    """Writes a partition's file."""

    def __init__(self, folder: str, width: int, missing: frozenset[int]) -> None:
        self._folder = folder
        self._width = width
        self._missing = missing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Runs in a task. Partitions are buckets."""
        task = TaskContext.get()
        assert task is not None
        bucket = task.partitionId()
        if bucket in self._missing:
            try:
                write_part(Path(self._folder) / file_name(bucket), self._width, iterator)
            except SparkProblem as problem:
                raise RuntimeError(problem.marked()) from None
        else:
            for _ in iterator:
                pass
        return WriterCommitMessage()


__all__ = ["BucketSink", "BucketWriter", "FileTask", "decimals_added", "merged", "write_buckets", "write_files"]
