"""Keys of records: no entry's range has another entry's records in it, and rows sort as ORDER BY says."""

from hypothesis import given
from hypothesis import strategies as st

from dataflow.plan.nodes import OrderTerm
from dataflow.state.ordering import Ordering
from dataflow.types import ViewId
from service.leaf_store.layout import MAX_ENTRY_BYTES, MAX_KEY_BYTES, entry_key, row_key, view_head
from tests.service.leaf_store.sample_views import INT8, TEXT

TEXTS = st.text(max_size=12) | st.text(alphabet="a\0\x01", max_size=6) | st.integers(200, 600).map(lambda n: "k" * n)


@given(st.tuples(TEXTS, TEXTS), st.tuples(TEXTS, TEXTS))
def test_entries_are_prefix_free(one: tuple[str, str], other: tuple[str, str]) -> None:
    head = view_head(ViewId(3))
    first, second = entry_key(head, one), entry_key(head, other)
    assert len(first) <= MAX_ENTRY_BYTES
    assert (first == second) == (one == other)
    if one != other:
        assert not first.startswith(second)
        assert not second.startswith(first)


@given(st.binary(min_size=16, max_size=900), st.binary(min_size=16, max_size=900))
def test_row_keys_are_short_and_distinct(one: bytes, other: bytes) -> None:
    entry = entry_key(view_head(ViewId(3)), ("k" * 300,))
    first, second = row_key(entry, one), row_key(entry, other)
    assert max(len(first), len(second)) <= MAX_KEY_BYTES
    assert (first == second) == (one == other)


ROWS = st.lists(
    st.tuples(st.none() | st.integers(-300, 300).map(str), st.none() | st.text(alphabet="ab\x00\x7fé", max_size=3))
)


@given(ROWS, st.booleans(), st.booleans(), st.booleans())
def test_order_is_that_of_the_model(
    rows: list[tuple[str | None, str | None]], descending: bool, nulls_first: bool, text_descending: bool
) -> None:
    terms = (OrderTerm(0, descending, nulls_first), OrderTerm(1, text_descending))
    order = Ordering(terms, (INT8, TEXT)).place_of_row

    def number(row: tuple[str | None, str | None]) -> tuple[bool, int]:
        value = None if row[0] is None else int(row[0])
        return (value is None) != nulls_first, 0 if value is None else -value if descending else value

    model = list(rows)
    # The second term first: Python's sort is stable. Its NULLs are last.
    model.sort(key=lambda row: (row[1] or "").encode(), reverse=text_descending)
    model.sort(key=lambda row: row[1] is None)
    model.sort(key=number)
    assert [order(row) for row in sorted(rows, key=order)] == [order(row) for row in model]
    assert Ordering(terms, (INT8, TEXT)).places_of_rows(rows) == [order(row) for row in rows]
    assert Ordering((), ()).places_of_rows(rows) == [b"" for _ in rows]
