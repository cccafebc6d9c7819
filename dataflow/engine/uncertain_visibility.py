"""Uncertain visibility: rows of a lookup whose snapshot may or may not include a transaction (MySQL 8).

Rows of keys that no such transaction touches are as good as any. Of the others:

- Where the rows have a unique key of their table, every row that the stream touched since the first such transaction is
  replaced by its last image there, unique key by unique key: whatever the snapshot saw of its changes, that is the row
  as it is now (DBLog: Andreakis and Papapanagiotou, 2020).
- Otherwise, state rows of aggregates included, the keys are looked up again.

*Invariants*: the ring has every transaction behind one that is unsure (`ring`), so a last image there is the last one.

Not here: how often a key is looked up again (`demands`), how rows are installed (`installation`).
"""

from collections.abc import Collection
from dataclasses import dataclass

from dataflow.engine.chain_node import ChainNode
from dataflow.engine.events import LookupDone, TableDelta
from dataflow.engine.flights import LookupQuery
from dataflow.engine.graph import Graph
from dataflow.engine.installation import redo_deltas
from dataflow.engine.nodes import GroupingNode
from dataflow.engine.partial_images import Redo
from dataflow.engine.ring import Ring
from dataflow.plan.parametric import chain_table
from dataflow.scalar import ColumnRef
from dataflow.state.index import key_function
from dataflow.types import Columns, Delta, Key, Row, columns_of


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judgement of a lookup's rows."""

    #: What makes them current.
    redo: list[Delta]
    #: Keys of whose rows nothing can be told.
    again: Collection[Key] = ()
    #: Rows were replaced by their last images.
    replaced: bool = False


class UncertainVisibility:
    """Judges what lookups brought."""

    def __init__(self, ring: Ring, graph: Graph) -> None:
        self._ring = ring
        self._graph = graph

    def judge(self, sent: LookupQuery, result: LookupDone, unseen: list[TableDelta]) -> Verdict:
        """Judges a result, given the changes that its snapshot does not see for sure."""
        chain, snapshot = sent.chain, result.snapshot
        if snapshot.exact:
            if any(delta.partial or delta.implied for delta in unseen):
                return self._redo_partial(sent, result.rows, unseen)
            return Verdict(redo_deltas(sent, unseen))
        if any(map(_hides_rows, unseen)):
            return Verdict([], sent.keys)
        touched = _touched(sent, redo_deltas(sent, self._ring.unsure(chain.table, snapshot)))
        if not touched:
            return Verdict(redo_deltas(sent, unseen))
        unique = self._unique(sent, chain)
        since = self._ring.since_unseen(chain.table, snapshot)
        if unique is None or any(map(_hides_rows, since)):
            return Verdict(redo_deltas(sent, unseen), touched)
        return Verdict([last_images(result.rows, redo_deltas(sent, since), unique)], replaced=True)

    def _redo_partial(self, sent: LookupQuery, rows: list[Row], unseen: list[TableDelta]) -> Verdict:
        """Judges a result, given changes of whose old rows the stream carried a part."""
        images = self._graph.images_of(sent.chain)
        of_groups = isinstance(sent.node, GroupingNode)
        if sent.chain.parametric is not None:
            redo = Redo(redo_deltas(sent, unseen), images.partial_rows(unseen))
        else:
            redo = images.redo([] if of_groups else rows, unseen)
        unknown = redo.unknown
        if of_groups:
            unknown = unknown + [
                images.shown(before) for delta in unseen for before, _ in delta.partial if before is not None
            ]
        again: dict[Key, None] = {}
        ((columns, among),) = sent.source_keys()
        for row in unknown:
            again.update(dict.fromkeys(among.agreeing(*images.known_part(columns, row))))
        return Verdict([delta for delta in redo.deltas if delta[0] or delta[1]], list(again))

    def _unique(self, sent: LookupQuery, chain: ChainNode) -> Columns | None:
        """Positions of a unique key of the table in the rows that were looked up; None if they have none."""
        if isinstance(sent.node, GroupingNode):
            return None
        shown = {c.index: at for at, c in enumerate(chain.relation.columns) if isinstance(c, ColumnRef)}
        keys = chain_table(chain.relation, self._graph.catalog).keys
        return next((tuple(shown[c] for c in key) for key in keys if shown.keys() >= set(key)), None)


def last_images(rows: list[Row], deltas: list[Delta], unique: Columns) -> Delta:
    """Replaces those of `rows` that `deltas`, in stream order, touch by what these leave of them."""
    images: dict[Row, Row | None] = {}
    for removed, added in deltas:
        images.update((columns_of(row, unique), None) for row in removed)
        images.update((columns_of(row, unique), row) for row in added)
    return [row for row in rows if columns_of(row, unique) in images], [
        row for row in images.values() if row is not None
    ]


def _hides_rows(delta: TableDelta) -> bool:
    return delta.truncated or delta.overflow or bool(delta.partial or delta.implied)


def _touched(sent: LookupQuery, deltas: list[Delta]) -> set[Key]:
    """The keys that were looked up and that have rows in `deltas`."""
    key_of = key_function(sent.node.source_columns(sent.columns), sent.chain.types)
    return {key_of(row) for delta in deltas for rows in delta for row in rows}.intersection(sent.keys)
