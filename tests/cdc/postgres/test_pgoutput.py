"""The decoder on bytes: messages as the protocol's manual has them, and a recorded stream."""

from pathlib import Path
from struct import pack

import pytest

from cdc.change import FORMER_COLUMN, UNKNOWN, SchemaNotice, TableChange, TableLayout
from cdc.postgres.pgoutput import Decoder, MalformedStream
from tests.cdc.postgres.messages import (
    COLUMNS,
    OID,
    UNCHANGED,
    begin,
    commit,
    decode,
    delete,
    insert,
    message,
    relation,
    truncate,
    tuple_of,
    update,
)

NAME = "public.items"
ROW = ("1", "a", "x")
RECORDED = Path(__file__).parents[1] / "recorded" / "pgoutput.bin"


def decoder(layout: TableLayout | None = None, max_rows: int = 1000, near: int = 700) -> Decoder:
    made = Decoder(near, max_rows)
    made.follow({NAME: layout or TableLayout(COLUMNS, OID)})
    return made


def change(decoder: Decoder, *messages: bytes) -> TableChange:
    """The change of the one table in the one transaction of these messages."""
    (only,) = decode(decoder, begin(), relation(), *messages, commit())
    return only.tables[NAME]


def test_rows() -> None:
    """Texts are UTF-8, NULL is None, and rows of any length of text come through."""
    long = "é" * 70_000
    assert change(decoder(), insert("1", None, ""), insert("2", long, "žluť")) == TableChange(
        [], [("1", None, ""), ("2", long, "žluť")]
    )
    assert change(decoder(), update(ROW, ("2", "a", None))) == TableChange([ROW], [("2", "a", None)])
    assert change(decoder(), delete(*ROW)) == TableChange([ROW], [])


def test_transactions_have_wide_ids_and_ends() -> None:
    """Also across the border of an epoch."""
    made = decoder(near=2**32 - 2)
    first, second = decode(
        made, relation(), begin(2**32 - 1, 100), insert(*ROW), commit(100), begin(3, 200), insert(*ROW), commit(200)
    )
    assert (first.id, first.end) == (2**32 - 1, 108)
    assert (second.id, second.end) == (2**32 + 3, 208)
    assert made.position == 208


def test_columns_are_found_by_name() -> None:
    """The server's order and other columns do not matter."""
    made = decoder(TableLayout(("name", "body"), OID))
    sent = relation(("id", "name", "more", "body"))
    (only,) = decode(made, begin(), sent, insert("1", "a", "m", "x"), commit())
    assert only.tables[NAME].added == [("a", "x")]
    one = decoder(TableLayout(("body",), OID))
    (only,) = decode(one, begin(), sent, insert("1", "a", "m", "x"), commit())
    assert only.tables[NAME].added == [("x",)]


def test_unchanged_values_are_the_old_row_s() -> None:
    """By the server's column, whatever the layout's order."""
    made = decoder(TableLayout(("body", "id"), OID))
    updates = [update(ROW, ("2", UNCHANGED, UNCHANGED)), update(("3", "a", None), ("4", "b", UNCHANGED))]
    (only,) = decode(made, begin(), relation(), *updates, commit())
    assert only.tables[NAME] == TableChange([("x", "1"), (None, "3")], [("x", "2"), (None, "4")])


@pytest.mark.parametrize(
    ("messages", "expected"),
    [
        ([insert(*ROW), delete(*ROW)], None),
        ([delete(*ROW), insert(*ROW)], None),
        ([update(ROW, ROW)], None),
        ([insert("1", "a", "x"), update(ROW, ("1", "b", "x"))], TableChange([], [("1", "b", "x")])),
        ([insert(*ROW), insert(*ROW), delete(*ROW)], TableChange([], [ROW])),
        ([delete(*ROW), delete(*ROW), insert(*ROW)], TableChange([ROW], [])),
        ([insert(*ROW), truncate(OID)], TableChange(truncated=True)),
        ([truncate(OID), insert(*ROW), delete(*ROW)], TableChange(truncated=True)),
        ([truncate(OID), insert("2", "b", "y"), update(("2", "b", "y"), ROW)], TableChange([], [ROW], truncated=True)),
    ],
)
def test_only_net_changes_are_delivered(messages: list[bytes], expected: TableChange | None) -> None:
    """Rows that are added and removed in one transaction cancel; a transaction without effect is none."""
    made = decoder()
    told = decode(made, begin(), relation(), *messages, commit())
    assert [t.tables for t in told] == ([] if expected is None else [{NAME: expected}])
    assert made.position == 108


