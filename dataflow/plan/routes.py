"""Routes of keys and deltas through a join block: pure functions over plan nodes.

A *route* says how to get the rows of a block for a key: drive the input that owns the key, then look up the other
inputs, inner ones before left ones, in any connected order. A *delta order* says how to join changed rows of one
input with the others. Both are lists of `Step`s, each a lookup in one input by values of inputs that are bound
already.

*Invariants*: a left input never drives, and is bound by its own ON conditions after all that it hangs off, except when
the walk starts at it or at one that its conditions lead to: its row is then a match, and the conditions are followed
backwards. An inner input that nothing connects with what is bound (CROSS JOIN) comes when nothing connected is left.

Not here: where a route asks conditions (`route_conditions`), which keys are covered (`state`), executing steps
(`ops.block`).
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import NamedTuple

from dataflow.plan.expressions import used_columns
from dataflow.plan.nodes import (
    Aggregate,
    Block,
    Chain,
    OrderTerm,
    Relation,
    TopK,
    Union,
    View,
    Window,
    column_types,
    passed_through,
)
from dataflow.plan.parametric import parameter_columns, required_columns
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import Catalog
from dataflow.types import Columns


@dataclass(frozen=True, slots=True)
class Source:
    """A column of an input that is bound."""

    input: int
    column: int


@dataclass(frozen=True, slots=True)
class Step:
    """Look `columns` of input `input` up by the values of `sources`, one for each; then compare `checks`.

    Without columns it is the lookup of everything, by the key ``()``. `pads`: the input is a left one, and without a
    match its row is all NULL; a row is a match only if the rest of its ON (`BlockInput.on`) is TRUE as well.
    """

    input: int
    columns: Columns
    sources: tuple[Source, ...]
    pads: bool
    #: Further equalities that a found row must meet: own column, bound source.
    checks: tuple[tuple[int, Source], ...] = ()


@dataclass(frozen=True, slots=True)
class DeltaOrder:
    """How a changed row of one input meets the others: `inner` steps first, then `left` ones, which may pad.

    A left input's change acts on combinations of what it hangs off: `inner` binds the inner inputs, and as matches
    those that its conditions lead to, `above` the left ones that only an ON's rest mentions. The rows of `matched` are
    then asked whether that rest is TRUE.
    """

    start: int
    inner: tuple[Step, ...]
    left: tuple[Step, ...]
    above: tuple[Step, ...] = ()
    matched: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Route:
    """How to get the block's rows whose `columns` are a key.

    The driving input is looked up by `driver_columns` (distinct, ascending). `key_positions[i]` is the position of
    the key that `driver_columns[i]` takes; positions of the key that are not among them filter the result. With
    `driver_columns` ``()`` the route is a full one: it has no key, and all inputs are covered at ``()``.
    """

    driver: int
    driver_columns: Columns
    key_positions: tuple[int, ...]
    steps: tuple[Step, ...]
    #: The driving input is covered in part, in an order: also a route of ``()`` then leads to keys of the others.
    ordered: bool = False

    @property
    def full(self) -> bool:
        """True if this route is driven by the key of everything."""
        return not self.driver_columns and not self.ordered

    def order(self) -> list[int]:
        """The inputs in the order in which they are bound."""
        return [self.driver, *(step.input for step in self.steps)]


@dataclass(frozen=True, slots=True)
class Completion:
    """How a row added to one input of a route is completed: `before` binds the inputs that the route binds earlier,
    `after` those it binds later, in the route's order. The `driven` first steps of `before` lead to the driving
    input."""

    start: int
    before: tuple[Step, ...]
    driven: int
    after: tuple[Step, ...]
    #: Left inputs that `before` takes for matches: the rest of their ON is asked for when all of it is bound.
    matched: tuple[int, ...] = ()

    def leads_through(self) -> frozenset[int]:
        """The inputs that are bound with the driving one."""
        return frozenset((self.start, *(step.input for step in self.before[: self.driven])))


@dataclass(frozen=True, slots=True)
class _Edge:
    """An equality between columns of two inputs; `left` is the left input whose ON it stands in, if any."""

    a: Source
    b: Source
    left: int | None


def input_offsets(block: Block) -> list[int]:
    """The first column of each input in the concatenated row; one more entry for the row's width."""
    offsets = [0]
    for item in block.inputs:
        offsets.append(offsets[-1] + len(column_types(item.relation)))
    return offsets


