"""How keys and deltas find their way through a join block (architecture §3, §4): pure functions over plan nodes.

A *route* says how to get the rows of a block for a key: drive the input that owns the key, then look up the other
inputs, inner ones before left ones, in any connected order. A *delta order* says how to join changed rows of one
input with the others. Both are lists of `Step`s, each a lookup in one input by values of inputs that are bound
already.

*Invariants*: a left input never drives, and is bound by its own ON conditions after all that it hangs off, except when
the walk starts at it or at one of its descendants: its row is then a match, and its conditions are followed backwards.

Not here: which keys are covered (`state`), executing steps (`ops.block`).
"""

from collections.abc import Iterable
from dataclasses import dataclass

from dataflow.plan.nodes import Aggregate, Block, Chain, column_types, passed_through
from dataflow.scalar import ColumnRef
from dataflow.types import Columns


@dataclass(frozen=True, slots=True)
class Source:
    """A column of an input that is bound."""

    input: int
    column: int


@dataclass(frozen=True, slots=True)
class Step:
    """Look `columns` of input `input` up by the values of `sources`, one for each; then compare `checks`.

    `pads`: the input is a left one, and without a match its row is all NULL.
    """

    input: int
    columns: Columns
    sources: tuple[Source, ...]
    pads: bool
    #: Further equalities that a found row must meet: own column, bound source.
    checks: tuple[tuple[int, Source], ...] = ()


@dataclass(frozen=True, slots=True)
class DeltaOrder:
    """How a changed row of one input meets the others: `inner` steps first, then `left` ones, which may pad."""

    start: int
    inner: tuple[Step, ...]
    left: tuple[Step, ...]


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

    @property
    def full(self) -> bool:
        """Whether this route is driven by the key of everything."""
        return not self.driver_columns

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


@dataclass(frozen=True, slots=True)
class _Edge:
    """An equality between columns of two inputs; `left` is the left input whose ON it stands in, if any."""

    a: Source
    b: Source
    left: int | None


def input_offsets(block: Block) -> list[int]:
    """Where each input's columns begin in the concatenated row; one more entry for its width."""
    offsets = [0]
    for item in block.inputs:
        offsets.append(offsets[-1] + len(column_types(item.relation)))
    return offsets


def delta_order(block: Block, start: int) -> DeltaOrder:
    """The order in which a changed row of input `start` is joined with the other inputs."""
    edges = _edges(block)
    needed = _inner_inputs(block) | _ancestors(block, start)
    bound, inner = _bind_connected(edges, [start], needed - {start})
    left = []
    for i, item in enumerate(block.inputs):
        if i not in bound:
            if not item.left:
                raise ValueError(f"input {i} is connected to nothing")
            left.append(_forward(block, i))
            bound.append(i)
    return DeltaOrder(start, tuple(inner), tuple(left))


def block_route(block: Block, columns: Columns) -> Route | None:
    """The route of a key on `columns` (of the block's output); None if no input owns any of them."""
    if not columns:
        return _route_from(block, 0, (), ())
    owned = [_owned(block, columns, driver) for driver in range(len(block.inputs))]
    best = max(range(len(owned)), key=lambda i: (len(owned[i]), -i))
    if not owned[best]:
        return None
    pairs = sorted(owned[best].items())
    return _route_from(block, best, tuple(c for c, _ in pairs), tuple(p for _, p in pairs))


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
    return Completion(start, tuple(before), driven, tuple(by_input[i] for i in order[position + 1 :]))


def lookup_completion(route: Route, step: Step) -> tuple[int, Columns, tuple[int, ...], Completion]:
    """How to find the combinations of earlier inputs that look up a key of `step`.

    Returns an input to begin at, its columns to look up by, the positions of the step's key that these take, and how
    its rows are completed to the driving input.
    """
    first = step.sources[0].input
    pairs = sorted({s.column: p for p, s in enumerate(step.sources) if s.input == first}.items())
    return first, tuple(c for c, _ in pairs), tuple(p for _, p in pairs), completion(route, first)


