"""A plan for people: what its columns are called and what its steps do.

Not here: the steps' materialization (`explain`), expressions (`render`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    Block,
    CallOrder,
    Chain,
    Frame,
    OrderTerm,
    Relation,
    TopK,
    Union,
    Window,
    WindowCall,
    inputs_of,
)
from dataflow.plan.render import bare, describe
from dataflow.plan.routes import input_offsets
from dataflow.scalar import Literal, Scalar
from dataflow.schema import Catalog
from dataflow.types import Columns

#: Rows of constants that are shown.
_MOST_CONSTANTS = 5
#: More details of a relation.
Notes = Callable[[Relation], Sequence[str]]


@dataclass(frozen=True, slots=True)
class PlanStep:
    """One node of an outline: what it does, details, what it reads."""

    title: str
    details: tuple[str, ...] = ()
    inputs: tuple["PlanStep", ...] = ()


def _nothing(relation: Relation) -> Sequence[str]:
    del relation
    return ()


def outline(relation: Relation, catalog: Catalog, notes: Notes = _nothing) -> PlanStep:
    """A relation and all below it as steps; `notes` are more details of what is an input of a join or union."""
    if isinstance(relation, Chain):
        names = table_columns(relation, catalog)
        details = [] if relation.predicate is None else [f"where {describe(relation.predicate, names.__getitem__)}"]
        shown = ", ".join(describe(c, names.__getitem__) for c in relation.columns)
        return PlanStep(f"table {relation.table} ({shown})", tuple(details))
    match relation:
        case Aggregate():
            return _aggregate_step(relation, catalog, notes)
        case Window():
            return _window_step(relation, catalog, notes)
        case TopK():
            return _top_k_step(relation, catalog, notes)
        case Union() if (constants := _constants(relation)) is not None:
            return PlanStep(f"constants {constants}")
        case Union():
            return PlanStep("union", (), tuple(_input(branch, catalog, notes) for branch in relation.inputs))
        case Block():
            pass
    names = joined_names(relation, catalog)
    details = _joins(relation, names)
    if relation.predicate is not None:
        details.append(f"where {describe(relation.predicate, names.__getitem__)}")
    details.append("columns " + ", ".join(describe(c, names.__getitem__) for c in relation.columns))
    title = "join" if len(relation.inputs) > 1 else "select"
    return PlanStep(title, tuple(details), tuple(_input(i.relation, catalog, notes) for i in relation.inputs))


def _constants(union: Union) -> str | None:
    """The rows of a union of constants; None if it has others."""
    rows = [branch.columns for branch in union.inputs if isinstance(branch, Block) and branch.predicate is None]
    texts = [", ".join(describe(c, str) for c in row) for row in rows if all(isinstance(c, Literal) for c in row)]
    if len(texts) < len(union.inputs):
        return None
    shown = [text if len(row) == 1 else f"({text})" for row, text in zip(rows, texts, strict=True)]
    more = len(shown) - _MOST_CONSTANTS
    return ", ".join(shown[:_MOST_CONSTANTS]) + (f" and {more} more" if more > 0 else "")


def _input(relation: Relation, catalog: Catalog, notes: Notes) -> PlanStep:
    step = outline(relation, catalog, notes)
    return replace(step, details=(*step.details, *notes(relation)))


def _aggregate_step(aggregate: Aggregate, catalog: Catalog, notes: Notes) -> PlanStep:
    names = column_names(aggregate.input, catalog)
    group = ", ".join(names[c] for c in aggregate.group) or "nothing"
    calls = ", ".join(call_text(call, names) for call in aggregate.calls)
    title = f"aggregate by {group}" + (f": {calls}" if calls else "")
    details = ("a row even for no rows",) if aggregate.scalar else ()
    return PlanStep(title, details, (outline(aggregate.input, catalog, notes),))


def _window_step(window: Window, catalog: Catalog, notes: Notes) -> PlanStep:
    names = column_names(window.input, catalog)
    calls = ", ".join(window_text(call, names) for call in window.calls)
    return PlanStep(
        f"window by {names_text(window.partition, names)}: {calls}", (), (outline(window.input, catalog, notes),)
    )


def _top_k_step(top: TopK, catalog: Catalog, notes: Notes) -> PlanStep:
    names = column_names(top.input, catalog)
    limit = limit_text(count_text(top.limit_rows, None), count_text(top.offset_rows or None, None))
    order = f" order {', '.join(order_text(t, names) for t in top.order)}" if top.order else ""
    ties = " with ties" if top.with_ties else ""
    title = f"first by {names_text(top.partition, names)}:{order} {limit}{ties}"
    return PlanStep(title, (), (outline(top.input, catalog, notes),))


def names_text(columns: Columns, names: Sequence[str]) -> str:
    """Columns by their names."""
    return ", ".join(names[c] for c in columns) or "nothing"


def window_text(call: WindowCall, names: Sequence[str]) -> str:
    """A window function over named columns."""
    arguments = ", ".join(describe(a, names.__getitem__) for a in call.arguments)
    if call.function == "count" and not call.arguments:
        arguments = "*"
    order = f" order {', '.join(order_text(t, names) for t in call.order)}" if call.order else ""
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
        if item.on is not None:
            conditions.append(describe(item.on, names.__getitem__))
        kind = "left" if item.left else "inner" if conditions else "cross"
        lines.append(f"{kind} {' and '.join(conditions)}".rstrip())
    return lines


def count_text(rows: int | None, parameter: str | None) -> str | None:
    """A number of rows, or the parameter that gives it."""
    return f":{parameter}" if parameter else None if rows is None else str(rows)


def limit_text(limit: str | None, offset: str | None) -> str:
    """LIMIT and OFFSET; empty without both."""
    parts = (f"limit {limit}" if limit is not None else "", f"offset {offset}" if offset is not None else "")
    return " ".join(part for part in parts if part)


def order_text(term: OrderTerm, names: Sequence[str]) -> str:
    """A term of an ORDER BY over named columns."""
    return _ordered(term, names[term.column])


def _ordered(term: OrderTerm | CallOrder, text: str) -> str:
    direction = " DESC" if term.descending else ""
    nulls = "" if term.nulls_first == term.descending else " NULLS FIRST" if term.nulls_first else " NULLS LAST"
    return f"{text}{direction}{nulls}"


# --- names ----------------------------------------------------------------------------------------------------------


def table_columns(chain: Chain, catalog: Catalog) -> list[str]:
    """Names of the base table's columns, and numbers of the parameters."""
    own = [bare(column.name) for column in catalog.tables[chain.table].columns]
    if chain.parameters is None:
        return own
    return own[: chain.parameters.first] + [f":{i}" for i in range(1, 1 + len(chain.parameters.types))]


