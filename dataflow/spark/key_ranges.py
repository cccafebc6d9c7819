"""A table of MariaDB or MySQL as parts that can be read beside each other: ranges of the first column of its key.

Where that is no integer, or there is no key, the table is one part. Ranges are of equal width: where ids are sparse in
places, parts are unequal.

*Invariants*: every row is in exactly one range: a key's columns are never NULL, the first range has no beginning and
the last no end.

Not here: who reads (`readers`).
"""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass

from dataflow.lookups.mysql.lookup import lookup_columns, lookup_statement
from dataflow.lookups.mysql.render import quote, table_name
from dataflow.plan.nodes import Aggregate, Chain
from dataflow.plan.parts import Lookup
from dataflow.schema import Catalog, SqlType, Table
from dataflow.spark.readers import SnapshotServer
from dataflow.types import LookupId, NodeId


@dataclass(frozen=True, slots=True)
class KeyRange:
    """Rows whose `column` is `first` or more, and below `end` (None: no bound)."""

    column: str
    first: int | None = None
    end: int | None = None

    def source(self, table: Table) -> str:
        """SQL for the table behind FROM."""
        bounds = [
            f"s.{quote(self.column)} {operator} {bound}"
            for operator, bound in ((">=", self.first), ("<", self.end))
            if bound is not None
        ]
        if not bounds:
            return table_name(table.name)
        # By name: `*` would leave out columns that are invisible.
        columns = ", ".join(f"s.{quote(column.name)}" for column in table.columns)
        return f"(SELECT {columns} FROM {table_name(table.name)} s WHERE {' AND '.join(bounds)})"


def parts_of(
    readers: SnapshotServer, table: Table, part_bytes: int, count: int | None = None
) -> list[tuple[KeyRange, ...]]:
    """The table's rows in parts of about `part_bytes`, or in about `count` parts. Raises SparkProblem."""
    column = _cut_by(table)
    if column is None:
        return [(KeyRange(""),)]
    if count is None:
        count = math.ceil(readers.size(table.name) / part_bytes)
    bounds = readers.bounds(table.name, quote(column)) if count > 1 else None
    if bounds is None:
        return [(KeyRange(column),)]
    first, last = bounds
    width = last - first + 1
    cuts = sorted({first + width * i // count for i in range(1, count)} - {first})
    return [(KeyRange(column, low, high),) for low, high in zip([None, *cuts], [*cuts, None], strict=True)]


def _cut_by(table: Table) -> str | None:
    if not table.keys:
        return None
    # The primary key comes first.
    column = table.columns[table.keys[0][0]]
    whole = column.type.is_whole
    # To the server the constant 50 is the year 2050.
    return column.name if whole and not column.type.sql.startswith("year") else None


def ranged(relation: Chain | Aggregate, table: Table, part: Sequence[KeyRange]) -> Sequence[str]:
    """Statements for readers, one for each range, with the types of their columns. An aggregate's rows are state rows
    of the range alone."""
    return [_ranged(relation, table, of.source(table)) for of in part]


def _ranged(relation: Chain | Aggregate, table: Table, source: str) -> str:
    catalog = Catalog({table.name: table}, dialect="mysql")
    lookup = Lookup(LookupId(0), NodeId(0), relation, (), ())
    types = [_type_name(found) for found in lookup_columns(relation, catalog)]
    return json.dumps({"sql": lookup_statement(lookup, catalog, source), "types": types})


def _type_name(found: SqlType) -> str:
    return found.name if found.kind == "base" else found.kind


__all__ = ["KeyRange", "parts_of", "ranged"]
