"""Partial images: changes of rows whose old values the stream does not carry.

A table with a replica identity of some columns (PostgreSQL: DEFAULT, USING INDEX) has changes with the identity's old
values only. What a node over a chain of that table does with one depends on what it has:

- a store that has a unique key of the table among its columns finds the old row by it, if it knows the row; a row that
  it does not know is under no covered key (I1), so there is nothing to take away;
- other nodes evict the keys that the old row may be under: those that agree with its known values. A leaf by a unique
  key is filled again at once, since the new row is all that there is under its key.

Implied changes (`TableDelta.implied`) evict the keys that the rows which agree with them may be under: what the stream
lacks is which of these rows became which, and all of them are under such keys.

The new row is applied where it is known, and where unchanged values that the stream omits (TOAST) are those of the old
row in the store; otherwise the keys that it may be under are evicted.

*Invariants*: evictions precede the transaction's deltas, so they see the state before it.

Not here: which tables have such changes (`schema.Table.identity`), rows that a plan stores for this (`plan.rules`).
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.events import TableDelta
from dataflow.engine.evictions import Target
from dataflow.engine.leaf import Leaf
from dataflow.engine.nodes import Store, Stored
from dataflow.errors import contained
from dataflow.plan.expressions import used_columns
from dataflow.plan.nodes import passed_through
from dataflow.schema import Table
from dataflow.state.index import key_function
from dataflow.state.intervals import OrderedCover
from dataflow.types import UNKNOWN, Columns, Delta, Key, PartialChange, Row

#: Rows of a lookup by the identity that they have in it.
_Images = dict[Key, Row]


@dataclass(slots=True)
class NodeChange:
    """A node's part of a transaction's partial changes."""

    delta: Delta = field(default_factory=lambda: ([], []))
    #: Keys that the rows may be under which are not in `delta`.
    lost: list[Target] = field(default_factory=list)
    #: Of these, keys of a leaf whose only rows are those that `delta` adds.
    known: set[Key] = field(default_factory=set)
    #: Keys of rows that are known in part.
    unknown: set[Key] = field(default_factory=set)


@dataclass(slots=True)
class Redo:
    """Changes of a lookup's rows."""

    deltas: list[Delta] = field(default_factory=list)
    #: Rows of the chain, known in part, that may be there or not.
    unknown: list[Row] = field(default_factory=list)