def delta_order(block: Block, start: int) -> DeltaOrder:
    """The order in which a changed row of input `start` is joined with the other inputs."""
    matched = _matched(block, start)
    bound, inner = _bind_connected(_edges(block), [start], (_inner_inputs(block) | matched) - {start})
    rest = [i for i in range(len(block.inputs)) if i not in bound]
    hung = hangs_off(block, start) if block.inputs[start].left else set()
    above = [_forward(block, i) for i in rest if i in hung]
    left = [_forward(block, i) for i in rest if i not in hung]
    asked = tuple(i for i in sorted(matched - {start}) if block.inputs[i].on is not None)
    return DeltaOrder(start, tuple(inner), tuple(left), tuple(above), asked)


def route_from(block: Block, driver: int, owned: dict[int, int]) -> Route:
    """The route that drives an input by some of its columns, each with its position in the key."""
    order = delta_order(block, driver)
    pairs = sorted(owned.items())
    return Route(driver, tuple(c for c, _ in pairs), tuple(p for _, p in pairs), order.inner + order.left)


def block_route(block: Block, columns: Columns, catalog: Catalog | None = None) -> Route | None:
    """The route of a key on `columns` (of the block's output); None if no input owns any of them.

    Driven is an input from which parametric ones are reached by all of their parameters, and aggregates without GROUP
    BY by all of their group columns; that a part of can be had by its share of the key, by most of the key, by a unique
    key, by an index of the upstream, of the smallest table: in this order.
    """
    if not columns:
        return route_from(block, 0, {})
    rated: list[tuple[tuple[float, ...], int, dict[int, int]]] = []
    wanted = required_columns(block)
    for driver, item in enumerate(block.inputs):
        owned = owned_columns(block, columns, driver)
        part = coverable(item.relation, tuple(sorted(owned)))
        if owned:
            cost = lookup_cost(item.relation, part, catalog)
            lost = bool(wanted) and not _reaches(route_from(block, driver, owned), wanted)
            rated.append(((lost, cost.full, -len(part or owned), *cost[1:]), driver, owned))
    if not rated:
        return None
    _, driver, owned = min(rated, key=lambda entry: entry[:2])
    return route_from(block, driver, owned)


def _reaches(route: Route, wanted: dict[int, Columns]) -> bool:
    looked_up = {route.driver: route.driver_columns, **{step.input: step.columns for step in route.steps}}
    return all(set(columns) <= set(looked_up[i]) for i, columns in wanted.items())


class LookupCost(NamedTuple):
    """The cost of a lookup upstream, for comparison only."""

    #: Everything would be looked up.
    full: bool
    #: Several rows can have the key.
    repeated: bool
    #: No index of the upstream begins with a column of the key.
    scanned: bool
    #: Rows of the table, about.
    rows: float


def lookup_cost(relation: Relation, columns: Columns, catalog: Catalog | None) -> LookupCost:
    """The cost of covering a key on `columns`, which `coverable` gave."""
    match relation:
        case Chain():
            return _chain_cost(relation, columns, catalog)
        case Block():
            route = block_route(relation, columns, catalog)
            if not columns or route is None:
                return LookupCost(True, True, True, 0)
            driver = relation.inputs[route.driver].relation
            cost = lookup_cost(driver, coverable(driver, route.driver_columns), catalog)
            return cost._replace(repeated=cost.repeated or len(relation.inputs) > 1)
        case Union():
            shared = union_columns(relation, columns)
            return max(lookup_cost(branch, shared, catalog) for branch in relation.inputs)
        case Aggregate():
            return lookup_cost(relation.input, tuple(relation.group[c] for c in columns), catalog)
        case Window() | TopK():
            return lookup_cost(relation.input, columns, catalog)


def _chain_cost(chain: Chain, columns: Columns, catalog: Catalog | None) -> LookupCost:
    plain, table = passed_through(chain), catalog.tables.get(chain.table) if catalog is not None else None
    if table is None:
        return LookupCost(not columns, True, True, 0)
    base = {plain[c] for c in columns}
    unique = any(base.issuperset(key) for key in table.keys)
    indexed = unique or any(index[:1] and index[0] in base for index in table.indexes)
    return LookupCost(not columns, not unique, not indexed, table.estimated_rows)


def coverable(relation: Relation, columns: Columns) -> Columns:
    """Those of `columns` by whose values a part of the relation can be had; () if there is none but everything.

    A block, or a union, is driven by some of them and filtered by the others: it is all or none.
    """
    match relation:
        case Chain():
            plain = passed_through(relation)
            found = tuple(c for c in columns if c in plain)
            return found if set(parameter_columns(relation)) <= set(found) else ()
        case Block():
            owned = any(owned_columns(relation, columns, driver) for driver in range(len(relation.inputs)))
            return columns if owned else ()
        case Union():
            return columns if union_columns(relation, columns) else ()
        case Aggregate():
            own = {relation.group[c]: c for c in columns if c < len(relation.group)}
            return tuple(own[c] for c in coverable(relation.input, tuple(own)))
        case Window() | TopK():
            return coverable(relation.input, tuple(c for c in columns if c in relation.partition))


