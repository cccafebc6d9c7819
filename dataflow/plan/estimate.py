"""About how large a relation is, by the upstream's statistics: for people, and for fully materialized views.

The estimates are upper bounds of a kind: filters are taken to keep every row, groups to be as many as rows, joins by
equality to have as many rows as their largest input. Where the upstream's planner was asked about a lookup of
everything (`Sizes`), its word is taken instead.

Not here: what state takes that is there (`state.materialization`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dataflow.plan.nodes import Aggregate, Block, Chain, Relation, TopK, Union, View, Window, column_types, inputs_of
from dataflow.schema import Catalog
from dataflow.sizing import row_bytes

#: What an index entry takes.
_ENTRY_BYTES = 120
#: What a row in the leaf store takes besides its texts: its key, pages that are not quite full; and each name in JSON.
_RECORD_BYTES = 90
_NAME_BYTES = 6


@dataclass(frozen=True, slots=True)
class Size:
    """The upstream planner's estimate of a lookup of everything: rows, and bytes of a row's values."""

    rows: float
    row_bytes: float


Sizes = Mapping[Relation, Size]
_NOTHING_ASKED: Sizes = {}


def estimated_rows(relation: Relation, catalog: Catalog, sizes: Sizes = _NOTHING_ASKED) -> float | None:
    """Rows, at most and about; None if the upstream has no statistics of a table."""
    if relation in sizes:
        return sizes[relation].rows
    match relation:
        case Chain():
            table = catalog.tables.get(relation.table)
            return table.estimated_rows if table is not None and table.estimated_rows >= 0 else None
        case Block():
            return _joined(relation, catalog, sizes)
        case Union():
            parts = [estimated_rows(branch, catalog, sizes) for branch in relation.inputs]
            known = [rows for rows in parts if rows is not None]
            return sum(known) if len(known) == len(parts) else None
        case Aggregate() if not relation.group:
            return 1
        case TopK() if not relation.partition and relation.limit_rows is not None:
            rows = estimated_rows(relation.input, catalog, sizes)
            return relation.limit_rows if rows is None else min(rows, relation.limit_rows)
        case Aggregate() | TopK() | Window():
            return estimated_rows(relation.input, catalog, sizes)


def _joined(block: Block, catalog: Catalog, sizes: Sizes) -> float | None:
    total = 1.0
    for item in block.inputs:
        rows = estimated_rows(item.relation, catalog, sizes)
        if rows is None:
            return None
        total = max(total, rows) if item.conditions else total * max(rows, 1)
    return total


def estimated_bytes(relation: Relation, catalog: Catalog, sizes: Sizes = _NOTHING_ASKED) -> float | None:
    """Bytes of a fully materialized relation; None if they are not known."""
    rows = estimated_rows(relation, catalog, sizes)
    if rows is None:
        return None
    row = row_bytes(("",) * len(column_types(relation))) + _texts_bytes(relation, sizes)
    kept = rows * (row + _ENTRY_BYTES)
    if isinstance(relation, Window | TopK):
        # Their input rows are materialized too.
        below = estimated_rows(relation.input, catalog, sizes)
        kept += (below or 0) * row
    return kept


def estimated_leaf_bytes(view: View, catalog: Catalog, sizes: Sizes = _NOTHING_ASKED) -> float | None:
    """Bytes of all rows of a view in the leaf store, as JSON; None if they are not known."""
    rows = estimated_rows(view.relation, catalog, sizes)
    if rows is None:
        return None
    names = sum(len(output.name.encode()) + _NAME_BYTES for output in view.output)
    return rows * (_RECORD_BYTES + names + _texts_bytes(view.relation, sizes))


def _texts_bytes(relation: Relation, sizes: Sizes) -> float:
    """Bytes of the values of a row: by their types, and by how much wider the rows that they come from are said to be
    than their types let expect."""
    by_type = _types_bytes(relation)
    below = [r for r in _with_below(relation) if r in sizes]
    expected = sum(_types_bytes(r) for r in below)
    return by_type * sum(sizes[r].row_bytes for r in below) / expected if expected else by_type


def _types_bytes(relation: Relation) -> float:
    return sum(sql_type.rules.width_bytes for sql_type in column_types(relation))


def _with_below(relation: Relation) -> Iterator[Relation]:
    yield relation
    for below in inputs_of(relation):
        yield from _with_below(below)


def size_text(relation: Relation, catalog: Catalog) -> str:
    """The estimate for people."""
    rows, size = estimated_rows(relation, catalog), estimated_bytes(relation, catalog)
    if rows is None or size is None:
        return "of unknown size: the upstream has no statistics (run ANALYZE there)"
    return f"about {rows:,.0f} {'row' if rows == 1 else 'rows'}, {_bytes_text(size)}"


def _bytes_text(size: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            return f"{size:.0f} {unit}" if size >= 10 or unit == "bytes" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError
