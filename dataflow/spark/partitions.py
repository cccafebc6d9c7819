"""A table of PostgreSQL as parts that can be read beside each other: ranges of its pages.

A partitioned table, or one that others inherit from, is its leaves. What has no pages (foreign tables, other kinds of
storage), or a server that cannot begin in the middle of a table (before 14), makes one part of a leaf.

*Invariants*: every row that the snapshot sees is in exactly one range, whatever is written meanwhile: the last range
of a leaf has no end, and rows do not move while a snapshot sees them and nobody rewrites the table (who holds the
snapshot has a lock against that).

Not here: the statement that reads a range (`ranged`'s callers).
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import psycopg

from dataflow.lookups.postgres.lookup import lookup_sql
from dataflow.plan.nodes import Aggregate, Chain
from dataflow.plan.table_access import chain_of
from dataflow.schema import Catalog, Column, SqlType, Table
from dataflow.spark.postgres_reader import problems
from dataflow.spark.problems import SparkProblem

#: Of PostgreSQL: the first that scans a range of pages without the rest.
_RANGE_SCANS = 140_000
_LEAVES = """
WITH RECURSIVE family AS (
    SELECT pg_catalog.to_regclass(%s)::oid AS oid
    UNION SELECT i.inhrelid FROM pg_catalog.pg_inherits i JOIN family f ON i.inhparent = f.oid
)
SELECT pg_catalog.format('%%I.%%I', n.nspname, c.relname), a.amname = 'heap' AND c.relkind IN ('r', 'm'),
       CASE WHEN c.relkind IN ('r', 'm') THEN pg_catalog.pg_relation_size(c.oid) ELSE 0 END,
       pg_catalog.current_setting('block_size')::int8
FROM family f JOIN pg_catalog.pg_class c ON c.oid = f.oid JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
LEFT JOIN pg_catalog.pg_am a ON a.oid = c.relam
WHERE c.relkind <> 'p'
ORDER BY c.oid
"""
_COLUMNS = """
SELECT a.attname, t.typname, t.typtype::text, COALESCE(l.collisdeterministic, true)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
LEFT JOIN pg_catalog.pg_collation l ON l.oid = a.attcollation
WHERE a.attrelid = pg_catalog.to_regclass(%s) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""


@dataclass(frozen=True, slots=True)
class Range:
    """Rows of one leaf, in pages from `first` on, before `end` (None: no bound). `only`: not those of its children."""

    table: str
    only: bool = True
    first: int | None = None
    end: int | None = None

    @property
    def sql(self) -> str:
        """SQL for the table behind FROM."""
        bounds = [
            f"s.ctid {operator} '({page},0)'::tid"
            for operator, page in ((">=", self.first), ("<", self.end))
            if page is not None
        ]
        where = f" WHERE {' AND '.join(bounds)}" if bounds else ""
        return f"(SELECT * FROM {'ONLY ' if self.only else ''}{self.table} s{where})"


def table_of(connection: psycopg.Connection, name: str) -> Table:
    """A table by its name, with as much of its types as filters need. Raises SparkProblem."""
    with problems():
        rows = connection.execute(_COLUMNS, [name]).fetchall()
    if not rows:
        raise SparkProblem("upstream_changed", "The table does not exist.", "Give its name with its schema.")
    columns = [
        Column(
            column,
            SqlType(
                type_name,
                type_name,
                kind="base" if kind == "b" else "other",
                collation="deterministic" if deterministic else "nondeterministic",
            ),
        )
        for column, type_name, kind, deterministic in rows
    ]
    return Table(name, tuple(columns))


def parts_of(
    connection: psycopg.Connection, table: str, part_bytes: int, count: int | None = None
) -> list[tuple[Range, ...]]:
    """The table's rows in parts of about `part_bytes`, or in about `count` parts. Raises SparkProblem."""
    with problems():
        leaves = connection.execute(_LEAVES, [table]).fetchall()
    if not leaves:
        found = connection.execute("SELECT pg_catalog.to_regclass(%s) IS NOT NULL", [table]).fetchone()
        if found is None or not found[0]:
            raise SparkProblem("upstream_changed", "A table is not there any more.", "Read the catalog again.")
        # Partitioned, without a partition: no rows, but a statement all the same.
        return [(Range(table, only=False),)]
    if count is not None:
        part_bytes = math.ceil(sum(size for _, _, size, _ in leaves) / max(1, count))
    cuts = connection.info.server_version >= _RANGE_SCANS
    parts: list[tuple[Range, ...]] = []
    small: list[Range] = []
    small_bytes = 0
    for name, paged, size, block in leaves:
        ranges = _ranges(name, size // block, max(1, part_bytes // block)) if paged and cuts else [Range(name)]
        if len(ranges) > 1:
            parts += [(found,) for found in ranges]
            continue
        if small and small_bytes + size > part_bytes:
            parts.append(tuple(small))
            small, small_bytes = [], 0
        small += ranges
        small_bytes += size
    return parts + ([tuple(small)] if small else [])


def _ranges(leaf: str, pages: int, pages_each: int) -> list[Range]:
    count = max(1, math.ceil(pages / pages_each))
    cuts = [pages * i // count for i in range(1, count)]
    return [Range(leaf, True, first, end) for first, end in zip([None, *cuts], [*cuts, None], strict=True)]


def ranged(relation: Chain | Aggregate, table: Table, part: Sequence[Range]) -> Sequence[str]:
    """The statements of a lookup of everything of `relation` that see nothing but `part` of the table: one for each
    range. An aggregate's are state rows of the range alone."""
    return [_ranged(relation, table, of.sql) for of in part]


def _ranged(relation: Chain | Aggregate, table: Table, source: str) -> str:
    chain = replace(chain_of(relation), table=source)
    over = replace(relation, input=chain) if isinstance(relation, Aggregate) else chain
    return lookup_sql(over, (), Catalog({source: replace(table, name=source)}))


__all__ = ["Range", "parts_of", "ranged", "table_of"]
