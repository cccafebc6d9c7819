"""Explanation of a view: its tier, nodes, routes and lookups, as text, as JSON and as Graphviz.

The plan is installed into a graph of its own, so what is said of routes, coverage and lookups is what the engine does.
What is shared is asked of the graph that is running, if there is one.

Not here: the steps (`plan.outline`), the statements (`lookups`), views that are not maintained incrementally
(`plan.explain_refresh`).
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.graph import Graph
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import GroupingNode, RouteUse, SourceNode, Stored
from dataflow.lookups.shapes import lookup_shape
from dataflow.plan.at_read import with_rows
from dataflow.plan.estimate import estimated_bytes, size_text
from dataflow.plan.identity_uses import identity_uses
from dataflow.plan.nodes import Aggregate, Chain, Parameter, Relation, View, column_types
from dataflow.plan.outline import (
    PlanStep,
    aliases,
    column_names,
    count_text,
    label,
    limit_text,
    names_text,
    order_text,
    outline,
)
from dataflow.plan.parts import END, START, Part
from dataflow.plan.render import bare
from dataflow.plan.routes import coverable
from dataflow.plan.table_access import unordered_by_index, unsupported_by_index
from dataflow.schema import Catalog, Column
from dataflow.state.intervals import Cover, OrderedCover
from dataflow.types import Columns, ViewId


@dataclass(frozen=True, slots=True)
class ExplainedLookup:
    """A statement that the plan runs upstream, and what to warn of."""

    relation: Chain | Aggregate
    columns: Columns
    sql: str
    warning: str | None


class Explanation:
    """A view's plan, installed on its own. `running` is the graph whose nodes it shares, or would share; `whole`: the
    view is to be fully materialized."""

    def __init__(self, view: View, catalog: Catalog, running: Graph | None = None, whole: bool = False) -> None:
        self.view = view
        self._whole = whole
        self._catalog = catalog
        self._running = running
        self._graph = Graph(catalog, Counter())
        self._leaf = self._graph.install(ViewId(0), view, whole)
        #: The nodes that a read usually covers something of, by how; the leaf first.
        self._usual: dict[Cover, dict[Stored, None]] = {}
        for node, cover in _covers(self._leaf, self._leaf.ordered or self._leaf.coverage.columns):
            self._usual.setdefault(cover, {})[node] = None

    @property
    def fully_materialized(self) -> list[Stored]:
        """The nodes that the view's first read covers fully; its installation, if the view is fully materialized."""
        return list(self._usual.get((), {}))

    @property
    def fully_materialized_tables(self) -> frozenset[str]:
        """The base tables of these nodes."""
        return frozenset[str]().union(*map(self._graph.tables_of, self.fully_materialized))

    @property
    def materialization(self) -> Literal["partial", "full"]:
        """``partial`` or ``full``."""
        return "full" if self._leaf.full else "partial"

    @property
    def reason(self) -> str:
        """Reason why the view is materialized by keys, in parts or fully."""
        leaf = self._leaf
        names = column_names(self.view.relation, self._catalog)
        if leaf.ordered is not None:
            order = ", ".join(order_text(term, names) for term in leaf.ordered.order)
            of = " of a key" if self.view.key_columns else ""
            return f"Only what is read{of} is filled, in parts of the order {order}."
        if not leaf.full and self.fully_materialized:
            return (
                "Each key is filled by its first read; inputs that no route reaches from the key are fully materialized"
                " then."
            )
        if not leaf.full and self.view.within:
            key = names[self.view.key_columns[0]]
            return f"Few rows have the same {key}: they are filled by the first read of one of them."
        if not leaf.full:
            return "Each key is filled by its first read, by the lookups below."
        if self._whole:
            return "The view has the option materialization = full."
        if not self.view.parameters:
            order = ", and its order is not one of a table's columns" if self.view.storage_order else ""
            return f"No parameter is a key (column = :name){order}: the view is fully materialized."
        lost = [n for p in self.view.parameters if not coverable(self.view.relation, (p.column,)) for n in p.names]
        of = " ".join(f":{name}" for name in lost) or "the parameters together"
        return f"No route leads from {of} to a column of a table: the view is fully materialized."

    @property
    def estimated_bytes(self) -> int | None:
        """Estimated bytes of everything fully materialized, the view and its inputs; None if nothing is, or it is not
        known."""
        whole: list[Relation] = [node.relation for node in self.fully_materialized]
        sizes = [estimated_bytes(relation, self._catalog) for relation in whole]
        known = [size for size in sizes if size is not None]
        return round(sum(known)) if whole and len(known) == len(sizes) else None

    def shared_with(self, relation: Relation) -> list[str]:
        """Other views that are installed and read the same."""
        running = self._running
        if running is None:
            return []
        node: SourceNode | Stored | None = running.stores.get(relation)
        if relation == self.view.relation:
            node = running.sources.get(self.view.relation)
        return sorted({leaf.view.name for leaf in _leaves_below(node)} - {self.view.name})

    # The tree

    def steps(self) -> PlanStep:
        """The plan's steps, with each input's materialization, the way it is filled, and the views that share it."""
        rows = outline(self.view.relation, self._catalog, self._notes)
        if self.view.at_read is None:
            return rows
        return _computed(outline(self.view.at_read.relation, self._answer_catalog()), rows)

    def _notes(self, relation: Relation) -> Sequence[str]:
        node = self._graph.stores[relation]
        return [*self._materialized(node), *self._routes(node), *self._shared(relation)]

    def _materialized(self, node: Stored) -> Iterator[str]:
        names = column_names(node.relation, self._catalog)
        for cover in node.coverages():
            if isinstance(cover, OrderedCover):
                order = ", ".join(order_text(term, names) for term in cover.order)
                by = f"by {names_text(cover.columns, names)} " if cover.columns else ""
                yield f"materialized {by}in parts of the order {order}"
            elif cover:
                yield f"materialized by {names_text(cover, names)}"
            elif node in self.fully_materialized:
                yield f"fully materialized: {size_text(node.relation, self._catalog)}"
            else:
                yield f"fully materialized once all of the view is read: {size_text(node.relation, self._catalog)}"

    def _routes(self, node: Stored) -> Iterator[str]:
        for cover, use in node.uses.items():
            if len(use.block.inputs) > 1:
                kind = " of a part" if isinstance(cover, OrderedCover) else ""
                yield f"route{kind}: {self._route_text(use)}"

    def _route_text(self, use: RouteUse) -> str:
        names = aliases(use.block.relation)
        parts = []
        for place, cover in zip(use.route.order(), use.covers, strict=True):
            columns = cover.columns if isinstance(cover, OrderedCover) else cover
            of_input = column_names(use.block.inputs[place].relation, self._catalog)
            kind = " in order" if isinstance(cover, OrderedCover) else "" if columns else " whole"
            parts.append(names[place] + (f" by {names_text(columns, of_input)}" if columns else "") + kind)
        return ", then ".join(parts)

    def _shared(self, relation: Relation) -> Iterator[str]:
        others = self.shared_with(relation)
        if others:
            yield f"shared with {', '.join(others)}"

    # The view

    def lines(self) -> Iterator[str]:
        """Yield the lines about the view as a whole."""
        view, names = self.view, column_names(self.view.relation, self._catalog)
        whole = f" {_capital(size_text(view.relation, self._catalog))}." if self._leaf.full else ""
        yield f"incremental, {self.materialization}: {self.reason}{whole}"
        if view.parameters:
            yield "parameters: " + ", ".join(_parameter(p, names) for p in view.parameters)
        if view.within:
            yield "rows of a key picked by: " + ", ".join(_parameter(p, names) for p in view.within)
        if view.at_read is None:
            yield "columns: " + ", ".join(_output(c.name, names[c.column]) for c in view.output)
        for r in view.ranges:
            yield f"range: {names[r.column]} {r.operator} :{r.name}"
        for bound in view.clock:
            yield f"time window: {names[bound.column]} {bound.operator} {bound.sql}, computed at each read (UTC)"
        for bound in view.clock_filters:
            yield f"filtered by time: {names[bound.column]} {bound.operator} {bound.sql}, computed at each read (UTC)"
        for bound in view.clock_keys:
            yield f"time in the key: {names[bound.column]} = {bound.sql}, computed at each read (UTC)"
        yield from self._answer_lines()
        yield from (use.text for use in identity_uses(view, self._catalog))
        yield from self._routes(self._leaf)
        yield from self._shared(view.relation)

    def _answer_lines(self) -> Iterator[str]:
        """Yield the lines about answers."""
        answer, catalog = self.view.answer, self._answer_catalog()
        names = column_names(answer.relation, catalog)
        if answer is not self.view:
            yield "columns: " + ", ".join(_output(c.name, names[c.column]) for c in answer.output)
        if answer.order:
            yield "order: " + ", ".join(order_text(t, names) for t in answer.order)
        limit, offset = (
            (answer.limit_rows, answer.limit_parameter),
            (answer.offset_rows or None, answer.offset_parameter),
        )
        if text := limit_text(count_text(*limit), count_text(*offset)):
            yield text
        if answer.rows_for_null is None:
            yield "for NULL: what the upstream answers"
        for row in answer.rows_for_null or ():
            yield f"for NULL: {', '.join('NULL' if v is None else v for v in row)}"

    def _answer_catalog(self) -> Catalog:
        """The catalog with the rows that answers are computed from, if they are."""
        view = self.view
        if view.at_read is None:
            return self._catalog
        names, types = column_names(view.relation, self._catalog), column_types(view.relation)
        return with_rows([Column(names[c.column], types[c.column]) for c in view.output], self._catalog)

    # Lookups

    def lookups(self) -> list[ExplainedLookup]:
        """The statements by which keys are looked up, in the order of the routes; of everything, then of parts."""
        found: dict[tuple[Chain | Aggregate, Columns], None] = {}
        usual = [(node, cover) for cover, nodes in self._usual.items() for node in nodes]
        for node, cover in [*_covers(self._leaf, self._leaf.coverage.columns), *usual]:
            if isinstance(node.source, ChainNode) and not (node.source.empty or isinstance(cover, OrderedCover)):
                relation = node.relation if isinstance(node, GroupingNode) else node.source.relation
                found[relation, tuple(sorted(set(cover)))] = None
        return [
            ExplainedLookup(r, c, lookup_shape(r, c, self._catalog), unsupported_by_index(r, c, self._catalog))
            for r, c in found
        ]

    def part_lookups(self) -> list[ExplainedLookup]:
        """The statement by which a part of a key is looked up, from the beginning; none if keys have no parts."""
        cover, node = self._leaf.ordered, self._leaf.source
        if cover is None:
            return []
        if not isinstance(node, ChainNode):
            use = self._leaf.uses[cover]
            driven = use.covers[0]
            assert isinstance(driven, OrderedCover)
            cover, node = driven, use.node_at(0).source
        assert isinstance(node, ChainNode)
        limit = None if self.view.limit_rows is None else self.view.limit_rows + self.view.offset_rows
        columns = tuple(sorted(set(cover.columns)))
        sql = lookup_shape(node.relation, columns, self._catalog, Part(cover.order, START, END, limit))
        warning = unordered_by_index(node.relation, columns, cover.order[0], self._catalog)
        return [ExplainedLookup(node.relation, columns, sql, warning)]

    # Forms

    def text(self) -> str:
        """All of it: an indented tree, then the lookups."""
        lines = [f"view {self.view.name}", *(f"  {line}" for line in self.lines()), *_indented(self.steps(), 1)]
        for title, found in (("lookup", self.lookups()), ("lookup of a part", self.part_lookups())):
            for lookup in found:
                lines.append(f"  {title}: {lookup.sql}")
                if lookup.warning:
                    lines.append(f"    warning: {lookup.warning}")
        return "\n".join(lines) + "\n"

    def json(self) -> dict[str, Any]:
        """Return the explanation as a dictionary of strings, numbers, lists and dictionaries."""
        found = [(k, False) for k in self.lookups()] + [(k, True) for k in self.part_lookups()]
        return {
            "view": self.view.name,
            "sql": self.view.sql,
            "tier": "incremental",
            "materialization": self.materialization,
            "reason": self.reason,
            "estimated_bytes": self.estimated_bytes,
            "shared_with": self.shared_with(self.view.relation),
            "parameters": sorted(n for p in self.view.parameters + self.view.within for n in p.names),
            "columns": [c.name for c in self.view.answer.output],
            "notes": list(self.lines()),
            "plan": _json(self.steps()),
            "lookups": [{"sql": k.sql, "warning": k.warning, "part": part} for k, part in found],
            "warnings": [k.warning for k, _ in found if k.warning],
        }

    def dot(self) -> str:
        """The plan as a Graphviz digraph; rows flow along the arrows."""
        lines = ["digraph plan {", "  rankdir=BT;", '  node [shape=box, fontname="sans-serif"];']
        count = 0

        def node(step: PlanStep) -> int:
            nonlocal count
            count += 1
            number = count
            lines.append(f'  n{number} [label="{label(step.title, *step.details)}"];')
            lines.extend([f"  n{node(below)} -> n{number};" for below in step.inputs])
            return number

        top = node(self.steps())
        lines.append(
            f'  view [label="{label(self.view.name, f"incremental, {self.materialization}")}", shape=ellipse];'
        )
        lines.append(f"  n{top} -> view;")
        return "\n".join([*lines, "}"]) + "\n"


