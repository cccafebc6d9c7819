"""Shared tables: layouts for the decoder, and receivers of rows."""

from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from cdc.change import SchemaNotice, TableLayout
from cdc.fanout.shared_tables import SharedTables

OLD = TableLayout(("id", "title"), 1, since=10)
NEW = TableLayout(("id", "name"), 1, since=20)
GONE = SchemaNotice("t", "t was dropped.")
COLUMN = SchemaNotice("t", "Columns of t were dropped: title.", ("title",))


def follow(union: SharedTables[str], receiver: str, layout: TableLayout | None) -> list[tuple[str, SchemaNotice]]:
    """Put a request into effect, with a decoder that looks at once."""
    layouts = {} if layout is None else {"t": layout}
    told = union.displace(receiver, layouts)
    union.looked()
    return told + union.assign(receiver, layouts)


def test_the_oldest_of_equal_layouts_is_used() -> None:
    union: SharedTables[str] = SharedTables()
    assert follow(union, "a", OLD) == []
    assert follow(union, "b", replace(OLD, since=15)) == []
    assert union.decoded["t"].since == 10
    assert union.tables("a") == union.tables("b") == {"t"}
    union.forget("a")
    assert union.decoded["t"].since == 10
    union.forget("b")
    assert union.decoded == {}


def test_another_layout_displaces() -> None:
    union: SharedTables[str] = SharedTables()
    follow(union, "a", OLD)
    ((told, notice),) = union.displace("b", {"t": NEW})
    assert (told, notice.table, notice.columns) == ("a", "t", ())
    assert union.tables("a") == frozenset()
    # The decoder has to see that it has gone.
    assert union.decoded == {}
    assert not union.is_ready({"t": NEW})
    assert union.is_ready({"other": OLD})
    union.looked()
    assert union.is_ready({"t": NEW})
    assert union.assign("b", {"t": NEW}) == []
    assert union.decoded == {"t": NEW}


def test_a_layout_that_was_read_again_is_followed_anew() -> None:
    union: SharedTables[str] = SharedTables()
    follow(union, "a", OLD)
    assert union.displace("a", {"t": replace(OLD, since=30)}) == []
    assert union.decoded == {}
    assert not union.is_ready({"t": OLD})


def test_a_fatal_notice_removes_the_table() -> None:
    union: SharedTables[str] = SharedTables()
    follow(union, "a", OLD)
    follow(union, "b", OLD)
    union.record(GONE, 20)
    assert union.tables("a") == union.tables("b") == frozenset()
    assert not union.is_ready({"t": OLD})


def test_notices_on_columns_reach_all_receivers() -> None:
    union: SharedTables[str] = SharedTables()
    follow(union, "a", OLD)
    union.record(COLUMN, 20)
    assert union.tables("a") == {"t"}
    assert follow(union, "b", replace(OLD, since=40)) == [("b", COLUMN)]
    assert union.tables("a") == union.tables("b") == {"t"}


def test_a_table_with_a_notice_that_is_followed_anew_is_checked_again() -> None:
    union: SharedTables[str] = SharedTables()
    follow(union, "a", OLD)
    follow(union, "b", OLD)
    union.record(COLUMN, 20)
    assert [told for told, _ in union.displace("a", {"t": replace(OLD, since=40)})] == ["b"]
    assert union.decoded == {}
    union.looked()
    assert union.assign("a", {"t": replace(OLD, since=40)}) == []
    assert follow(union, "b", replace(OLD, since=50)) == []
    assert union.tables("a") == union.tables("b") == {"t"}


def test_a_receiver_with_an_older_layout_gets_earlier_notices() -> None:
    for notice in (GONE, COLUMN):
        union: SharedTables[str] = SharedTables()
        follow(union, "a", OLD)
        union.record(notice, 20)
        assert union.displace("b", {"t": OLD}) == []
        union.looked()
        assert union.assign("b", {"t": OLD}) == [("b", notice)]
        assert ("t" in union.tables("b")) == bool(notice.columns)
        # The notice does not concern layouts that are read later.
        assert "b" not in dict(follow(union, "b", replace(OLD, since=50)))
        assert union.tables("b") == {"t"}


def test_a_layout_read_after_the_notice_is_accepted() -> None:
    union: SharedTables[str] = SharedTables()
    follow(union, "a", OLD)
    union.record(GONE, 20)
    # The notice may belong to a transaction decoded in part.
    assert follow(union, "b", replace(OLD, since=25)) == [("b", GONE)]
    union.advance(20)
    assert follow(union, "c", replace(OLD, since=25)) == [("c", GONE)]
    union.advance(30)
    assert follow(union, "d", replace(OLD, since=30)) == []
    assert union.tables("d") == {"t"}


def test_a_new_decoder_has_no_layouts() -> None:
    union: SharedTables[str] = SharedTables()
    follow(union, "a", OLD)
    union.record(GONE, 20)
    union.restart()
    assert union.is_ready({"t": OLD})
    assert union.assign("a", {"t": OLD}) == []


class Followers(RuleBasedStateMachine):
    """Two receivers follow, leave and get notices in any order."""

    receivers = st.sampled_from("ab")
    layouts = st.dictionaries(
        st.sampled_from("tu"), st.builds(replace, st.sampled_from([OLD, NEW]), since=st.integers(0, 3))
    )

    def __init__(self) -> None:
        super().__init__()
        self.union: SharedTables[str] = SharedTables()
        #: The tables that each receiver should have.
        self.has: dict[str, dict[str, TableLayout]] = {}
        self.decoder: dict[str, TableLayout] = {}

    def heard(self, told: list[tuple[str, SchemaNotice]]) -> None:
        for receiver, notice in told:
            if not notice.columns:
                self.has[receiver].pop(notice.table, None)

    @rule(receiver=receivers, layouts=layouts)
    def follow(self, receiver: str, layouts: dict[str, TableLayout]) -> None:
        self.heard(self.union.displace(receiver, layouts))
        had = self.has.setdefault(receiver, {})
        for name in [n for n in had if n not in layouts or (had[n], had[n].since) != (layouts[n], layouts[n].since)]:
            del had[name]
        if not self.union.is_ready(layouts):
            self.look()
        self.has[receiver] = dict(layouts)
        self.heard(self.union.assign(receiver, layouts))

    @rule()
    def look(self) -> None:
        self.decoder = dict(self.union.decoded)
        self.union.looked()

    @rule(notice=st.sampled_from([GONE, COLUMN, replace(GONE, table="u"), replace(COLUMN, table="u")]))
    def say(self, notice: SchemaNotice) -> None:
        holders = [r for r, has in self.has.items() if notice.table in has]
        self.union.record(notice, 20)
        self.heard([(holder, notice) for holder in holders])

    @rule(receiver=receivers)
    def leave(self, receiver: str) -> None:
        self.has.pop(receiver, None)
        self.union.forget(receiver)

    @invariant()
    def a_table_is_lost_only_if_told(self) -> None:
        for receiver, has in self.has.items():
            assert self.union.tables(receiver) == has.keys()

    @invariant()
    def all_have_it_as_it_is_decoded(self) -> None:
        assert self.union.decoded.keys() == set().union(*(has.keys() for has in self.has.values()))
        for has in self.has.values():
            for name, layout in has.items():
                assert self.union.decoded[name] == layout


TestFollowers = Followers.TestCase
TestFollowers.settings = settings(max_examples=150, stateful_step_count=30)
