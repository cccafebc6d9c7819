"""Differences between answers: bags, their order as far as SQL defines it, and ties at a LIMIT."""

import pytest

from dataflow.plan.nodes import Chain, OrderTerm, OutputColumn, View
from dataflow.scalar import ColumnRef
from dataflow.schema import SqlType
from dataflow.types import Row, ViewId
from service.engine.audit.comparison import TIED, Comparison
from service.engine.audit.leaf_copy import CopiedKey
from service.engine.audit.messages import Difference, ViewToAudit
from service.engine.views.registry import ViewPlan
from service.leaf_store.catalog import describe

INT = SqlType("int4", "integer")
ID = ViewId(7)


def comparison(order: bool = False, limit_rows: int | None = None, shown: tuple[int, ...] = (0, 1)) -> Comparison:
    """Compare a view of two numbers, perhaps ordered by the first."""
    view = View(
        "v",
        "SELECT …",
        Chain("t", None, (ColumnRef(0, INT), ColumnRef(1, INT))),
        (),
        tuple(OutputColumn("ab"[column], column) for column in shown),
        (OrderTerm(0),) if order else (),
        limit_rows,
    )
    return Comparison(ViewToAudit(ID, "v", ViewPlan(view, view.sql)), describe(ID, view, None, "ready", True))


def stored(*rows: tuple[int, ...], prefix: bool = False, names: str = "ab") -> CopiedKey:
    texts = [b"{" + b",".join(b'"%c":%d' % (ord(n), v) for n, v in zip(names, row, strict=True)) + b"}" for row in rows]
    return CopiedKey(ID, (), (), texts, prefix)


def rows(*found: tuple[int, ...]) -> list[Row]:
    return [tuple(map(str, row)) for row in found]


def test_bags() -> None:
    compare = comparison().compare
    assert compare(stored((1, 1), (2, 2)), rows((2, 2), (1, 1))) is None
    found = compare(stored((1, 1), (1, 1), (2, 2)), rows((1, 1), (3, 3)))
    assert found == Difference("v", [], ['{"a":3,"b":3}'], ['{"a":1,"b":1}', '{"a":2,"b":2}'], 1, 2)
    assert isinstance(compare(stored(), rows((1, 1))), Difference)


def test_the_order_counts_but_for_rows_that_tie() -> None:
    compare = comparison(order=True).compare
    assert compare(stored((1, 1), (1, 2), (2, 3)), rows((1, 2), (1, 1), (2, 3))) is None
    found = compare(stored((1, 1), (2, 3)), rows((2, 3), (1, 1)))
    assert isinstance(found, Difference)
    assert found.reordered


def test_any_of_the_rows_that_tie_may_be_the_last() -> None:
    compare = comparison(order=True, limit_rows=2).compare
    assert compare(stored((1, 1), (2, 2)), rows((1, 1), (2, 3))) is None
    assert isinstance(compare(stored((1, 1), (2, 2)), rows((1, 1), (3, 2))), Difference)
    assert isinstance(compare(stored((1, 1), (2, 2)), rows((1, 1))), Difference)
    # Without a LIMIT none is left out.
    assert isinstance(comparison(order=True).compare(stored((1, 1), (2, 2)), rows((1, 1), (2, 3))), Difference)


def test_where_readers_do_not_see_what_ties_nothing_is_said() -> None:
    compare = comparison(order=True, limit_rows=2, shown=(1,)).compare
    assert compare(stored((1,), (2,), names="b"), rows((1,), (3,))) == TIED


@pytest.mark.parametrize("more", [(), ((9, 9),)])
def test_of_a_key_that_goes_on_only_the_first_rows_are_there(more: tuple[tuple[int, int], ...]) -> None:
    compare = comparison(order=True).compare
    assert compare(stored((1, 1), (2, 2), prefix=True), rows((1, 1), (2, 2), *more)) is None
    assert isinstance(compare(stored((1, 1), (2, 2), prefix=True), rows((0, 0), (1, 1), (2, 2), *more)), Difference)
