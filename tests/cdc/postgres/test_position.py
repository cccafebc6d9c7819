"""LSNs, the width of transaction ids, and what snapshots say."""

import pytest

from cdc.postgres.position import PostgresSnapshot, format_lsn, parse_lsn, widen


def test_lsns_are_numbers() -> None:
    """There and back."""
    assert parse_lsn("16/B374D848") == 0x16_B374D848
    assert format_lsn(0x16_B374D848) == "16/B374D848"
    assert format_lsn(parse_lsn("0/0")) == "0/0"


@pytest.mark.parametrize("text", ["", "16", "16/", "x/1", "1/1FFFFFFFF", "-1/0"])
def test_invalid_lsns(text: str) -> None:
    """The error shows what one looks like."""
    with pytest.raises(ValueError, match="LSN"):
        parse_lsn(text)


@pytest.mark.parametrize(
    ("xid", "near", "wide"),
    [
        (754, 12884902642, 12884902642 - 12884902642 % 2**32 + 754),
        (5, 2**32 - 3, 2**32 + 5),
        (2**32 - 3, 2**32 + 5, 2**32 - 3),
        (7, 7, 7),
    ],
)
def test_ids_are_widened_to_the_nearest_epoch(xid: int, near: int, wide: int) -> None:
    """Also across the border of an epoch, in both directions."""
    assert widen(xid, near) == wide


def test_sees() -> None:
    """Below xmin, or below xmax and not running."""
    snapshot = PostgresSnapshot.parse("10:20:10,15")
    assert [xid for xid in range(8, 22) if snapshot.sees(xid, 0)] == [8, 9, 11, 12, 13, 14, 16, 17, 18, 19]
    assert PostgresSnapshot.parse("10:10:").sees(9, 0)


def test_covers_is_what_sees_says() -> None:
    """Against the definition, over all small snapshots."""
    every = [
        PostgresSnapshot(min([*running, xmax]), xmax, frozenset(running))
        for xmax in range(1, 6)
        for mask in range(1 << xmax)
        for running in [[x for x in range(xmax) if mask >> x & 1]]
    ]
    for one in every:
        for other in every:
            assert one.covers(other) == all(one.sees(x, 0) for x in range(8) if other.sees(x, 0))


def test_finished_needs_a_horizon() -> None:
    """A running transaction may have an id at or above xmax, and is then listed nowhere."""
    other = PostgresSnapshot.parse("2357:2357:", next_xid=2358)
    assert not PostgresSnapshot(2357, 2357).finished(other)
    assert not PostgresSnapshot(2357, 2400, frozenset({2357})).finished(other)
    assert PostgresSnapshot(2358, 2358).finished(other)
    assert not PostgresSnapshot(9999, 9999).finished(PostgresSnapshot(1, 1))


def test_the_horizon_is_widened() -> None:
    """Its 32 bits belong to the epoch of the snapshot, or to the next."""
    assert PostgresSnapshot.parse("4294967290:4294967290:", next_xid=3).horizon == 2**32 + 3
