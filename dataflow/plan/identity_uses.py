"""Use of replica identities by a plan: how changes find the old rows of tables whose identity has some columns only.

Not here: the rule that makes plans find them (`rules.old_rows`), changes themselves (`engine.partial_images`).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from dataflow.plan.nodes import (
    Aggregate,
    Block,
    Chain,
    Relation,
    TopK,
    Union,
    View,
    Window,
    inputs_of,
    passed_through,
)
from dataflow.plan.refresh import RefreshView, TableRead
from dataflow.schema import Catalog, Table
from dataflow.types import Columns


@dataclass(frozen=True, slots=True)
class IdentityUse:
    """How old rows of one table are found in one place of a plan."""

    table: str
    #: Names of the identity's columns.
    identity: tuple[str, ...]
    #: Names of columns that would have to be in the identity for only a row's own keys to be evicted; for want of them
    #: rows are materialized, or other keys are evicted too. None: rows are materialized for a join in any case, or only
    #: their keys are evicted.
    missing: tuple[str, ...] | None
    #: Keys are evicted, and nothing is materialized.
    evicts: bool

    @property
    def text(self) -> str:
        """One line of an explanation."""
        known = f"({', '.join(self.identity)})"
        if self.missing is None:
            if self.evicts:
                return f"old rows of {self.table}: an update evicts the keys that {known} tells"
            return f"old rows of {self.table}: found by {known} in the input of the join"
        wider = f"({', '.join((*self.identity, *self.missing))})"
        if self.evicts:
            return (
                f"old rows of {self.table}: an update or delete evicts all keys that may be its row's; one key with a "
                f"replica identity of {wider}"
            )
        spared = f"; not needed with a replica identity of {wider}" if self.missing else ""
        return f"old rows of {self.table}: materialized, found by {known}{spared}"


def identity_uses(view: View | RefreshView, catalog: Catalog) -> list[IdentityUse]:
    """Returns every use in a plan, each once. One of a refreshed view is a read whose key the identity lacks."""
    if isinstance(view, RefreshView):
        return list(dict.fromkeys(use for read in view.reads for use in _refreshed(read, catalog.tables[read.table])))
    return list(dict.fromkeys(_uses(view.relation, view.key_columns, catalog)))


def _refreshed(read: TableRead, table: Table) -> Iterator[IdentityUse]:
    missing = [column for column, _ in read.keys if column not in (table.identity or ())]
    if table.identity and missing:
        names = [column.name for column in table.columns]
        yield IdentityUse(
            table.name, tuple(names[i] for i in table.identity), tuple(names[i] for i in missing), evicts=True
        )


def _uses(relation: Relation, columns: Columns, catalog: Catalog) -> Iterator[IdentityUse]:
    """`columns`: those of the relation by which a leaf, groups or partitions over it are had."""
    match relation:
        case Chain():
            yield from _use(relation, columns, catalog, evicts=True)
            return
        case Block() if _is_materialized(relation):
            (item,) = relation.inputs
            assert isinstance(item.relation, Chain)
            places = passed_through(relation)
            yield from _use(item.relation, tuple(places[c] for c in columns), catalog, evicts=False)
            return
        case Block():
            below: Columns | None = None
        case Union():
            below = ()
        case Aggregate():
            below = relation.group
        case Window() | TopK():
            below = relation.partition
    for source in inputs_of(relation):
        if below is None and isinstance(source, Chain):
            yield from _use(source, None, catalog, evicts=False)
        else:
            yield from _uses(source, below or (), catalog)


def _is_materialized(block: Block) -> bool:
    """Return whether a block only exists to materialize its only input."""
    return (
        len(block.inputs) == 1
        and isinstance(block.inputs[0].relation, Chain)
        and block.predicate is None
        and len(passed_through(block)) == len(block.columns)
    )


def _use(chain: Chain, columns: Columns | None, catalog: Catalog, *, evicts: bool) -> Iterator[IdentityUse]:
    table = catalog.tables[chain.table]
    if not table.identity:
        return
    names = [column.name for column in table.columns]
    plain = passed_through(chain)
    missing = None
    if chain.parameters is not None:
        # One row of the table is one for each active tuple, so keys are evicted (`engine.partial_images`).
        evicts = True
    elif columns is not None and not evicts:
        bases = [plain.get(c) for c in columns]
        wanted = [b for b in bases if b is not None and b not in table.identity]
        missing = tuple(names[b] for b in wanted) if bases and None not in bases else ()
    yield IdentityUse(table.name, tuple(names[i] for i in table.identity), missing, evicts)