def test_overflow() -> None:
    """A transaction over the limit holds no rows, of any table; the next one does."""
    made = decoder(max_rows=3)
    made.follow({NAME: TableLayout(COLUMNS, OID), "public.late": TableLayout(COLUMNS, 9)})
    huge, small = decode(
        made,
        begin(),
        relation(),
        *[insert(*ROW)] * 4,
        relation(name="late", oid=9),
        insert(*ROW, oid=9),
        truncate(OID),
        commit(),
        begin(),
        insert(*ROW),
        commit(),
    )
    assert huge.tables == {NAME: TableChange(overflow=True), "public.late": TableChange(overflow=True)}
    assert small.tables == {NAME: TableChange([], [ROW])}


def test_overflow_by_bytes() -> None:
    """Few rows can be large."""
    made = Decoder(700, 1000, max_transaction_bytes=10_000)
    made.follow({NAME: TableLayout(COLUMNS, OID)})
    (huge,) = decode(made, begin(), relation(), *[insert("1", "x" * 3000, None)] * 4, commit())
    assert huge.tables == {NAME: TableChange(overflow=True)}


def test_truncated_rows_do_not_count() -> None:
    """Rows that a TRUNCATE removed do not count."""
    rows = [insert(*ROW)] * 3
    assert change(decoder(max_rows=4), *rows, truncate(OID), *rows).added == [ROW] * 3


def test_not_followed() -> None:
    """Other tables, type names, origins and logical messages say nothing, but move the position."""
    made = decoder()
    message = b"M" + pack("!BQ", 1, 100) + b"upquery\0" + pack("!I", 0)
    assert (
        decode(
            made,
            begin(),
            relation(name="other", oid=7),
            insert(*ROW, oid=7),
            truncate(7),
            message,
            b"Y",
            b"O",
            commit(),
        )
        == []
    )
    assert made.position == 108
    assert made.take_notices() == []


def test_keepalives_do_not_pass_a_transaction_in_part() -> None:
    """Between Begin and Commit the position stays; it never goes back."""
    made = decoder()
    made.advance(50)
    assert made.position == 50
    decode(made, begin())
    made.advance(500)
    assert made.position == 50
    decode(made, commit())
    made.advance(90)
    assert made.position == 108


@pytest.mark.parametrize(
    ("identity", "why"),
    [
        ("d", "public.items has no primary key, or one that is DEFERRABLE, and no other replica identity"),
        ("n", "The replica identity of public.items is NOTHING"),
        ("i", "The index of the replica identity of public.items was dropped or is not valid"),
    ],
)
def test_a_table_without_an_identity(identity: str, why: str) -> None:
    """The notice has the reason and the statement, once."""
    made = decoder()
    found = decode(
        made, begin(), relation(identity=identity, key=()), insert(*ROW), commit(), begin(), insert(*ROW), commit()
    )
    assert [c for t in found for c in t.tables.values() if not c.overflow] == []
    (notice,) = made.take_notices()
    assert notice == SchemaNotice(NAME, notice.reason)
    assert notice.reason.startswith(f"{why}, so a publication would make its updates and deletes fail.")
    assert "ALTER TABLE public.items REPLICA IDENTITY FULL;" in notice.reason
    (again,) = decode(made, begin(), relation(), insert(*ROW), commit())
    assert again.tables[NAME].added == [ROW]


def test_old_rows_in_part() -> None:
    """With an identity of some columns, old rows have these only, and unchanged TOASTed values are unknown."""
    (only,) = decode(
        decoder(),
        begin(),
        relation(identity="d", key=("id",)),
        insert("1", "a", "x"),
        b"U" + pack("!I", OID) + b"N" + tuple_of(("2", "b", UNCHANGED)),
        update(("3", None, None), ("4", "c", "z"), marker=b"K"),
        delete("5", None, None, marker=b"K"),
        update(("6", None, None), ("7", "d", UNCHANGED), marker=b"K"),
        b"U" + pack("!I", OID) + b"N" + tuple_of(("1", "e", UNCHANGED)),
        commit(),
    )
    assert only.tables[NAME] == TableChange(
        added=[("1", "e", "x")],
        partial=[
            (("2", UNKNOWN, UNKNOWN), ("2", "b", UNKNOWN)),
            (("3", UNKNOWN, UNKNOWN), ("4", "c", "z")),
            (("5", UNKNOWN, UNKNOWN), None),
            (("6", UNKNOWN, UNKNOWN), ("7", "d", UNKNOWN)),
        ],
    )


KEYED = relation(identity="d", key=("id",))
INDEXED = relation(identity="i", key=("name",))
WHOLE = relation()
#: The same row, updated by each identity, whose columns alone are in its old tuple.
BY_KEY = (KEYED, update(("1", None, None), ("2", "a", "x"), marker=b"K"))
BY_INDEX = (INDEXED, update((None, "a", None), ("2", "b", "x"), marker=b"K"))
WHOLLY = (WHOLE, update(("2", "b", "x"), ("2", "b", "y")))


