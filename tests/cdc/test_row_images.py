"""Merged images of rows within a transaction: against a table that applies the same changes whole."""

from random import Random

from cdc.change import UNKNOWN, ChangedRow
from cdc.row_images import RowImages

IDENTITY = (0,)


def merged(*changes: tuple[str, ChangedRow | None, ChangedRow | None]) -> RowImages:
    images = RowImages(IDENTITY)
    for kind, old, row in changes:
        if kind == "insert":
            assert row is not None
            assert images.insert(row)
        elif kind == "update":
            assert row is not None
            assert images.update(old, row)
        else:
            assert old is not None
            assert images.delete(old)
    return images


def test_a_row_that_comes_and_goes_leaves_nothing() -> None:
    row = ("1", "a")
    assert merged(("insert", None, row), ("update", None, ("1", "b")), ("delete", row, None)).net() == ([], [])


def test_an_update_is_the_last_row_by_the_first_identity() -> None:
    images = merged(("update", ("1", UNKNOWN), ("2", "a")), ("update", None, ("2", "b")))
    assert images.net() == ([], [(("1", UNKNOWN), ("2", "b"))])


def test_an_identity_that_was_given_up_is_taken_again() -> None:
    images = merged(
        ("delete", ("1", UNKNOWN), None), ("update", ("2", UNKNOWN), ("1", "x")), ("insert", None, ("2", "y"))
    )
    assert images.net() == ([("2", "y")], [(("1", UNKNOWN), None), (("2", UNKNOWN), ("1", "x"))])


def test_values_that_were_not_sent_are_those_of_the_transaction_before() -> None:
    images = merged(("insert", None, ("1", "large")), ("update", None, ("1", UNKNOWN)))
    assert images.net() == ([("1", "large")], [])


def test_what_contradicts_earlier_images_is_refused() -> None:
    images = merged(("insert", None, ("1", "a")))
    assert not images.insert(("1", "b"))
    assert not images.update((UNKNOWN, "b"), ("2", "b"))
    assert not images.delete((UNKNOWN, "b"))
    images.delete(("1", "a"))
    assert not images.delete(("1", "a"))
    assert not images.update(None, ("1", "c"))


def test_unknown_values_of_a_row_that_takes_anothers_place() -> None:
    """They are not those of the old row; later ones are."""
    images = RowImages(IDENTITY)
    assert images.replace(("1", UNKNOWN), ("1", UNKNOWN))
    assert images.net() == ([], [(("1", UNKNOWN), None), (None, ("1", UNKNOWN))])
    assert images.update(None, ("1", "b"))
    assert images.net() == ([("1", "b")], [(("1", UNKNOWN), None)])


def test_random_transactions() -> None:
    """Applying what is net gives the same table as applying every change."""
    for seed in range(400):
        rng = Random(seed)
        table: dict[str, ChangedRow] = {key: (key, rng.choice("ab")) for key in rng.sample("12345", 3)}
        expected, images = dict(table), RowImages(IDENTITY)
        for _ in range(rng.randint(1, 8)):
            key, value = rng.choice("12345"), rng.choice("ab")
            if key not in expected:
                assert images.insert((key, value))
                expected[key] = (key, value)
            elif rng.random() < 0.3:
                assert images.delete((key, UNKNOWN))
                del expected[key]
            else:
                target = rng.choice([key, *(k for k in "12345" if k not in expected)])
                old = expected.pop(key)
                omitted = rng.random() < 0.3
                expected[target] = (target, old[1] if omitted else value)
                sent = (target, UNKNOWN if omitted else value)
                assert images.update(None if target == key else (key, UNKNOWN), sent)
        added, partial = images.net()
        gone = [table.pop(str(before[0])) for before, _ in partial]
        for (_, after), old in zip(partial, gone, strict=True):
            if after is not None:
                value = old[1] if after[1] is UNKNOWN else after[1]
                assert table.setdefault(str(after[0]), (after[0], value)) == (after[0], value)
        for row in added:
            assert str(row[0]) not in table
            table[str(row[0])] = row
        assert table == expected, seed