def _covers(node: Stored, cover: Cover) -> Iterator[tuple[Stored, Cover]]:
    """A node, and all that is read above it, each with what must be covered there; in the order of the routes."""
    yield node, cover
    if cover in node.uses:
        use = node.uses[cover]
        for position, above in enumerate(use.covers):
            yield from _covers(use.node_at(position), above)
    elif not isinstance(cover, OrderedCover) and cover in node.merges:
        merge = node.merges[cover]
        for input_ in merge.union.inputs:
            yield from _covers(input_, merge.cover)


def _leaves_below(node: SourceNode | Stored | None) -> Iterator[Leaf]:
    """Yields each once, however many ways lead to it."""
    pending = [] if node is None else [node]
    seen: set[SourceNode | Stored] = set()
    while pending:
        node = pending.pop()
        if node not in seen:
            seen.add(node)
            pending.extend(node.children)
            if isinstance(node, Leaf):
                yield node


# --- forms ----------------------------------------------------------------------------------------------------------


def lookups(view: View, catalog: Catalog) -> list[ExplainedLookup]:
    """The statements by which keys of a view are looked up."""
    return Explanation(view, catalog).lookups()


def explain_text(view: View, catalog: Catalog) -> str:
    """An indented tree, then the lookups."""
    return Explanation(view, catalog).text()


