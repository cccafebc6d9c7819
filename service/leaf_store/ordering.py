"""Order of a key's rows as bytes: what sorts like the view's ORDER BY, compiled once per view."""

from collections.abc import Callable, Sequence

from dataflow.plan.nodes import OrderTerm
from dataflow.schema import SqlType
from dataflow.types import Row
from dataflow.values import order_form

_INVERTED = bytes(255 - i for i in range(256))
_NULL_FIRST, _VALUE, _NULL_LAST = b"\x00", b"\x01", b"\x02"

_Term = tuple[int, Callable[[str], bytes], bool, bytes]


def compile_order(order: Sequence[OrderTerm], types: Sequence[SqlType]) -> Callable[[Row], bytes] | None:
    """Row -> bytes that sort as ORDER BY does; None without one. No result is a proper prefix of another."""
    if not order:
        return None
    terms: list[_Term] = [
        (t.column, order_form(types[t.column]), t.descending, _NULL_FIRST if t.nulls_first else _NULL_LAST)
        for t in order
    ]

    def row_order(row: Row) -> bytes:
        parts = []
        for column, form, descending, null in terms:
            text = row[column]
            if text is None:
                parts.append(null)
            else:
                data = form(text)
                parts.append(_VALUE + (data.translate(_INVERTED) if descending else data))
        return b"".join(parts)

    return row_order
