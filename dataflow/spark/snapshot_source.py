"""``spark.read.format("upquery")``: tables of PostgreSQL in parallel at one snapshot of known version, as texts.

Options: ``url`` and ``password``; ``snapshot``, the name of an exported snapshot that somebody holds (`holding`); what
to read: ``table`` (a qualified name) with ``columns`` (a JSON list of names; all of them unless given), or
``relation``, the SQL of each part already made (`relation_options`); ``partitions`` or ``partition_bytes``.

*Invariants*: a task that is tried again reads the same rows; columns are strings, byte for byte what a lookup gives.

Not here: CSV and connections (`read_postgres`), ranges (`partitions`), filters (`pushdown`).
"""

import json
from collections.abc import Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass

import psycopg
import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StringType, StructField, StructType

from dataflow.plan.render import quote
from dataflow.schema import SqlType
from dataflow.spark.partitions import parts_of
from dataflow.spark.problems import SparkProblem
from dataflow.spark.pushdown import condition
from dataflow.spark.read_postgres import Upstream, at_snapshot, batches, problems

PART_BYTES = 64 << 20
_COLUMNS = """
SELECT a.attname, t.typname, t.typtype::text, COALESCE(l.collisdeterministic, true)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = pg_catalog.to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


def register(spark: SparkSession) -> None:
    """Make the format known to a session."""
    spark.dataSource.register(UpquerySource)


@dataclass
class Statements(InputPartition):
    """What one task reads: statements, one after the other."""

    statements: tuple[str, ...]


class UpquerySource(DataSource):
    """The format ``upquery``."""

    @classmethod
    def name(cls) -> str:
        """What stands in ``format(…)``."""
        return "upquery"

    def schema(self) -> StructType:
        """All columns are strings."""
        return StructType([StructField(name, StringType(), True) for name in _reader(self.options).names])

    def reader(self, schema: StructType) -> "UpqueryReader":
        """Spark asks for one in every task, too."""
        del schema
        return _reader(self.options)


class UpqueryReader(DataSourceReader):
    """Reads statements that were made beforehand, of a relation."""

    def __init__(self, upstream: Upstream, names: Sequence[str], statements: Sequence[Sequence[str]]) -> None:
        self.upstream = upstream
        self.names = list(names)
        self._statements = statements

    def partitions(self) -> Sequence[InputPartition]:
        """One for each part."""
        return [Statements(tuple(part)) for part in self._statements]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """In a task."""
        assert isinstance(partition, Statements)
        return marked(read(self.upstream, partition.statements, self.names))


class TableReader(UpqueryReader):
    """Reads a table, of which the upstream drops what it can."""

    def __init__(
        self, upstream: Upstream, table: str, columns: Mapping[str, SqlType], part_bytes: int, count: int | None
    ) -> None:
        super().__init__(upstream, list(columns), [])
        self._table = table
        self._columns = dict(columns)
        self._part_bytes = part_bytes
        self._count = count
        self._conditions: list[str] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 (Spark's name)
        """Takes what the upstream decides exactly; the rest is Spark's."""
        for wanted in filters:
            sql = condition(wanted, self._columns)
            if sql is None:
                yield wanted
            else:
                self._conditions.append(sql)

    def partitions(self) -> Sequence[InputPartition]:
        """Ranges of the table's pages."""
        with at_snapshot(self.upstream) as connection:
            parts = parts_of(connection, self._table, self._part_bytes, self._count)
        selected = ", ".join(f"t.{quote(name)}" for name in self.names)
        where = f" WHERE {' AND '.join(self._conditions)}" if self._conditions else ""
        return [Statements(tuple(f"SELECT {selected} FROM {of.sql} t{where}" for of in part)) for part in parts]


def read(upstream: Upstream, statements: Sequence[str], names: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of some statements at the snapshot. Raises SparkProblem."""
    with at_snapshot(upstream) as connection:
        for sql in statements:
            yield from batches(connection, sql, list(names))


def marked(found: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same; a problem so that the driver finds it in whatever Spark makes of it."""
    try:
        yield from found
    except SparkProblem as problem:
        raise RuntimeError(problem.marked()) from None


def relation_options(statements: Sequence[Sequence[str]], names: Sequence[str]) -> dict[str, str]:
    """What is to be read, part by part: statements whose columns are called `names`."""
    return {"relation": json.dumps({"names": list(names), "statements": [list(part) for part in statements]})}


def upstream_options(upstream: Upstream) -> dict[str, str]:
    """Where from. Spark leaves out of its plans what is called a password."""
    options = {"url": upstream.url, "snapshot": upstream.snapshot}
    return options if upstream.password is None else {**options, "password": upstream.password}


def _reader(options: MutableMapping[str, str]) -> UpqueryReader:
    for name in ("url", "snapshot"):
        if name not in options:
            raise ValueError(f"the option {name} is missing: a snapshot is held by dataflow.spark.snapshot_holder")
    upstream = Upstream(options["url"], options.get("password"), options["snapshot"])
    if "relation" in options:
        told = json.loads(options["relation"])
        return UpqueryReader(upstream, told["names"], told["statements"])
    if "table" not in options:
        raise ValueError("the option table is missing")
    try:
        with at_snapshot(upstream) as connection:
            columns = _columns(connection, options["table"])
    except SparkProblem as problem:
        raise RuntimeError(problem.marked()) from None
    wanted = json.loads(options["columns"]) if "columns" in options else list(columns)
    unknown = [name for name in wanted if name not in columns]
    if unknown or not wanted:
        raise ValueError(f"the table has no column {', '.join(unknown)}")
    count = int(options["partitions"]) if "partitions" in options else None
    part_bytes = int(options.get("partition_bytes", PART_BYTES))
    return TableReader(upstream, options["table"], {name: columns[name] for name in wanted}, part_bytes, count)


def _columns(connection: psycopg.Connection, table: str) -> dict[str, SqlType]:
    with problems():
        rows = connection.execute(_COLUMNS, [table]).fetchall()
    if not rows:
        raise SparkProblem("upstream_changed", "The table is not there.", "Give its name with its schema.")
    return {
        name: SqlType(
            type_name,
            type_name,
            kind="base" if kind == "b" else "other",
            collation="deterministic" if deterministic else "nondeterministic",
        )
        for name, type_name, kind, deterministic in rows
    }


__all__ = [
    "PART_BYTES", "Statements", "TableReader", "UpqueryReader", "UpquerySource", "marked", "read", "register",
    "relation_options", "upstream_options",
]  # fmt: skip
