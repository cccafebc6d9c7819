"""Encoding of a view's rows for the leaf store, compiled once per view."""

from collections import Counter
from collections.abc import Iterable, Sequence
from operator import add, eq
from struct import Struct

from dataflow.plan.nodes import View, column_types
from dataflow.plan.parts import WHOLE, Interval
from dataflow.schema import SqlType
from dataflow.state.ordering import Ordering
from dataflow.types import Row, ViewId
from service.leaf_store.layout import HASH_BYTES, Places, content_hash, view_head
from service.leaf_store.render import compile_row, compile_rows

TEXT = SqlType("text", "text")
#: Follows the order bytes if the store's order is not the answer's: how many bytes precede the answer's order.
_OWN_BYTES = Struct(">I")
_TAIL_BYTES = _OWN_BYTES.size + HASH_BYTES


class ViewEncoder:
    """Row -> (suffix, JSON) of one view. The last 16 bytes of a suffix are the row's hash.

    Rows with equal JSON and equal order have the same suffix; the leaf counts them.
    """

    __slots__ = (
        "_answer_order",
        "_hash_order",
        "_ordering",
        "_row_json",
        "_rows_json",
        "_store_order",
        "bigint_text",
        "head",
        "stores_null",
        "view",
    )

    def __init__(self, view: ViewId, plan: View, refreshed: bool = False, bigint_text: bool = False) -> None:
        types = column_types(plan.relation)
        self.view = view
        self.bigint_text = bigint_text
        self.head = view_head(view)
        #: Whether a key with NULL has rows of its own.
        self.stores_null = refreshed or any(parameter.takes_null for parameter in plan.parameters)
        # Of rows that answers are computed from, the database's own texts are stored.
        texts = None if plan.at_read is None else TEXT
        columns = [(output.name, output.column, texts or types[output.column]) for output in plan.output]
        self._row_json = compile_row(columns, bigint_text)
        self._rows_json = compile_rows(columns, bigint_text)
        self._ordering = Ordering(plan.storage_order, types)
        direct = plan.is_direct
        # Where the order is not the store's, that has the range's column before it.
        order = plan.leaf_order if direct else plan.leaf_order[1:]
        self._answer_order = Ordering(order, types) if order else None
        self._store_order = None if direct else Ordering(plan.storage_order[:1], types)
        # If rows are ordered by columns that readers do not see, another order of the same rows is another answer.
        shown = {output.column for output in plan.output}
        self._hash_order = any(term.column not in shown for term in plan.order)

    def encode(self, row: Row) -> tuple[bytes, bytes]:
        """Return the row's suffix and JSON."""
        json = self._row_json(row)
        if self._answer_order is None:
            return content_hash(json), json
        order = self._answer_order.place_of_row(row)
        digest = content_hash(order + json if self._hash_order else json)
        if self._store_order is None:
            return order + digest, json
        own = self._store_order.place_of_row(row)
        return own + order + _OWN_BYTES.pack(len(own)) + digest, json

    def _encode_all(self, rows: Iterable[Row]) -> Iterable[tuple[bytes, bytes]]:
        """Return the suffixes and JSON of many rows."""
        rows = list(rows)
        if len(rows) == 1:
            return [self.encode(rows[0])]
        jsons = self._rows_json(rows)
        if self._answer_order is None:
            return zip(map(content_hash, jsons), jsons, strict=True)
        orders = self._answer_order.places_of_rows(rows)
        digests = map(content_hash, map(add, orders, jsons) if self._hash_order else jsons)
        if self._store_order is not None:
            owns = self._store_order.places_of_rows(rows)
            orders = [own + order + _OWN_BYTES.pack(len(own)) for own, order in zip(owns, orders, strict=True)]
        return zip(map(add, orders, digests), jsons, strict=True)

    def encode_sorted(self, rows: Iterable[Row]) -> list[tuple[bytes, bytes]]:
        """Return suffix and JSON of rows, in the order of the store: equal ones follow each other."""
        return sorted(self._encode_all(rows))

    def encode_bag(self, rows: Iterable[Row]) -> list[tuple[bytes, bytes, int]]:
        """Return suffix, JSON and multiplicity of the distinct rows of a bag, in the order of the store."""
        items = self.encode_sorted(rows)
        return counted(items) if has_copies(items) else [(suffix, json, 1) for suffix, json in items]

    def encode_answer(self, rows: Iterable[Row]) -> list[tuple[bytes, bytes, int]]:
        """Encode as `encode_bag`, but keep the order of the rows if it depends on columns that readers do not see."""
        return counted(self._encode_all(rows)) if self._hash_order else self.encode_bag(rows)

    def places(self, covered: Sequence[Interval]) -> list[Places]:
        """Return the places of the intervals' ends among suffixes; none for the whole key."""
        if tuple(covered) == (WHOLE,):
            return []
        return [(self._ordering.place(start) or b"", self._ordering.place(end)) for start, end in covered]


def has_copies(items: Sequence[tuple[bytes, bytes]]) -> bool:
    """Return whether any of these rows, which are sorted, occurs more than once."""
    return any(map(eq, items, items[1:]))


def counted(items: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes, int]]:
    """Return distinct rows with their multiplicities."""
    return [(suffix, json, n) for (suffix, json), n in Counter(items).items()]


def answer_suffix(suffix: bytes) -> bytes:
    """Return the sort key of the answer's order, from a suffix of a view whose answers are sorted otherwise than its
    store."""
    (own,) = _OWN_BYTES.unpack_from(suffix, len(suffix) - _TAIL_BYTES)
    return suffix[own:-_TAIL_BYTES] + suffix[-HASH_BYTES:]