def relevant_columns(route: Route, input_: int) -> Columns:
    """The columns of an input that the route compares or drives by: rows that agree in them take the same way."""
    relevant = set(route.driver_columns) if input_ == route.driver else set()
    for step in route.steps:
        for column, source in _equalities(step):
            if step.input == input_:
                relevant.add(column)
            if source.input == input_:
                relevant.add(source.column)
    return tuple(sorted(relevant))


def parent_columns(relation: Aggregate | Chain, columns: Columns) -> Columns | None:
    """`columns` of a chain, or of an aggregate over one, as columns of the base table; None if one is computed."""
    if isinstance(relation, Aggregate):
        if any(c >= len(relation.group) for c in columns) or not isinstance(relation.input, Chain):
            return None
        return parent_columns(relation.input, tuple(relation.group[c] for c in columns))
    plain = passed_through(relation)
    return tuple(plain[c] for c in columns) if all(c in plain for c in columns) else None


def aggregate_input_columns(aggregate: Aggregate, columns: Columns) -> Columns | None:
    """`columns` of an aggregate as columns of its input; None if one is not a group column."""
    if any(c >= len(aggregate.group) for c in columns):
        return None
    return tuple(aggregate.group[c] for c in columns)


def _edges(block: Block) -> list[_Edge]:
    return [
        _Edge(Source(i, c.own), Source(c.input, c.column), i if item.left else None)
        for i, item in enumerate(block.inputs)
        for c in item.conditions
    ]


def _inner_inputs(block: Block) -> set[int]:
    return {i for i, item in enumerate(block.inputs) if not item.left}


def _ancestors(block: Block, start: int) -> set[int]:
    """All that a left input hangs off, directly or not."""
    found: set[int] = set()
    queue = [start]
    while queue:
        item = block.inputs[queue.pop()]
        new = {c.input for c in item.conditions if item.left} - found
        found |= new
        queue.extend(new)
    return found


def _bind_connected(edges: list[_Edge], bound: list[int], needed: set[int]) -> tuple[list[int], list[Step]]:
    """Steps that bind `needed` inputs, each a match, in a connected order."""
    steps: list[Step] = []
    bound = list(bound)
    while needed:
        for target in sorted(needed):
            pairs = list(_connections(edges, bound, target))
            if pairs:
                steps.append(_step(target, pairs, pads=False))
                bound.append(target)
                needed = needed - {target}
                break
        else:
            raise ValueError(f"inputs {sorted(needed)} of the block are connected to nothing")
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


def _owned(block: Block, columns: Columns, driver: int) -> dict[int, int]:
    """The driver's columns that carry the key: its column -> position in the key."""
    if block.inputs[driver].left:
        return {}
    offsets = input_offsets(block)
    classes = _equal_columns(block)
    owned: dict[int, int] = {}
    for position, column in enumerate(columns):
        expression = block.columns[column]
        if not isinstance(expression, ColumnRef):
            continue
        source = _source_of(offsets, expression.index)
        if block.inputs[source.input].left:
            continue
        equal = next((s for s in classes.get(source, (source,)) if s.input == driver), None)
        if equal is not None:
            owned.setdefault(equal.column, position)
    return owned


def _source_of(offsets: list[int], index: int) -> Source:
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
    return {s: tuple(sorted(members, key=lambda m: (m.input, m.column))) for s, members in classes.items()}


def _route_from(block: Block, driver: int, columns: Columns, positions: tuple[int, ...]) -> Route:
    order = delta_order(block, driver)
    return Route(driver, columns, positions, order.inner + order.left)


def _path_to_driver(route: Route, by_input: dict[int, Step], start: int) -> list[int]:
    """The inputs whose values led the route to `start`, nearest first, the driving input last."""
    path: list[int] = []
    current = start
    while current != route.driver:
        current = by_input[current].sources[0].input
        path.append(current)
    return path


def _backward(by_input: dict[int, Step], bound: list[int], target: int) -> Step:
    """Bind `target`, whose values led the route to inputs that are bound."""
    pairs = [
        (source.column, Source(step.input, column))
        for step in by_input.values()
        if step.input in bound
        for column, source in _equalities(step)
        if source.input == target
    ]
    return _step(target, pairs, pads=False)


def _equalities(step: Step) -> list[tuple[int, Source]]:
    return [*zip(step.columns, step.sources, strict=True), *step.checks]