def union_columns(union: Union, columns: Columns) -> Columns:
    """Those of `columns` by which a part of every branch can be had."""
    shared = columns
    while True:
        fewer = shared
        for branch in union.inputs:
            fewer = coverable(branch, fewer)
        if fewer == shared:
            return shared
        shared = fewer


def ordered_route(
    block: Block, columns: Columns, order: tuple[OrderTerm, ...]
) -> tuple[Route, tuple[OrderTerm, ...]] | None:
    """The route of a part of a key on `columns`, in an order of the block's rows, and that order in columns of the
    driving input; None if no input over a chain owns all of the key and of the order."""
    offsets, found = input_offsets(block), []
    for term in order:
        expression = block.columns[term.column]
        if not isinstance(expression, ColumnRef):
            return None
        found.append(source_of(offsets, expression.index))
    (driver, *others) = dict.fromkeys(source.input for source in found)
    item = block.inputs[driver]
    if others or item.left or not isinstance(item.relation, Chain):
        return None
    owned = owned_columns(block, columns, driver)
    if len(owned) != len(columns) or parent_columns(item.relation, tuple(sorted(owned))) is None:
        return None
    route = route_from(block, driver, owned)
    terms = tuple(replace(term, column=source.column) for term, source in zip(order, found, strict=True))
    return replace(route, ordered=True), terms


def in_parts(view: View) -> bool:
    """Return whether a part of a key's rows, in the order in which they are stored, can be looked up by itself."""
    types = column_types(view.relation)
    if view.within or not view.storage_order or not all(types[t.column].orderable for t in view.storage_order):
        return False
    if isinstance(view.relation, Block):
        return ordered_route(view.relation, view.key_columns, view.storage_order) is not None
    return isinstance(view.relation, Chain)


def completion(route: Route, start: int) -> Completion:
    """How a row added to input `start` of `route` is completed."""
    order = route.order()
    position = order.index(start)
    by_input = {step.input: step for step in route.steps}
    path = _path_to_driver(route, by_input, start)
    bound = [start]
    before: list[Step] = []
    for target in path:
        before.append(_backward(by_input, bound, target))
        bound.append(target)
    driven = len(before)
    for target in order[:position]:
        if target not in bound:
            before.append(by_input[target])
            bound.append(target)
    matched = tuple(i for i in (start, *path) if i != route.driver and by_input[i].pads)
    return Completion(start, tuple(before), driven, tuple(by_input[i] for i in order[position + 1 :]), matched)


def lookup_completion(route: Route, sources: tuple[Source, ...]) -> tuple[int, Columns, tuple[int, ...], Completion]:
    """How to find the combinations of earlier inputs whose values a key of `sources` is made of.

    Returns an input to begin at, its columns to look up by, the positions of the key that these take, and how its rows
    are completed to the driving input. The key of everything is looked up by all: then it is the driving input.
    """
    first = sources[0].input if sources else route.driver
    pairs = sorted({s.column: p for p, s in enumerate(sources) if s.input == first}.items())
    return first, tuple(c for c, _ in pairs), tuple(p for _, p in pairs), completion(route, first)


def mentioned(block: Block, expression: Scalar | None) -> list[Source]:
    """The columns that an expression over the concatenated row reads, ascending."""
    offsets = input_offsets(block)
    return [source_of(offsets, column) for column in sorted(used_columns(expression))]


def parent_columns(relation: Relation, columns: Columns) -> Columns | None:
    """`columns` of what reads one table as columns of that table; None if one is computed."""
    match relation:
        case Chain():
            plain = passed_through(relation)
            return tuple(plain[c] for c in columns) if all(c in plain for c in columns) else None
        case Aggregate() if all(c < len(relation.group) for c in columns):
            return parent_columns(relation.input, tuple(relation.group[c] for c in columns))
        case Window() | TopK() if all(c in relation.partition for c in columns):
            return parent_columns(relation.input, columns)
    return None


def _edges(block: Block) -> list[_Edge]:
    return [
        _Edge(Source(i, c.own), Source(c.input, c.column), i if item.left else None)
        for i, item in enumerate(block.inputs)
        for c in item.conditions
    ]


def _inner_inputs(block: Block) -> set[int]:
    return {i for i, item in enumerate(block.inputs) if not item.left}


def _matched(block: Block, start: int) -> set[int]:
    """`start`, and all that must be matches where it is one: what its conditions lead to, directly or not."""
    found: set[int] = set()
    queue = [start]
    while queue:
        item = block.inputs[queue.pop()]
        new = {c.input for c in item.conditions if item.left} - found
        found |= new
        queue.extend(new)
    return found | {start}


