"""Sets of global transaction ids are sets; their texts are the servers' own."""

from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cdc.gtid import (
    GtidPosition,
    GtidSet,
    format_gtid,
    looks_like_gtids,
    mariadb_id,
    parse_gtid,
    parse_gtids,
    source_of,
    transaction_id,
)

A, B = "3e11fa47-71ca-11e1-9e33-c80aa9429562", "f0000000-0000-0000-0000-000000000000"
SOURCES = [source_of(UUID(uuid).bytes, tag) for uuid in (A, B) for tag in ("", "blue", "a_1")]

transactions = st.builds(transaction_id, st.sampled_from(SOURCES), st.integers(1, 12))
bags = st.lists(transactions, max_size=30)
positions = st.dictionaries(st.integers(0, 3), st.tuples(st.integers(1, 3), st.integers(0, 9)), max_size=4)


@given(bags, transactions)
def test_a_set_contains_its_transactions(members: list[int], other: int) -> None:
    found = GtidSet.of(members)
    assert all(member in found for member in members)
    assert (other in found) == (other in set(members))
    assert bool(found) == bool(members)


@given(bags, bags)
def test_unions_and_subsets(one: list[int], two: list[int]) -> None:
    a, b = GtidSet.of(one), GtidSet.of(two)
    assert a | b == GtidSet.of(one + two) == b | a
    assert (a <= b) == (set(one) <= set(two))
    assert a <= (a | b)
    assert (a == b) == (set(one) == set(two))
    assert hash(a | b) == hash(b | a)


@given(bags, transactions)
def test_one_more(members: list[int], other: int) -> None:
    assert GtidSet.of(members).add(other) == GtidSet.of([*members, other])


@given(bags)
def test_a_set_reads_what_it_prints(members: list[int]) -> None:
    found = GtidSet.of(members)
    assert GtidSet.parse(str(found)) == found


@given(transactions)
def test_an_id_reads_what_it_prints(transaction: int) -> None:
    assert parse_gtid(format_gtid(transaction)) == transaction
    assert GtidSet.parse(format_gtid(transaction)) == GtidSet.of([transaction])


@pytest.mark.parametrize(
    ("printed", "text"),
    [
        ("", ""),
        (f"{A}:1-5", f"{A}:1-5"),
        (f"{A.upper()}:1-5:7", f"{A}:1-5:7"),
        (f"{B}:1,\n{A}:3:1-2", f"{A}:1-3,{B}:1"),
        (f"{A}:1-3:5-4:4-9", f"{A}:1-9"),
        (f"{A}:1-3:Blue:4:6:green:2", f"{A}:1-3:blue:4:6:green:2"),
        (f"{A}:9223372036854775807", f"{A}:9223372036854775807"),
    ],
)
def test_what_mysql_prints(printed: str, text: str) -> None:
    assert str(GtidSet.parse(printed)) == text


def test_what_is_owned_is_printed_with_its_threads() -> None:
    assert str(GtidSet.parse_owned(f"{A}:3#12:5#77,{B}:1#4")) == f"{A}:3:5,{B}:1"


@pytest.mark.parametrize("text", ["x", "1-2-3", f"{A}:0", f"{A}:1-", f"{A}:9bad:1", f"{A}:9223372036854775808"])
def test_invalid_sets(text: str) -> None:
    with pytest.raises(ValueError, match="is not a set of transactions such as"):
        GtidSet.parse(text)


@pytest.mark.parametrize("text", ["", A, f"{A}:0", f"{A}:x", f"{A}:a:b:1", "7"])
def test_invalid_ids(text: str) -> None:
    with pytest.raises(ValueError, match="is not the id of a transaction such as"):
        parse_gtid(text)


def position_of(last: dict[int, tuple[int, int]]) -> GtidPosition:
    return GtidPosition({domain: mariadb_id(domain, *rest) for domain, rest in last.items()})


@given(positions, positions)
def test_positions_of_mariadb(one: dict[int, tuple[int, int]], two: dict[int, tuple[int, int]]) -> None:
    a, b = position_of(one), position_of(two)
    assert GtidPosition.parse(str(a)) == a
    assert (a <= b) == all(domain in two and number <= two[domain][1] for domain, (_, number) in one.items())
    assert a <= (a | b)
    assert b <= (a | b)


def test_a_position_contains_earlier_transactions_of_its_domain() -> None:
    position = GtidPosition.parse("0-1-100,7-2-5")
    assert mariadb_id(0, 3, 100) in position
    assert mariadb_id(0, 1, 101) not in position
    assert mariadb_id(1, 1, 1) not in position
    assert str(position.add(mariadb_id(0, 2, 101))) == "0-2-101,7-2-5"
    assert position.add(mariadb_id(7, 1, 4)) == position
    assert not GtidPosition.parse("")


@pytest.mark.parametrize("text", ["x", "0-1", "0-1-2,0-1-3", "0-1--2", "4294967296-1-1"])
def test_invalid_positions(text: str) -> None:
    with pytest.raises(ValueError, match="is not a position such as"):
        GtidPosition.parse(text)


@given(bags, bags)
def test_many_more(members: list[int], others: list[int]) -> None:
    assert GtidSet.of(members).extended(others) == GtidSet.of([*members, *others])


def test_a_position_advances_in_each_domain() -> None:
    position = GtidPosition.parse("0-1-100").extended(
        [mariadb_id(0, 1, 101), mariadb_id(0, 2, 90), mariadb_id(3, 1, 1)]
    )
    assert str(position) == "0-1-101,3-1-1"
    assert position.extended([]) == position


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("0-1-42", GtidPosition),
        ("0-1-42, 1-1-7", GtidPosition),
        (f"{A}:7", GtidSet),
        (f"{A.upper()}:1-5:7", GtidSet),
        (f"{A}:1-3, {B}:2", GtidSet),
        (f"{A}:blue:7", GtidSet),
    ],
)
def test_global_ids_are_recognized(text: str, kind: type) -> None:
    assert looks_like_gtids(text)
    assert isinstance(parse_gtids(text), kind)


@pytest.mark.parametrize("text", ["", "12:345", "binlog.000012:345", "host-1.example-bin.000001:4", "0/16B3748", "0-1"])
def test_other_versions_are_no_global_ids(text: str) -> None:
    assert not looks_like_gtids(text)


@pytest.mark.parametrize("text", ["0-1-99999999999999999999", "0-9999999999-1", "0-1-1,0-1-2", f"{A}:0", f"{A}:x-y"])
def test_impossible_global_ids(text: str) -> None:
    assert looks_like_gtids(text)
    with pytest.raises(ValueError, match="is not a"):
        parse_gtids(text)
