"""Answers that each read computes from the rows within a time window.

*Theory*: the groups of ``WHERE created_at > now() - interval '1 hour' GROUP BY story_id`` change with every row that
leaves, at any time. So the rows are stored, in the order of their times and under the view's key, as those of a view
without GROUP BY; a read takes those within the bounds of its time and computes the rest of the plan over them.

Not here: which queries these are (`dataflow.sql.select`), the computation (`dataflow.ops.evaluation`), the bounds
(`clock_bounds`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace

from dataflow.plan.expressions import renumber, used_columns
from dataflow.plan.nodes import Chain, OutputColumn, Relation, Source, View, inputs_of
from dataflow.plan.rewriting import as_source, bottom_up
from dataflow.schema import Catalog, Column, Table

#: Qualified name of the rows as a table of the answers' chain, which no table of a database has.
ROWS = ""


def computed_at_read(answer: View, rows: Source, catalog: Catalog) -> View:
    """The view of `rows`, with those of their columns that `answer` reads, which is over chains of all and pruned."""
    needed = sorted(used_columns(*(column for chain in _chains(answer.relation) for column in chain.columns)))
    moved = {column: place for place, column in enumerate(needed)}

    def narrowed(relation: Relation, _: Catalog) -> Relation:
        if not isinstance(relation, Chain):
            return relation
        return replace(relation, columns=tuple(renumber(column, moved) for column in relation.columns))

    answer = replace(answer, relation=as_source(bottom_up(narrowed, answer.relation, catalog)))
    output = tuple(OutputColumn(str(i), column) for i, column in enumerate(needed))
    return View(answer.name, answer.sql, rows, (), output, at_read=answer)


def _chains(relation: Relation) -> Iterator[Chain]:
    if isinstance(relation, Chain):
        yield relation
    for below in inputs_of(relation):
        yield from _chains(below)


def with_rows(columns: Iterable[Column], catalog: Catalog) -> Catalog:
    """The catalog with the rows that answers are computed from, as a table of these columns."""
    return replace(catalog, tables={**catalog.tables, ROWS: Table(ROWS, tuple(columns))})


def levels(part: object) -> int:
    """Return how deeply the parts of a plan are nested in one."""
    inner = [getattr(part, f.name) for f in fields(part)] if is_dataclass(part) else part
    return 1 + max(map(levels, inner), default=0) if isinstance(inner, list | tuple) else 0