def hangs_off(block: Block, start: int) -> set[int]:
    """All that says which rows of a left input are matches, directly or not: its ON reads them."""
    found: set[int] = set()
    queue = [start]
    while queue:
        at = queue.pop()
        item = block.inputs[at]
        read = {c.input for c in item.conditions} | {source.input for source in mentioned(block, item.on)}
        new = read - found - {at} if item.left else set()
        found |= new
        queue.extend(new)
    return found


def _bind_connected(edges: list[_Edge], bound: list[int], needed: set[int]) -> tuple[list[int], list[Step]]:
    """Steps that bind `needed` inputs, each a match, in a connected order as far as there is one."""
    steps: list[Step] = []
    bound = list(bound)
    while needed:
        connected = ((i, pairs) for i in sorted(needed) if (pairs := list(_connections(edges, bound, i))))
        target, pairs = next(connected, (min(needed), []))
        steps.append(_step(target, pairs, pads=False))
        bound.append(target)
        needed = needed - {target}
    return bound, steps


def _connections(edges: list[_Edge], bound: list[int], target: int) -> Iterable[tuple[int, Source]]:
    """Equalities of `target`'s columns with bound inputs. A left input's ON holds only if its row is a match; it is
    followed from the left input to what it hangs off, or between inputs that are both bound as matches."""
    for edge in edges:
        if edge.a.input == target and edge.b.input in bound:
            yield edge.a.column, edge.b
        elif edge.b.input == target and edge.a.input in bound:
            yield edge.b.column, edge.a


def _forward(block: Block, left: int) -> Step:
    conditions = block.inputs[left].conditions
    return _step(left, [(c.own, Source(c.input, c.column)) for c in conditions], pads=True)


def _step(target: int, pairs: list[tuple[int, Source]], pads: bool) -> Step:
    chosen: dict[int, Source] = {}
    checks: list[tuple[int, Source]] = []
    for own, source in pairs:
        if chosen.setdefault(own, source) != source:
            checks.append((own, source))
    columns = tuple(sorted(chosen))
    return Step(target, columns, tuple(chosen[c] for c in columns), pads, tuple(checks))


def owned_columns(block: Block, columns: Columns, driver: int) -> dict[int, int]:
    """The driver's columns that carry a key on `columns` of the block: its column -> position in the key."""
    if block.inputs[driver].left:
        return {}
    offsets = input_offsets(block)
    classes = _equal_columns(block)
    owned: dict[int, int] = {}
    for position, column in enumerate(columns):
        expression = block.columns[column]
        if not isinstance(expression, ColumnRef):
            continue
        source = source_of(offsets, expression.index)
        if block.inputs[source.input].left:
            continue
        equal = next((s for s in classes.get(source, (source,)) if s.input == driver), None)
        if equal is not None:
            owned.setdefault(equal.column, position)
    return owned


def source_of(offsets: list[int], index: int) -> Source:
    """Returns the input and column that a column of the concatenated row comes from."""
    for i, offset in enumerate(offsets[:-1]):
        if index < offsets[i + 1]:
            return Source(i, index - offset)
    raise IndexError(index)


def _equal_columns(block: Block) -> dict[Source, tuple[Source, ...]]:
    """Columns that inner join conditions make equal."""
    classes: dict[Source, set[Source]] = {}
    for edge in _edges(block):
        if edge.left is None:
            merged = classes.get(edge.a, {edge.a}) | classes.get(edge.b, {edge.b})
            for member in merged:
                classes[member] = merged
    ordered = {id(members): tuple(sorted(members, key=lambda m: (m.input, m.column))) for members in classes.values()}
    return {source: ordered[id(members)] for source, members in classes.items()}


def _path_to_driver(route: Route, by_input: dict[int, Step], start: int) -> list[int]:
    """The inputs whose values led the route to `start`, nearest first, the driving input last. What was looked up by
    no value was led to by the driving input."""
    path: list[int] = []
    current = start
    while current != route.driver:
        sources = by_input[current].sources
        current = sources[0].input if sources else route.driver
        path.append(current)
    return path


def _backward(by_input: dict[int, Step], bound: list[int], target: int) -> Step:
    """Bind `target`, whose values led the route to inputs that are bound."""
    pairs = [
        (source.column, Source(step.input, column))
        for step in by_input.values()
        if step.input in bound
        for column, source in equalities(step)
        if source.input == target
    ]
    return _step(target, pairs, pads=False)


def equalities(step: Step) -> list[tuple[int, Source]]:
    return [*zip(step.columns, step.sources, strict=True), *step.checks]
