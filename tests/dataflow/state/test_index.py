"""An index against a dictionary of bags: rows of any multiplicity come, go and take each other's place."""

from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from dataflow.errors import InvariantViolation
from dataflow.schema import SqlType
from dataflow.state.index import Index, Stored
from dataflow.state.packed_rows import pack
from dataflow.types import Row
from tests.fixtures.seeds import day_seed

TEXT = SqlType("text", "text")
TYPES = (TEXT, TEXT, TEXT)


def random_row(random: Random) -> Row:
    return (str(random.randrange(4)), random.choice([None, "", "a", "\0", "é", "x" * 300]), str(random.randrange(3)))


def as_it_is(row: Row) -> Row:
    return row


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("columns", [(), (0,), (1, 0)])
def test_every_bag_is_what_came_and_did_not_go(columns: tuple[int, ...], packed: bool) -> None:
    random = Random(day_seed(f"index on {columns}"))
    index, expected = Index(columns, TYPES, packed), Counter[Row]()
    stored: Callable[[Row], Stored] = pack if packed else as_it_is
    for _ in range(2000):
        row, times = random_row(random), random.choice([1, 1, 1, 2])
        if random.random() < 0.5:
            known = index.key_of(row) if random.random() < 0.5 else None
            assert index.insert(row, times, stored(row), known) == (row not in expected)
            expected[row] += times
        elif expected[row] >= times:
            assert index.delete(row, times, stored(row)) == (expected[row] == times)
            expected[row] -= times
        else:
            with pytest.raises(InvariantViolation):
                index.delete(row, times, stored(row))
        other = (*row[:2], "another")
        if not packed and expected[row] == 1 and other not in expected:
            index.replace(row, other)
            index.replace(other, row)
        expected = +expected
        index.check(dict(expected))
        assert index.bag() == expected
        key = index.key_of(row)
        bag = index.get(key)
        assert bag == {r: n for r, n in expected.items() if index.key_of(r) == key}
        assert (len(bag), sum(bag.values()), dict(bag.items())) == (len(set(bag)), sum(dict(bag).values()), dict(bag))
        assert index.count(key) == sum(bag.values())
        assert (row in bag) == (row in expected)


def test_an_index_takes_over_what_another_has() -> None:
    index, other = Index((0,), TYPES), Index((0,), TYPES)
    for row, times in (("1", None, "2"), 1), (("1", None, "3"), 2):
        other.insert(row, times, row)
    index.take_over(other)
    index.check({("1", None, "2"): 1, ("1", None, "3"): 2})
    index.clear()
    index.check({})


def test_packed_rows_become_rows_as_they_are() -> None:
    index, rows = Index((0,), TYPES, packed=True), {("1", None, "2"): 1, ("2", "x", "3"): 2}
    for row, times in rows.items():
        index.insert(row, times, pack(row))
    index.unpack(rows)
    index.check(rows)
    assert set(index.stored()) == set(rows)
