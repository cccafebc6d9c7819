"""Extents that the engine has to cover for a request."""

from dataclasses import replace

import pytest

from dataflow.engine.events import Ahead, Extent
from dataflow.plan.nodes import OrderTerm, RangeParameter, View
from dataflow.plan.parts import END, START, Cut, Interval
from dataflow.types import ViewId
from service.engine.reads.extents import extent_of
from service.leaf_store.answer import PageWindow
from service.leaf_store.catalog import describe
from service.leaf_store.encoder import ViewEncoder
from service.leaf_store.pages import Place, write_token
from service.leaf_store.request import Values, check_of, request_of
from tests.service.leaf_store.sample_views import BY_AUTHOR, make_view

VOTES = (RangeParameter("least", 3, ">="), RangeParameter("below", 3, "<"))
RANGED = make_view("ranged", {"author": 2}, order=BY_AUTHOR.order, ranges=VOTES)
RESORTED = make_view("resorted", {"author": 2}, order=(OrderTerm(1),), ranges=VOTES, limit_rows=3)
TOP = make_view("top", {"author": 2}, order=BY_AUTHOR.order, limit_rows=3, offset_rows=2)
SIZED = make_view("sized", {"author": 2}, order=BY_AUTHOR.order, limit_parameter="n")
PLAIN = make_view("plain", {"author": 2}, limit_rows=3)
BETWEEN = Interval(Cut(("9",), behind=True), Cut(("2",), behind=True))


@pytest.mark.parametrize(
    ("plan", "values", "window", "factor", "extent"),
    [
        (PLAIN, ("ann",), None, 1, None),
        (BY_AUTHOR, ("ann",), None, 1, None),
        (BY_AUTHOR, ("ann",), PageWindow(10), 1, Ahead(11, START)),
        (BY_AUTHOR, ("ann",), PageWindow(10), 4, Ahead(44, START)),
        (BY_AUTHOR, ("ann",), PageWindow(2_000_000), 1, None),
        (TOP, ("ann",), None, 1, Ahead(5, START)),
        (TOP, ("ann",), PageWindow(2), 1, Ahead(5, START)),
        (TOP, ("ann",), PageWindow(9), 1, Ahead(5, START)),
        (SIZED, ("ann", "7"), None, 1, Ahead(7, START)),
        (SIZED, ("ann", None), None, 1, None),
        (SIZED, ("ann", str(10**18 - 1)), None, 512, None),
        (RANGED, ("ann", "2", "9"), None, 1, BETWEEN),
        (RANGED, ("ann", "2", "9"), PageWindow(3), 1, Ahead(4, Cut(("9",), behind=True))),
        (RESORTED, ("ann", "2", "9"), None, 1, Interval(Cut(("2",), behind=False), Cut(("9",), behind=False))),
    ],
)
def test_extent(plan: View, values: Values, window: PageWindow | None, factor: int, extent: Extent) -> None:
    info = describe(ViewId(1), plan, "[]", "ready", True)
    assert extent_of(info, values, request_of(info, values, window), factor) == extent


def test_extent_behind_a_page() -> None:
    info = describe(ViewId(1), TOP, "[]", "ready", True)
    suffix, _ = ViewEncoder(ViewId(1), TOP).encode(("7", "Seven", "ann", "5"))
    token = write_token(Place(1, 2, suffix), check_of(info, ("ann",)))
    here = Cut(("5", "Seven"), behind=False)
    for window, extent in (
        (PageWindow(1, token), Ahead(2 + 1 + 1, here)),
        (PageWindow(None, token), Ahead(2 + 2, here)),
    ):
        assert extent_of(info, ("ann",), request_of(info, ("ann",), window)) == extent
    everything = replace(info, limit_rows=None)
    rest = request_of(everything, ("ann",), PageWindow(None, token))
    assert extent_of(everything, ("ann",), rest) == Interval(here, END)
    with pytest.raises(ValueError, match="not a token"):
        extent_of(info, ("bob",), request_of(info, ("bob",), PageWindow(None, token)))
