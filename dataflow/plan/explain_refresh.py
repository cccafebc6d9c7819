"""Explanation of a view that is not maintained incrementally: the reason, and the changes that make an answer stale. As
text, as a dictionary that is JSON, and as a picture (Graphviz).

Not here: views with an incremental plan (`engine.explain`).
"""

from collections.abc import Iterator
from typing import Any

from dataflow.plan.identity_uses import identity_uses
from dataflow.plan.outline import label
from dataflow.plan.refresh import RefreshView, TableRead
from dataflow.plan.render import bare, describe
from dataflow.schema import Catalog


def tier(view: RefreshView) -> str:
    """``refresh`` or ``ttl``."""
    return "refresh" if view.ttl_ms is None else "ttl"


def explain_text(view: RefreshView, catalog: Catalog) -> str:
    """Explains the view in indented lines."""
    return "\n".join([f"view {view.name}", *(f"  {line}" for line in _lines(view, catalog))]) + "\n"


def explain_json(view: RefreshView, catalog: Catalog) -> dict[str, Any]:
    """Explains the view as a dictionary that is JSON."""
    return {
        "view": view.name,
        "sql": view.sql,
        "tier": tier(view),
        "reason": view.reason,
        "ttl_ms": view.ttl_ms,
        "parameters": [p.name for p in view.parameters],
        "columns": [name for name, _ in view.output],
        "notes": list(_lines(view, catalog)),
        "reads": [_read_json(read, view, catalog) for read in view.reads],
    }


def explain_dot(view: RefreshView, catalog: Catalog) -> str:
    """The tables that the view reads, with what counts of them, as a Graphviz digraph."""
    lines = ["digraph plan {", "  rankdir=BT;", '  node [shape=box, fontname="sans-serif"];']
    for number, read in enumerate(view.reads, 1):
        shown = label(f"table {read.table}", *_conditions(read, view, catalog))
        lines += [f'  n{number} [label="{shown}"];', f"  n{number} -> view;"]
    lines.append(f'  view [label="{label(view.name, tier(view))}", shape=ellipse];')
    return "\n".join([*lines, "}"]) + "\n"


def _lines(view: RefreshView, catalog: Catalog) -> Iterator[str]:
    yield f"{tier(view)}: {view.reason}"
    if view.ttl_ms is not None:
        yield f"an answer is good for {view.ttl_ms} ms"
    if view.parameters:
        yield "parameters: " + ", ".join(f":{p.name}{' (a list)' if p.many else ''}" for p in view.parameters)
    yield "columns: " + ", ".join(bare(name) for name, _ in view.output)
    for read in view.reads:
        yield f"stale after a change of {read.table}"
        yield from (f"  {condition}" for condition in _conditions(read, view, catalog))
    yield from (use.text for use in identity_uses(view, catalog))


def _conditions(read: TableRead, view: RefreshView, catalog: Catalog) -> Iterator[str]:
    """Which changes of a table count."""
    names = [bare(column.name) for column in catalog.tables[read.table].columns]
    columns = sorted(read.columns)
    if len(columns) < len(names):
        updates = f", or an update of {', '.join(names[c] for c in columns)}" if columns else ""
        yield f"by an insert or a delete{updates}"
    if read.predicate is not None:
        yield f"in a row where {describe(read.predicate, names.__getitem__)}"
    for column, position in read.keys:
        yield f"only for the key with :{view.parameters[position].name} = {names[column]}"


def _read_json(read: TableRead, view: RefreshView, catalog: Catalog) -> dict[str, Any]:
    names = [column.name for column in catalog.tables[read.table].columns]
    predicate = None if read.predicate is None else describe(read.predicate, lambda index: bare(names[index]))
    return {
        "table": read.table,
        "columns": [names[c] for c in sorted(read.columns)],
        "where": predicate,
        "keys": {view.parameters[position].name: names[column] for column, position in read.keys},
    }
