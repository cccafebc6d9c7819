"""A view's plan for people (text), for programs (a dictionary that is JSON) and as a picture (Graphviz).

The texts are written from one tree of `Step`s. Routes and what is full are the engine's knowledge; they come as notes.

Not here: the statements (`lookup`), the routes (`routes`).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from dataflow.plan.lookup import lookup_sql, unsupported_by_index
from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    Block,
    CallOrder,
    Chain,
    Frame,
    OrderTerm,
    Parameter,
    Relation,
    TopK,
    Union,
    View,
    Window,
    WindowCall,
    inputs_of,
)
from dataflow.plan.render import bare, describe
from dataflow.plan.routes import block_route, coverable, input_offsets, union_columns
from dataflow.scalar import Scalar
from dataflow.schema import Catalog
from dataflow.types import Columns


@dataclass(frozen=True, slots=True)
class Step:
    """One node of an explained plan: what it does, details, what it reads."""

    title: str
    details: tuple[str, ...] = ()
    inputs: tuple["Step", ...] = ()


@dataclass(frozen=True, slots=True)
class Lookup:
    """A statement that the plan runs upstream, and what to warn of."""

    relation: Chain | Aggregate
    columns: Columns
    sql: str
    warning: str | None


def explain_text(view: View, catalog: Catalog, notes: Sequence[str] = ()) -> str:
    """An indented tree, then the lookups."""
    lines = [f"view {view.name}", *(f"  {line}" for line in _view_lines(view, catalog)), *(f"  {n}" for n in notes)]
    lines += _indented(_step(view.relation, catalog), 1)
    for lookup in lookups(view, catalog):
        lines.append(f"  lookup: {lookup.sql}")
        if lookup.warning:
            lines.append(f"    warning: {lookup.warning}")
    return "\n".join(lines) + "\n"


def explain_json(view: View, catalog: Catalog, notes: Sequence[str] = ()) -> dict[str, Any]:
    """The same as a dictionary of strings, lists and dictionaries."""
    found = lookups(view, catalog)
    return {
        "view": view.name,
        "sql": view.sql,
        "parameters": [p.name for p in view.parameters],
        "columns": [c.name for c in view.output],
        "notes": list(notes),
        "plan": _json(_step(view.relation, catalog)),
        "lookups": [{"sql": k.sql, "warning": k.warning} for k in found],
        "warnings": [k.warning for k in found if k.warning],
    }


def explain_dot(view: View, catalog: Catalog) -> str:
    """The plan as a Graphviz digraph; rows flow along the arrows."""
    lines = ["digraph plan {", "  rankdir=BT;", '  node [shape=box, fontname="sans-serif"];']
    numbers: dict[int, int] = {}

    def node(step: Step) -> int:
        number = numbers.setdefault(len(numbers), len(numbers))
        label = "\\l".join(_escaped(text) for text in (step.title, *step.details)) + "\\l"
        lines.append(f'  n{number} [label="{label}"];')
        lines.extend([f"  n{node(below)} -> n{number};" for below in step.inputs])
        return number

    top = node(_step(view.relation, catalog))
    lines.append(f'  view [label="{_escaped(view.name)}", shape=ellipse];')
    lines.append(f"  n{top} -> view;")
    return "\n".join([*lines, "}"]) + "\n"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


# --- the tree -------------------------------------------------------------------------------------------------------


def _view_lines(view: View, catalog: Catalog) -> Iterator[str]:
    names = column_names(view.relation, catalog)
    if view.parameters:
        yield "parameters: " + ", ".join(_parameter(p, names) for p in view.parameters)
    yield "columns: " + ", ".join(_output(c.name, names[c.column]) for c in view.output)
    for r in view.ranges:
        yield f"range: {names[r.column]} {r.operator} :{r.name}"
    if view.order:
        yield "order: " + ", ".join(_order(t, names) for t in view.order)
    limit = _limit(
        _count(view.limit_rows, view.limit_parameter), _count(view.offset_rows or None, view.offset_parameter)
    )
    if limit:
        yield limit
    for row in view.rows_for_null:
        yield f"for NULL: {', '.join('NULL' if v is None else v for v in row)}"


def _parameter(parameter: Parameter, names: Sequence[str]) -> str:
    return f":{parameter.name} {'has' if parameter.many else '='} {names[parameter.column]}"


def _count(rows: int | None, parameter: str | None) -> str | None:
    return f":{parameter}" if parameter else None if rows is None else str(rows)


def _limit(limit: str | None, offset: str | None) -> str:
    parts = (f"limit {limit}" if limit is not None else "", f"offset {offset}" if offset is not None else "")
    return " ".join(part for part in parts if part)


def _output(name: str, source: str) -> str:
    return bare(name) if source == bare(name) or source.endswith(f".{bare(name)}") else f"{source} AS {bare(name)}"


def _order(term: OrderTerm, names: Sequence[str]) -> str:
    return _ordered(term, names[term.column])


def _ordered(term: OrderTerm | CallOrder, text: str) -> str:
    direction = " DESC" if term.descending else ""
    nulls = "" if term.nulls_first == term.descending else " NULLS FIRST" if term.nulls_first else " NULLS LAST"
    return f"{text}{direction}{nulls}"


def _step(relation: Relation, catalog: Catalog) -> Step:
    if isinstance(relation, Chain):
        names = table_columns(relation, catalog)
        details = [] if relation.predicate is None else [f"where {describe(relation.predicate, names.__getitem__)}"]
        shown = ", ".join(describe(c, names.__getitem__) for c in relation.columns)
        return Step(f"table {relation.table} ({shown})", tuple(details))
    match relation:
        case Aggregate():
            return _aggregate_step(relation, catalog)
        case Window():
            return _window_step(relation, catalog)
        case TopK():
            return _top_k_step(relation, catalog)
        case Union():
            return Step("union", (), tuple(_step(branch, catalog) for branch in relation.inputs))
    names = joined_names(relation, catalog)
    details = _joins(relation, names)
    if relation.predicate is not None:
        details.append(f"where {describe(relation.predicate, names.__getitem__)}")
    details.append("columns " + ", ".join(describe(c, names.__getitem__) for c in relation.columns))
    title = "join" if len(relation.inputs) > 1 else "select"
    return Step(title, tuple(details), tuple(_step(i.relation, catalog) for i in relation.inputs))


def _aggregate_step(aggregate: Aggregate, catalog: Catalog) -> Step:
    names = column_names(aggregate.input, catalog)
    group = ", ".join(names[c] for c in aggregate.group) or "nothing"
    calls = ", ".join(call_text(call, names) for call in aggregate.calls)
    title = f"aggregate by {group}" + (f": {calls}" if calls else "")
    details = ("a row even for no rows",) if aggregate.scalar else ()
    return Step(title, details, (_step(aggregate.input, catalog),))


def _window_step(window: Window, catalog: Catalog) -> Step:
    names = column_names(window.input, catalog)
    calls = ", ".join(window_text(call, names) for call in window.calls)
    return Step(f"window by {_names(window.partition, names)}: {calls}", (), (_step(window.input, catalog),))


def _top_k_step(top: TopK, catalog: Catalog) -> Step:
    names = column_names(top.input, catalog)
    limit = _limit(_count(top.limit_rows, None), _count(top.offset_rows or None, None))
    order = f" order {', '.join(_order(t, names) for t in top.order)}" if top.order else ""
    ties = " with ties" if top.with_ties else ""
    title = f"first by {_names(top.partition, names)}:{order} {limit}{ties}"
    return Step(title, (), (_step(top.input, catalog),))


def _names(columns: Columns, names: Sequence[str]) -> str:
    return ", ".join(names[c] for c in columns) or "nothing"


def window_text(call: WindowCall, names: Sequence[str]) -> str:
    """A window function over named columns."""
    arguments = ", ".join(describe(a, names.__getitem__) for a in call.arguments)
    if call.function == "count" and not call.arguments:
        arguments = "*"
    order = f" order {', '.join(_order(t, names) for t in call.order)}" if call.order else ""
    frame = (
        ""
        if call.frame == Frame()
        else f" {call.frame.mode.value} {_bound(call.frame.start)} to {_bound(call.frame.end)}"
    )
    return f"{call.function}({arguments}){_kept(call.keeps, names)}{order}{frame}"


def _bound(offset: int | None) -> str:
    return "unbounded" if offset is None else str(offset)


def _kept(keeps: Scalar | None, names: Sequence[str]) -> str:
    return "" if keeps is None else f" where {describe(keeps, names.__getitem__)}"


def call_text(call: AggregateCall, names: Sequence[str]) -> str:
    """An aggregate call over named columns."""

    def text(expression: Scalar) -> str:
        return describe(expression, names.__getitem__)

    arguments = ", ".join(text(a) for a in (call.argument, *call.others) if a is not None)
    order = ", ".join(_ordered(t, text(t.expression)) for t in call.order)
    inside = f"{'distinct ' if call.distinct else ''}{arguments}{f' order {order}' if order else ''}"
    plain = "count(*)" if call.argument is None else f"{call.function.value}({inside}){_kept(call.keeps, names)}"
    weight = "" if call.weight is None else f" times {text(call.weight)}"
    count = "" if call.count is None else f" of {text(call.count)} values"
    return plain + count + weight


def _joins(block: Block, names: Sequence[str]) -> list[str]:
    offsets = input_offsets(block)
    lines = []
    for i, item in enumerate(block.inputs[1:], 1):
        conditions = [f"{names[offsets[i] + c.own]} = {names[offsets[c.input] + c.column]}" for c in item.conditions]
        lines.append(f"{'left' if item.left else 'inner'} {' and '.join(conditions)}")
    return lines


def _indented(step: Step, depth: int) -> list[str]:
    pad = "  " * depth
    lines = [f"{pad}{step.title}", *(f"{pad}  {detail}" for detail in step.details)]
    for below in step.inputs:
        lines += _indented(below, depth + 1)
    return lines


def _json(step: Step) -> dict[str, Any]:
    return {"node": step.title, "details": list(step.details), "inputs": [_json(below) for below in step.inputs]}


# --- names ----------------------------------------------------------------------------------------------------------


def table_columns(chain: Chain, catalog: Catalog) -> list[str]:
    """Names of the base table's columns."""
    return [bare(column.name) for column in catalog.tables[chain.table].columns]


