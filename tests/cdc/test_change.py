"""Changes of a table whose layout was extended since their rows were read."""

from dataclasses import replace

from cdc.change import UNKNOWN, TableChange, TableLayout

FORMER = TableLayout(("id", "name"), 1)
EXTENDED = replace(FORMER, columns=("id", "name", "more"), former=FORMER)


def test_rows_of_all_kinds_get_the_new_columns() -> None:
    """Old and new rows that the stream carries in part, too: the new values are unknown."""
    change = TableChange([("1", "a")], [("2", "b")], layout=FORMER)
    assert change.widen(EXTENDED)
    assert change == TableChange([("1", "a", None)], [("2", "b", None)])
    partial = TableChange(
        layout=FORMER,
        partial=[(("1", UNKNOWN), ("1", "a")), (("2", UNKNOWN), None), (None, ("3", UNKNOWN))],
    )
    assert partial.widen(EXTENDED)
    assert partial.partial == [
        (("1", UNKNOWN, UNKNOWN), ("1", "a", UNKNOWN)),
        (("2", UNKNOWN, UNKNOWN), None),
        (None, ("3", UNKNOWN, UNKNOWN)),
    ]


def test_rows_of_another_layout_stay() -> None:
    change = TableChange([("1", "a")], layout=replace(FORMER, table_id=2))
    assert not change.widen(EXTENDED)
    assert change.removed == [("1", "a")]