@pytest.mark.parametrize(
    "messages",
    [
        (*BY_KEY, *BY_INDEX),
        (*BY_INDEX, KEYED, delete("2", None, None, marker=b"K")),
        (*BY_KEY, *BY_INDEX, KEYED, delete("2", None, None, marker=b"K")),
        (*BY_KEY, INDEXED, delete(None, "a", None, marker=b"K")),
        (KEYED, insert(*ROW), INDEXED, insert("2", "b", "x")),
        (*BY_KEY, *WHOLLY),
        (*WHOLLY, *BY_KEY),
        (*BY_INDEX, *WHOLLY, *BY_KEY),
    ],
)
def test_an_identity_that_changes_within_a_transaction(messages: tuple[bytes, ...]) -> None:
    """Old rows by different identities do not mix: any row may have changed."""
    made = decoder()
    (only,) = decode(made, begin(), *messages, commit())
    assert only.tables[NAME] == TableChange(overflow=True)
    (after,) = decode(made, begin(), INDEXED, delete(None, "b", None, marker=b"K"), commit())
    assert after.tables[NAME] == TableChange(partial=[((UNKNOWN, "b", UNKNOWN), None)])


def test_an_identity_that_is_stated_again_within_a_transaction() -> None:
    """Other alterations of the table repeat its Relation message."""
    deleted = delete("2", None, None, marker=b"K")
    (only,) = decode(decoder(), begin(), *BY_KEY, KEYED, deleted, commit())
    assert only.tables[NAME] == TableChange(partial=[(("1", UNKNOWN, UNKNOWN), None)])


def test_a_row_without_its_old_values() -> None:
    """A change that lacks the old row although the identity is full makes any row of the table a changed one."""
    for changed in (b"U" + pack("!I", OID) + b"N" + tuple_of(ROW), delete("1", None, None, marker=b"K")):
        (only,) = decode(decoder(), begin(), relation(), changed, commit())
        assert only.tables[NAME] == TableChange(overflow=True)


def test_types_are_compared_where_the_layout_has_them() -> None:
    """A notice names a column of another type; rows have its new text."""
    made = decoder(TableLayout(COLUMNS, OID, type_ids=((25, -1),) * 3))
    (only,) = decode(made, begin(), relation(kind=23), insert(*ROW), commit())
    assert only.tables[NAME].added == [ROW]
    assert made.take_notices()[0].columns == COLUMNS


def test_text_and_varchar_are_one_type() -> None:
    made = decoder(TableLayout(COLUMNS, OID, type_ids=((1043, 44), (25, -1), (1043, -1))))
    decode(made, begin(), relation(kind=1043), insert(*ROW), commit())
    assert made.take_notices() == []


def extended() -> TableLayout:
    """``name`` was dropped, ``kind`` was added, both before position 150."""
    former = TableLayout(COLUMNS, OID, ((25, -1),) * 3, (1, 2, 3))
    return TableLayout(
        ("id", f"{FORMER_COLUMN}1", "body", "kind"),
        OID,
        ((25, -1), (0, 0), (25, -1), (25, -1)),
        (1, 0, 3, 4),
        former=former,
        extended=150,
    )


def test_an_extended_layout_keeps_the_places_of_columns() -> None:
    """Rows of before have no value for the new columns, and nothing is said of that."""
    made = decoder(extended())
    (before, after) = decode(
        made,
        begin(700, 100),
        relation(),
        insert(*ROW),
        commit(100),
        relation(("id", "body", "kind")),
        begin(701, 160),
        insert("2", "y", "k"),
        commit(160),
    )
    assert before.tables[NAME].added == [("1", None, "x", None)]
    assert after.tables[NAME].added == [("2", None, "y", "k")]
    assert made.take_notices() == []


def test_a_column_that_an_extended_layout_keeps_is_missed() -> None:
    """At once, also before the position where the layout was extended."""
    made = decoder(extended())
    decode(made, begin(700, 100), relation(("id", "kind")), insert("2", "k"), commit(100))
    assert [notice.columns for notice in made.take_notices()] == [("body",)]


def test_rows_of_a_former_layout_are_widened() -> None:
    layout = extended()
    change = TableChange([ROW], [], layout=layout.former)
    assert change.widen(layout)
    assert change == TableChange([(*ROW, None)], [])
    assert change.has_layout(layout)
    assert not TableChange([ROW], [], layout=TableLayout(COLUMNS, OID)).widen(layout)