class PartialImages:
    """Partial changes of one table, in terms of a chain over it."""

    def __init__(self, chain: ChainNode, table: Table) -> None:
        relation = chain.relation
        #: A parametric chain has a row for every active tuple, which one of the table does not tell: keys are evicted.
        self._parametric = relation.parameters is not None
        first = len(table.columns) if relation.parameters is None else relation.parameters.first
        plain = {c: base for c, base in passed_through(relation).items() if base < first}
        shown = {base: column for column, base in plain.items()}
        self.table = table
        self._function = chain.function
        self._types = chain.types
        #: Columns of the table that the chain's rows depend on.
        self._used = tuple(sorted(used_columns(relation.predicate, *relation.columns)))
        #: By column of the chain, the table's column whose value it has, if it is one.
        self._base = tuple([plain.get(column) for column in range(len(chain.types))])
        #: Unique key of the table that the chain's rows have, by ordinal in the chain.
        self.unique: Columns | None = next(
            (
                tuple(shown[c] for c in key)
                for key in sorted(table.keys, key=lambda key: not set(key) <= set(table.identity or key))
                if shown.keys() >= set(key) and not self._parametric
            ),
            None,
        )
        self._identity_of = None if self.unique is None else key_function(self.unique, chain.types)

    # Nodes

    def change_of(self, node: Stored, changes: Sequence[PartialChange], implied: Sequence[Row] = ()) -> NodeChange:
        """Returns the effect of partial and implied changes on a node over the chain, as it was before them."""
        found = NodeChange()
        if implied:
            found.lost += self._keys_under_any(node, [self.shown(row) for row in implied])
            found.unknown.update(key for _, _, key in found.lost)
        for before, after in changes:
            try:
                self._apply(node, before, after, found)
            except Exception as error:
                # An expression fails for the row; a lookup of its keys fails as upstream.
                contained(error)
                found.lost += _every_key(node)
                found.unknown.update(key for _, _, key in found.lost)
        found.known -= found.unknown
        return found

    def _apply(self, node: Stored, before: Row | None, after: Row | None, found: NodeChange) -> None:
        held: Row | None = None
        identity = self._identity(before)
        if before is None:
            pass
        elif identity is None or self.unique is None or not isinstance(node, Store):
            lost = list(self._keys_under(node, self.shown(before)))
            found.lost += lost
            if identity is not None and self._is_unique(node):
                found.known.update(key for _, _, key in lost)
        else:
            for held in node.materialization.require_index(self.unique).get(identity):
                found.delta[0].append(held)
        if after is None:
            return
        complete = self._completed(after, held)
        if complete is None:
            lost = list(self._keys_under(node, self.shown(after)))
            found.lost += lost
            found.unknown.update(key for _, _, key in lost)
        else:
            found.delta[1].extend(self._function.rows([complete]))

    def _is_unique(self, node: Stored) -> bool:
        """Return whether a key of a node is that of one row at most."""
        return self.unique is not None and isinstance(node, Leaf) and set(self.unique) <= set(node.coverage.columns)

    def _keys_under(self, node: Stored, row: Row) -> Iterator[Target]:
        """Yields the covered keys of a node that a row of the chain, known in part, may be under."""
        return self._keys_under_any(node, (row,))

    def _keys_under_any(self, node: Stored, rows: Sequence[Row]) -> Iterator[Target]:
        for cover, coverage in node.coverages().items():
            columns = node.source_columns(cover.columns if isinstance(cover, OrderedCover) else cover)
            for positions, part in dict.fromkeys(self.known_part(columns, row) for row in rows):
                for key in coverage.agreeing(positions, part):
                    yield node, cover, key

    # Lookups

    def redo(self, rows: list[Row], unseen: Sequence[TableDelta]) -> Redo:
        """Returns the effect of changes, in stream order, on rows that a lookup of the chain found."""
        found = Redo()
        images: _Images = {} if self._identity_of is None else {self._identity_of(row): row for row in rows}
        for delta in unseen:
            removed, added = self._function.delta(delta.removed, delta.added)
            held = [self._image(images, before) for before, _ in delta.partial]
            removed += [row for row in held if row is not None]
            for (before, after), row in zip(delta.partial, held, strict=True):
                if before is not None and self._identity(before) is None:
                    found.unknown.append(self.shown(before))
                complete = None if after is None else self._completed(after, row)
                if complete is not None:
                    added += self._function.rows([complete])
                elif after is not None:
                    found.unknown.append(self.shown(after))
            found.unknown += map(self.shown, delta.implied)
            if self._identity_of is not None:
                for row in removed:
                    images.pop(self._identity_of(row), None)
                images.update((self._identity_of(row), row) for row in added)
            found.deltas.append((removed, added))
        return found

    def _image(self, images: _Images, before: Row | None) -> Row | None:
        identity = self._identity(before)
        return None if identity is None else images.get(identity)

    # Rows

    def known_part(self, columns: Columns, row: Row) -> tuple[tuple[int, ...], Key]:
        """Returns the positions in `columns` at which a row of the chain is known, and its key in these."""
        positions = tuple([p for p, column in enumerate(columns) if row[column] is not UNKNOWN])
        return positions, key_function(tuple([columns[p] for p in positions]), self._types)(row)

    def partial_rows(self, deltas: Iterable[TableDelta]) -> list[Row]:
        """Returns the rows of the chain, known in part, that partial and implied changes took away or brought."""
        rows = [row for delta in deltas for change in (*delta.partial, delta.implied) for row in change]
        return [self.shown(row) for row in rows if row is not None]

    def shown(self, row: Row) -> Row:
        """Returns the chain's row of a table's row, known in part."""
        return tuple([UNKNOWN if base is None else row[base] for base in self._base])

    def _identity(self, before: Row | None) -> Key | None:
        if before is None or self._identity_of is None or self.unique is None:
            return None
        row = self.shown(before)
        return None if any(row[column] is UNKNOWN for column in self.unique) else self._identity_of(row)

    def _completed(self, after: Row, held: Row | None) -> Row | None:
        """Returns a new row with the values that it shares with the chain's old row; None if one is still unknown."""
        if self._parametric:
            return None
        if held is not None and UNKNOWN in after:
            values = list(after)
            for column, base in enumerate(self._base):
                if base is not None and values[base] is UNKNOWN:
                    values[base] = held[column]
            after = tuple(values)
        return None if any(after[column] is UNKNOWN for column in self._used) else after


def _every_key(node: Stored) -> Iterator[Target]:
    for cover, coverage in node.coverages().items():
        for key in list(coverage):
            yield node, cover, key
