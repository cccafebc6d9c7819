"""``spark.read.format("upquery")``: tables in parallel at one snapshot of known version, as texts.

Options: where (`BatchUpstream.options`): ``url``, ``password`` and ``snapshot``, the name of an exported snapshot of
PostgreSQL that somebody holds (`holding`); or ``readers``, the socket of processes that hold one of MariaDB or MySQL.
What: ``table`` (a qualified name) with ``columns`` (a JSON list of names; all of them unless given), or ``relation``,
the statements of each part already made (`relation_options`); ``partitions`` or ``partition_bytes``.

*Invariants*: a task that is tried again reads the same rows; columns are strings, byte for byte what a lookup gives.

Not here: connections (`upstreams`), ranges (`partitions`, `key_ranges`), filters (`pushdown`).
"""

import json
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from dataflow.plan.expressions import BOOL
from dataflow.plan.nodes import Chain
from dataflow.scalar import Call, ColumnRef, Scalar
from dataflow.schema import Table
from dataflow.spark.postgres_reader import Exported
from dataflow.spark.problems import SparkProblem
from dataflow.spark.pushdown import condition
from dataflow.spark.upstreams import BatchUpstream, PostgresBatchUpstream, ReadersUpstream

PART_BYTES = 64 << 20


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(UpquerySource)


@dataclass
class TaskStatements(InputPartition):
    """Statements of one task, read one after the other."""

    statements: tuple[str, ...]


class UpquerySource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "upquery"

    def schema(self) -> StructType:
        return StructType([StructField(name, StringType(), True) for name in _reader(self.options).names])

    def reader(self, schema: StructType) -> "UpqueryReader":
        """Spark asks for one in every task, too."""
        del schema
        return _reader(self.options)


class UpqueryReader(DataSourceReader):
    """Reads statements that were made beforehand, of a relation."""

    def __init__(self, upstream: BatchUpstream, names: Sequence[str], statements: Sequence[Sequence[str]]) -> None:
        self.upstream = upstream
        self.names = list(names)
        self._statements = statements

    def partitions(self) -> Sequence[InputPartition]:
        return [TaskStatements(tuple(part)) for part in self._statements]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TaskStatements)
        return marked(read(self.upstream, partition.statements, self.names))


class TableReader(UpqueryReader):
    """Reads a table, of which the upstream drops what it can."""

    def __init__(
        self, upstream: BatchUpstream, table: Table, names: Sequence[str], part_bytes: int, count: int | None
    ) -> None:
        super().__init__(upstream, names, [])
        self._table = table
        self._part_bytes = part_bytes
        self._count = count
        self._conditions: list[Scalar] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Takes what the upstream decides exactly; the rest is Spark's."""
        for wanted in filters:
            found = condition(wanted, self._table, self.upstream.compares_texts)
            if found is None:
                yield wanted
            else:
                self._conditions.append(found)

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of the table."""
        with self.upstream.opened() as opened:
            parts = opened.parts(self._table, self._part_bytes, self._count)
        return [TaskStatements(tuple(self.upstream.ranged(self._chain(), self._table, part))) for part in parts]

    def _chain(self) -> Chain:
        ordinals = [self._table.ordinal(name) for name in self.names]
        columns = tuple(ColumnRef(ordinal, self._table.columns[ordinal].type) for ordinal in ordinals)
        conditions = tuple(self._conditions)
        predicate = Call("and", conditions, BOOL) if len(conditions) > 1 else next(iter(conditions), None)
        return Chain(self._table.name, predicate, columns)


def read(upstream: BatchUpstream, statements: Sequence[str], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of some statements at the snapshot. Raises SparkProblem."""
    with upstream.opened() as opened:
        for statement in statements:
            yield from opened.batches(statement, names)


def marked(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yields the batches; a problem is raised such that the driver finds it in whatever Spark makes of it."""
    try:
        yield from found
    except SparkProblem as problem:
        raise RuntimeError(problem.marked()) from None


def relation_options(statements: Sequence[Sequence[str]], names: Sequence[str]) -> dict[str, str]:
    """Options of the data source for parts of a relation: statements whose columns are called `names`."""
    return {"relation": json.dumps({"names": list(names), "statements": [list(part) for part in statements]})}


def _upstream(options: MutableMapping[str, str]) -> BatchUpstream:
    if "readers" in options:
        return ReadersUpstream(options["readers"])
    for name in ("url", "snapshot"):
        if name not in options:
            raise ValueError(
                f"the option {name} is missing: a snapshot of PostgreSQL is held by dataflow.spark.snapshot_holder;"
                " of MariaDB and MySQL the option readers says where those listen that hold one"
            )
    return PostgresBatchUpstream(Exported(options["url"], options.get("password"), options["snapshot"]))


def _reader(options: MutableMapping[str, str]) -> UpqueryReader:
    upstream = _upstream(options)
    if "relation" in options:
        relation = json.loads(options["relation"])
        return UpqueryReader(upstream, relation["names"], relation["statements"])
    if "table" not in options:
        raise ValueError("the option table is missing")
    try:
        with upstream.opened() as opened:
            table = opened.table(options["table"])
    except SparkProblem as problem:
        raise RuntimeError(problem.marked()) from None
    known = [column.name for column in table.columns]
    wanted = json.loads(options["columns"]) if "columns" in options else known
    unknown = [name for name in wanted if name not in known]
    if unknown or not wanted:
        raise ValueError(f"the table has no column {', '.join(unknown)}")
    count = int(options["partitions"]) if "partitions" in options else None
    return TableReader(upstream, table, wanted, int(options.get("partition_bytes", PART_BYTES)), count)


__all__ = [
    "PART_BYTES",
    "TableReader",
    "TaskStatements",
    "UpqueryReader",
    "UpquerySource",
    "marked",
    "read",
    "register",
    "relation_options",
]