def column_names(relation: Relation, catalog: Catalog) -> list[str]:
    """What to call the columns of a relation: where they come from."""
    if isinstance(relation, Chain):
        names = table_columns(relation, catalog)
        return [describe(c, names.__getitem__) for c in relation.columns]
    match relation:
        case Aggregate():
            names = column_names(relation.input, catalog)
            return [names[c] for c in relation.group] + [call_text(call, names) for call in relation.calls]
        case Window():
            names = column_names(relation.input, catalog)
            return names + [window_text(call, names) for call in relation.calls]
        case TopK():
            return column_names(relation.input, catalog)
        case Union():
            return column_names(relation.inputs[0], catalog)
    names = joined_names(relation, catalog)
    return [describe(c, names.__getitem__) for c in relation.columns]


def joined_names(block: Block, catalog: Catalog) -> list[str]:
    """Names of the joined row: qualified where there are several inputs."""
    if len(block.inputs) == 1:
        return column_names(block.inputs[0].relation, catalog)
    names: list[str] = []
    for item, alias in zip(block.inputs, _aliases(block), strict=True):
        names += [f"{alias}.{name}" for name in column_names(item.relation, catalog)]
    return names


def _aliases(block: Block) -> list[str]:
    aliases: list[str] = []
    for item in block.inputs:
        name = _table_name(item.relation)
        alias, number = name, 1
        while alias in aliases:
            number += 1
            alias = f"{name}{number}"
        aliases.append(alias)
    return aliases


