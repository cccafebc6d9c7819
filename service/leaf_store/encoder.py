"""A view's rows as bytes of the leaf store: everything about a view that can be computed once."""

from collections import Counter
from collections.abc import Iterable

from dataflow.plan.nodes import View, column_types
from dataflow.types import Row, ViewId
from service.leaf_store.layout import content_hash, view_head
from service.leaf_store.ordering import compile_order
from service.leaf_store.render import compile_row


class ViewEncoder:
    """Row -> (suffix, JSON) of one view. The last 16 bytes of a suffix are the row's hash.

    Rows that look the same to readers and sort the same have the same suffix; the leaf counts them.
    """

    __slots__ = ("_hash_order", "_row_json", "_row_order", "head", "plan", "view")

    def __init__(self, view: ViewId, plan: View) -> None:
        types = column_types(plan.relation)
        self.view = view
        self.plan = plan
        self.head = view_head(view)
        self._row_json = compile_row([(output.name, output.column, types[output.column]) for output in plan.output])
        self._row_order = compile_order(plan.order, types)
        # Where readers do not see what rows are ordered by, another order of the same rows is another answer.
        shown = {output.column for output in plan.output}
        self._hash_order = any(term.column not in shown for term in plan.order)

    def encode(self, row: Row) -> tuple[bytes, bytes]:
        """The row's suffix and JSON."""
        json = self._row_json(row)
        if self._row_order is None:
            return content_hash(json), json
        order = self._row_order(row)
        return order + content_hash(order + json if self._hash_order else json), json

    def encode_bag(self, rows: Iterable[Row]) -> list[tuple[bytes, bytes, int]]:
        """Suffix, JSON and multiplicity of the distinct rows of a bag, in order."""
        counts = Counter(map(self.encode, rows))
        return sorted((suffix, json, n) for (suffix, json), n in counts.items())

    def encode_answer(self, rows: Iterable[Row]) -> list[tuple[bytes, bytes, int]]:
        """As `encode_bag`, for rows in the order of an answer, which is kept where readers do not see what makes it."""
        if not self._hash_order:
            return self.encode_bag(rows)
        return [(suffix, json, n) for (suffix, json), n in Counter(map(self.encode, rows)).items()]