def column_names(relation: Relation, catalog: Catalog) -> list[str]:
    """Names for the columns of a relation, after the columns they come from."""
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
        case Block():
            pass
    names = joined_names(relation, catalog)
    return [describe(c, names.__getitem__) for c in relation.columns]


def joined_names(block: Block, catalog: Catalog) -> list[str]:
    """Names of the joined row: qualified where there are several inputs."""
    if len(block.inputs) == 1:
        return column_names(block.inputs[0].relation, catalog)
    names: list[str] = []
    for item, alias in zip(block.inputs, aliases(block), strict=True):
        names += [f"{alias}.{name}" for name in column_names(item.relation, catalog)]
    return names


def aliases(block: Block) -> list[str]:
    """Names for a block's inputs, after their tables; numbered where a table occurs again."""
    names: list[str] = []
    for item in block.inputs:
        name = table_name(item.relation)
        alias, number = name, 1
        while alias in names:
            number += 1
            alias = f"{name}{number}"
        names.append(alias)
    return names


def table_name(relation: Relation) -> str:
    """The table that a relation begins with."""
    if isinstance(relation, Chain):
        return relation.table.rpartition(".")[2]
    return table_name(inputs_of(relation)[0])


def label(*texts: str) -> str:
    """Lines of a Graphviz node."""
    return "".join(text.replace("\\", "\\\\").replace('"', '\\"') + "\\l" for text in texts)