def _table_name(relation: Relation) -> str:
    if isinstance(relation, Chain):
        return relation.table.rpartition(".")[2]
    return _table_name(inputs_of(relation)[0])


# --- lookups --------------------------------------------------------------------------------------------------------


def lookups(view: View, catalog: Catalog) -> list[Lookup]:
    """The statements that a read of the view may run upstream, in the order of its route."""
    wanted: dict[tuple[Chain | Aggregate, Columns], None] = {}
    _collect(view.relation, tuple(dict.fromkeys(sorted(view.key_columns))), catalog, wanted)
    return [
        Lookup(
            relation, columns, lookup_sql(relation, columns, catalog), unsupported_by_index(relation, columns, catalog)
        )
        for relation, columns in wanted
    ]


def _collect(
    relation: Relation, columns: Columns, catalog: Catalog, wanted: dict[tuple[Chain | Aggregate, Columns], None]
) -> None:
    match relation:
        case Block():
            _collect_block(relation, columns, catalog, wanted)
        case Union():
            for branch in relation.inputs:
                _collect(branch, union_columns(relation, columns), catalog, wanted)
        case Window() | TopK():
            _collect(relation.input, coverable(relation, columns), catalog, wanted)
        case Aggregate() if not isinstance(relation.input, Chain):
            below = {relation.group[c] for c in coverable(relation, columns)}
            _collect(relation.input, tuple(sorted(below)), catalog, wanted)
        case _:
            wanted[relation, coverable(relation, columns)] = None


def _collect_block(
    block: Block, columns: Columns, catalog: Catalog, wanted: dict[tuple[Chain | Aggregate, Columns], None]
) -> None:
    route = block_route(block, columns, catalog) or block_route(block, ())
    assert route is not None
    _collect(block.inputs[route.driver].relation, route.driver_columns, catalog, wanted)
    for step in route.steps:
        _collect(block.inputs[step.input].relation, () if route.full else step.columns, catalog, wanted)
