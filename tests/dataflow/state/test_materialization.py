"""Materialized rows and coverage against the whole relation: keys are covered, rows come and go, keys are evicted.

While a materialization has one coverage, that and its index are one dictionary.
"""

from random import Random
from sys import getsizeof

import pytest

from dataflow.errors import EvaluationError
from dataflow.schema import SqlType
from dataflow.state.materialization import Materialization, as_bag
from dataflow.types import Columns, Key, Row
from tests.fixtures.seeds import day_seed

TYPES = (SqlType("text", "text"),) * 3


def rows_under(rows: list[Row], columns: Columns, key: Key) -> list[Row]:
    return [row for row in rows if tuple(row[c] for c in columns) == key]


def check(known: Materialization, rows: list[Row], covered: set[tuple[Columns, Key]]) -> None:
    known.check()
    assert {(columns, key) for columns, coverage in known.coverage.items() for key in coverage} == covered
    expected = [row for row in rows if any(tuple(row[c] for c in columns) == key for columns, key in covered)]
    assert known.bag() == as_bag(expected)
    for columns, key in covered:
        assert known.lookup(columns, key) == as_bag(rows_under(rows, columns, key))


@pytest.mark.parametrize("packed", [False, True])
def test_covered_keys_have_the_relations_rows(packed: bool) -> None:
    random = Random(day_seed("materialization"))
    known, rows, covered = Materialization(TYPES, packed), list[Row](), set[tuple[Columns, Key]]()
    known.require_coverage((0,))
    for step in range(600):
        if step == 200:
            known.require_index((2,))
        if step == 400:
            known.require_coverage((1, 0))
        columns = random.choice(list(known.coverage))
        key = tuple(str(random.randrange(4)) for _ in columns)
        if random.random() < 0.4:
            row = tuple(str(random.randrange(4)) for _ in TYPES)
            removed = random.sample(rows, min(len(rows), random.randrange(4)))
            for gone in removed:
                rows.remove(gone)
            rows.append(row)
            known.absorb((removed, [row]))
        elif (columns, key) in covered:
            known.evict(columns, key)
            covered.discard((columns, key))
        else:
            known.fill(columns, key, as_bag(rows_under(rows, columns, key)))
            covered.add((columns, key))
        check(known, rows, covered)


def test_a_covered_key_without_rows_outlives_them() -> None:
    known = Materialization(TYPES, packed=True)
    coverage = known.require_coverage((0,))
    known.fill((0,), ("none",), {})
    known.fill((0,), ("one",), {("one", "a", "b"): 1})
    known.absorb(([("one", "a", "b")], [("none", "a", "b")]))
    assert known.lookup((0,), ("one",)) == {}
    assert known.lookup((0,), ("none",)) == {("none", "a", "b"): 1}
    # The index on no column at all is one of rows as they are.
    known.require_index(())
    assert (list(coverage), known.lookup((0,), ("one",))) == ([("none",), ("one",)], {})
    known.clear()
    assert (list(coverage), known.lookup((0,), ("none",))) == ([], None)
    known.fill((0,), ("none",), {("none", "a", "b"): 1})
    known.check()


def test_an_index_and_the_only_coverage_are_one_table() -> None:
    known = Materialization(TYPES)
    coverage = known.require_coverage((0,))
    for number in range(1000):
        known.fill((0,), (str(number),), {(str(number), "a", "b"): 1})
    one, state = known.table_bytes(), known.state_bytes()
    assert one == getsizeof(known.indexes[0,].buckets)
    known.require_coverage((1,))
    assert known.table_bytes() > 2 * one
    assert known.state_bytes() > state + one
    assert len(coverage) == 1000


def test_whole_rows_are_taken_over_by_what_covers_some() -> None:
    staged, known = Materialization(TYPES), Materialization(TYPES)
    row = ("1", "a", "b")
    for columns in ((0,), ()):
        known.require_coverage(columns)
    known.fill((0,), ("1",), {row: 1})
    known.fill((0,), ("2",), {})
    staged.require_coverage(()).add(())
    staged.require_index((0,))
    staged.absorb(([], [row, ("3", "a", "b")]))
    known.take_over(staged)
    known.coverage[()].add(())
    known.check()
    assert known.lookup((0,), ("2",)) == {}
    assert known.lookup((), ()) == {row: 1, ("3", "a", "b"): 1}


def test_nothing_is_taken_over_of_what_is_empty() -> None:
    staged, known = Materialization(TYPES), Materialization(TYPES)
    known.require_coverage(())
    staged.require_coverage(()).add(())
    known.take_over(staged)
    known.coverage[()].add(())
    assert known.lookup((), ()) == {}
    known.absorb(([], [("1", "a", "b")]))
    known.check()
    assert known.lookup((), ()) == {("1", "a", "b"): 1}


def test_a_key_whose_rows_cannot_be_stored_stays_a_hole() -> None:
    """A value that has no normal form for the index of another view."""

    def fails(row: Row) -> Key:
        raise EvaluationError(f"no normal form in {row}")

    for columns in ((0,), (1,)), ((1,), (0,)):
        known = Materialization(TYPES)
        for each in columns:
            known.require_index(each)
        known.require_coverage((0,))
        known.indexes[1,].key_of = fails
        with pytest.raises(EvaluationError):
            known.fill((0,), ("a",), as_bag([("a", "b", "c")]))
        assert known.lookup((0,), ("a",)) is None
        assert known.row_count == known.row_bytes == 0
