"""Tools of plan rules: blocks as concatenated columns, walking a tree, unique keys.

A block is *loose* while rules work on it: its inner inputs have no conditions, the equalities that join them are
conjuncts of its predicate, and inputs stand in any order. `rules.join_conditions` makes it proper again.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from dataflow.plan.expressions import conjunction, conjuncts, equality, used_columns
from dataflow.plan.nodes import (
    Aggregate,
    Block,
    BlockInput,
    Chain,
    Relation,
    Source,
    TopK,
    Union,
    Window,
    column_types,
)
from dataflow.plan.parametric import chain_table
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import Catalog

Rule = Callable[[Relation, Catalog], Relation]


def bottom_up(rule: Rule, relation: Relation, catalog: Catalog) -> Relation:
    """Applies `rule` to every node, inputs first. What a rule makes of a source is a source."""
    match relation:
        case Aggregate() | Window() | TopK():
            relation = replace(relation, input=as_source(bottom_up(rule, relation.input, catalog)))
        case Block():
            inputs = tuple(replace(i, relation=bottom_up(rule, i.relation, catalog)) for i in relation.inputs)
            relation = replace(relation, inputs=inputs)
        case Union():
            relation = Union(tuple(as_source(bottom_up(rule, i, catalog)) for i in relation.inputs))
        case Chain():
            pass
    return rule(relation, catalog)


def as_source(relation: Relation) -> Source:
    """A relation that is known to be a source."""
    assert isinstance(relation, Chain | Block | Union)
    return relation


def widths(inputs: Sequence[BlockInput]) -> list[int]:
    """How many columns each input has."""
    return [len(column_types(i.relation)) for i in inputs]


def offsets(inputs: Sequence[BlockInput]) -> list[int]:
    """The first column of each input in the concatenated row."""
    result = [0]
    for width in widths(inputs):
        result.append(result[-1] + width)
    return result[:-1]


def input_of(starts: Sequence[int], column: int) -> int:
    """The input that a column of the concatenated row belongs to."""
    return max(i for i, start in enumerate(starts) if start <= column)


def inputs_used(starts: Sequence[int], columns: Iterable[int]) -> set[int]:
    """The inputs that columns of the concatenated row belong to."""
    return {input_of(starts, c) for c in columns}


def input_columns(block: Block) -> list[ColumnRef]:
    """The concatenated row, as references."""
    types = [t for i in block.inputs for t in column_types(i.relation)]
    return [ColumnRef(i, t) for i, t in enumerate(types)]


def loosened(block: Block) -> Block:
    """Returns the block with the conditions of inner inputs as conjuncts (not in canonical order)."""
    parts = conjuncts(block.predicate)
    starts, columns = offsets(block.inputs), input_columns(block)
    inputs = []
    for start, item in zip(starts, block.inputs, strict=True):
        if item.left:
            inputs.append(item)
            continue
        parts += [equality(columns[start + c.own], columns[starts[c.input] + c.column]) for c in item.conditions]
        inputs.append(replace(item, conditions=()))
    return Block(tuple(inputs), conjunction(parts), block.columns)


# --- unique keys ----------------------------------------------------------------------------------------------------


def unique_keys(relation: Relation, catalog: Catalog) -> list[frozenset[int]]:
    """Sets of columns of which no two rows agree."""
    match relation:
        case Aggregate():
            return [frozenset(range(len(relation.group)))]
        case Chain():
            return _chain_keys(relation, catalog)
        case Window():
            return [*unique_keys(relation.input, catalog), *_numbered_keys(relation)]
        case TopK():
            single = relation.limit_rows is not None and relation.limit_rows <= 1 and not relation.with_ties
            return [*unique_keys(relation.input, catalog), *([frozenset(relation.partition)] if single else [])]
        case Union():
            return []
        case Block():
            pass
    candidates = [frozenset((i,)) for i in range(len(relation.columns))]
    candidates.append(frozenset(range(len(relation.columns))))
    return [c for c in candidates if determines(relation, _plain(relation, c), catalog)]


def _numbered_keys(window: Window) -> list[frozenset[int]]:
    """A row number is unique in its partition."""
    width = len(column_types(window.input))
    numbers = [width + i for i, call in enumerate(window.calls) if call.function == "row_number"]
    return [frozenset((*window.partition, number)) for number in numbers]


def _plain(block: Block, columns: Iterable[int]) -> set[int]:
    return {ref.index for c in columns if isinstance(ref := block.columns[c], ColumnRef)}


def at_most_one(relation: Relation, columns: set[int], catalog: Catalog) -> bool:
    """Return whether at most one row of a (proper) relation has given values in `columns`."""
    if isinstance(relation, Block):
        return determines(relation, _plain(relation, columns), catalog)
    return any(key <= columns for key in unique_keys(relation, catalog))


def _fixed(predicate: Scalar | None) -> set[int]:
    """Columns that a predicate gives one value."""
    fixed: set[int] = set()
    for part in conjuncts(predicate):
        if isinstance(part, Call) and part.function == "=":
            refs = [a.index for a in part.arguments if isinstance(a, ColumnRef)]
            one_family = len({a.type.family for a in part.arguments}) == 1
            if len(refs) == 1 and one_family and any(isinstance(a, Literal) for a in part.arguments):
                fixed.add(refs[0])
    return fixed


def _chain_keys(chain: Chain, catalog: Catalog) -> list[frozenset[int]]:
    positions = {c.index: i for i, c in reversed(list(enumerate(chain.columns))) if isinstance(c, ColumnRef)}
    fixed = _fixed(chain.predicate)
    keys = [set(key) - fixed for key in chain_table(chain, catalog).keys]
    return [frozenset(positions[c] for c in key) for key in keys if all(c in positions for c in key)]


def determines(block: Block, columns: set[int], catalog: Catalog) -> bool:
    """Return whether at most one joined row of a (proper) block has given values in `columns` of the concatenated
    row."""
    starts, sizes = offsets(block.inputs), widths(block.inputs)
    keys = [unique_keys(i.relation, catalog) for i in block.inputs]
    known = set(columns)
    settled: set[int] = set()
    while True:
        before = len(known), len(settled)
        for i, item in enumerate(block.inputs):
            _spread(item, starts[i], starts, known)
            own = {c - starts[i] for c in known if starts[i] <= c < starts[i] + sizes[i]}
            hangs = all(c in known for c in _hung_off(item, starts, i))
            if any(key <= own for key in keys[i]) and (hangs or not item.left):
                settled.add(i)
                known.update(range(starts[i], starts[i] + sizes[i]))
        if (len(known), len(settled)) == before:
            return len(settled) == len(block.inputs)


def _hung_off(item: BlockInput, starts: Sequence[int], position: int) -> set[int]:
    """The columns of earlier inputs that the conditions of the input at `position` read."""
    earlier = {c for c in used_columns(item.on) if c < starts[position]}
    return earlier | {starts[c.input] + c.column for c in item.conditions}


def _spread(item: BlockInput, start: int, starts: Sequence[int], known: set[int]) -> None:
    """Evaluates conditions over known columns. A left input's values are settled once all that it hangs off is."""
    others = [starts[c.input] + c.column for c in item.conditions]
    if item.left:
        if all(o in known for o in others):
            known.update(start + c.own for c in item.conditions)
        return
    for other, condition in zip(others, item.conditions, strict=True):
        if other in known:
            known.add(start + condition.own)
        elif start + condition.own in known:
            known.add(other)