def explain_json(view: View, catalog: Catalog) -> dict[str, Any]:
    """Return the explanation as a dictionary of strings, numbers, lists and dictionaries."""
    return Explanation(view, catalog).json()


def explain_dot(view: View, catalog: Catalog) -> str:
    """The plan as a Graphviz digraph; rows flow along the arrows."""
    return Explanation(view, catalog).dot()


def _parameter(parameter: Parameter, names: Sequence[str]) -> str:
    if parameter.members is not None:
        values = [f":{name}" for name in parameter.names] + [repr(text) for text in parameter.members.constants]
        return f"{' or '.join(values)} = {names[parameter.column]}"
    return f":{parameter.name} {'has' if parameter.many else '='} {names[parameter.column]}"


def _output(name: str, source: str) -> str:
    return bare(name) if source == bare(name) or source.endswith(f".{bare(name)}") else f"{source} AS {bare(name)}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _computed(step: PlanStep, rows: PlanStep) -> PlanStep:
    """The steps of answers over the rows that these are computed from."""
    if not step.inputs:
        return PlanStep("rows of the time window, from which each read computes the above", (), (rows,))
    return replace(step, inputs=tuple(_computed(below, rows) for below in step.inputs))


def _indented(step: PlanStep, depth: int) -> list[str]:
    pad = "  " * depth
    lines = [f"{pad}{step.title}", *(f"{pad}  {detail}" for detail in step.details)]
    for below in step.inputs:
        lines += _indented(below, depth + 1)
    return lines


def _json(step: PlanStep) -> dict[str, Any]:
    return {"node": step.title, "details": list(step.details), "inputs": [_json(below) for below in step.inputs]}