def test_rows_from_before_the_layout() -> None:
    """They are dropped without a word, whatever the table was like; later ones are taken."""
    made = decoder(TableLayout(COLUMNS, OID, since=150))
    told = decode(
        made,
        begin(700, 100),
        relation(identity="d"),
        insert(*ROW),
        commit(100),
        begin(701, 150),
        relation(),
        insert(*ROW),
        commit(150),
    )
    assert [t.id for t in told] == [701]
    assert made.take_notices() == []


def test_layouts_change_between_transactions() -> None:
    """Layouts do not change within a transaction."""
    made = decoder()
    decode(made, begin(), relation(), insert(*ROW))
    made.follow({NAME: TableLayout(("name",), OID)})
    (first, second) = decode(made, insert("2", "b", "y"), commit(), begin(), insert(*ROW), commit())
    assert first.tables[NAME].added == [ROW, ("2", "b", "y")]
    assert second.tables[NAME].added == [("a",)]
    made.follow({})
    assert decode(made, begin(), insert(*ROW), commit()) == []


def test_changes_have_their_layout() -> None:
    made = decoder()
    before, after = TableLayout(COLUMNS, OID), TableLayout(("name",), OID)
    decode(made, begin(), relation())
    made.follow({NAME: after})
    (first, second) = decode(made, insert(*ROW), commit(), begin(), insert(*ROW), commit())
    assert (first.tables[NAME].layout, second.tables[NAME].layout) == (before, after)


def test_notices_are_repeated_for_tables_followed_anew() -> None:
    """Also if it is the same as before, and nothing was decoded in between."""
    layout = TableLayout(COLUMNS, OID, type_ids=((25, -1),) * 3)
    made = decoder(layout)
    decode(made, begin(), relation(kind=23), insert(*ROW), commit())
    assert made.take_notices()
    decode(made, begin(), insert(*ROW), commit())
    assert not made.take_notices()
    made.follow({})
    made.follow({NAME: layout})
    decode(made, begin(), insert(*ROW), commit())
    assert made.take_notices()


@pytest.mark.parametrize(
    "message",
    [
        b"I",
        b"I" + pack("!I", 99) + b"N",
        insert(*ROW)[:-1],
        insert(UNCHANGED, "a", "x"),
        b"?",
        b"",
        relation()[:20],
        insert("1", "a", "x")[:9] + b"\0\3t" + pack("!I", 1) + b"\xff" + b"nn",
    ],
)
def test_malformed(message: bytes) -> None:
    """Bytes that this protocol does not send are an error of their own."""
    made = decoder()
    decode(made, begin(), relation())
    with pytest.raises(MalformedStream):
        made.feed(message)


def test_a_recorded_stream() -> None:
    """Messages of PostgreSQL 18; `recorded/README.md` has the statements."""
    made = Decoder(750, 1000)
    made.follow(
        {"public.stories": TableLayout(("id", "title", "votes")), "public.votes": TableLayout(("story", "who"))}
    )
    data = RECORDED.read_bytes()
    told, at = [], 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big")
        told += decode(made, data[at + 4 : at + 4 + size])
        at += 4 + size
    stories, votes = "public.stories", "public.votes"
    assert [t.tables for t in told] == [
        {stories: TableChange([], [("1", "Dataflow", "0"), ("2", "Café ☕", None)])},
        {
            stories: TableChange([("1", "Dataflow", "0")], [("1", "Dataflow", "1")]),
            votes: TableChange([], [("1", "anna")]),
        },
        {stories: TableChange([("2", "Café ☕", None)], [("3", "Café ☕", None)])},
        {votes: TableChange([("1", "anna")], [])},
        {stories: TableChange(truncated=True), votes: TableChange(truncated=True)},
    ]
    assert [t.end for t in told] == sorted(t.end for t in told)
    assert made.take_notices() == []


def test_a_transaction_that_alters_the_schema_is_marked() -> None:
    """Also one without rows; the next one does not. Other messages say nothing."""
    made = decoder()
    (only,) = decode(made, begin(7, 100), message("upquery.ddl"), commit(100))
    assert (only.id, only.end, only.tables, made.altered) == (7, 108, {}, True)
    assert not decode(made, begin(8, 200), message("upquery"), message("other", "17"), commit(200))
    assert not made.altered
    (only,) = decode(made, begin(9, 300), relation(), insert(*ROW), message("upquery.ddl"), commit(300))
    assert (only.tables[NAME].added, made.altered) == ([ROW], True)
    decode(made, begin(10, 400), insert(*ROW), commit(400))
    assert not made.altered
    assert not made.take_notices()


def test_changes_of_an_unlogged_table_are_unknown() -> None:
    made = decoder()
    decode(made, begin(), message("upquery.ddl", f"{OID + 1} {OID}"), commit())
    (notice,) = made.take_notices()
    assert (notice.table, notice.columns) == (NAME, ())
    assert "unlogged" in notice.reason
