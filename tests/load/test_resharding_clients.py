"""Check of answers at their versions: rows before, at and after the writer's transactions."""

from dataclasses import replace

import pytest

from load.experiments.resharding_clients import Histories, ReadAnswer, Row, WriterLog

#: Story 7 gains a vote, is renamed, loses one; story 8 gains one in between.
CHANGES = [(7, 1, None), (8, 1, None), (7, 0, "new"), (7, -1, None)]
HISTORIES = Histories(WriterLog(CHANGES, [100, 200, 300, 400], [1.0, 2.0, 3.0, 4.0]), votes_each=3)


def row(story: int, votes: int, title: str = "") -> Row:
    return (story, story, title or f"The story with the number {story}", f"https://news.example/stories/{story}", votes)


def answer(position: int, *rows: Row, transactions: int | None = None) -> ReadAnswer:
    return ReadAnswer(10.0, 1.0, True, position, transactions, tuple((each[0], (each,)) for each in rows))


def test_a_story_after_each_transaction() -> None:
    assert [HISTORIES.row(7, n) for n in range(5)] == [
        row(7, 3),
        row(7, 4),
        row(7, 4),
        row(7, 4, "new"),
        row(7, 3, "new"),
    ]
    assert HISTORIES.row(9, 4) == row(9, 3)


@pytest.mark.parametrize(
    ("position", "included"), [(0, (0, 0)), (1, (0, 1)), (100, (1, 1)), (150, (1, 2)), (400, (4, 4)), (401, (4, 4))]
)
def test_a_version_between_two_ends_may_have_the_second_transaction(position: int, included: tuple[int, int]) -> None:
    assert HISTORIES.included(position) == included


def test_rows_of_their_version_are_right() -> None:
    assert HISTORIES.what_is_wrong(answer(100, row(7, 4), row(8, 3))) is None
    # In between, both are; but not one of each.
    assert HISTORIES.what_is_wrong(answer(250, row(7, 4))) is None
    assert HISTORIES.what_is_wrong(answer(250, row(7, 4, "new"))) is None
    assert HISTORIES.what_is_wrong(answer(450, row(7, 3, "new"), row(8, 4))) is None


def test_rows_of_another_version_are_wrong() -> None:
    assert "story 7 after 2 transactions" in str(HISTORIES.what_is_wrong(answer(200, row(7, 3), row(8, 4))))
    # Each row is right at some version, and both at none.
    assert "story 8" in str(HISTORIES.what_is_wrong(answer(200, row(7, 4), row(8, 3))))
    assert HISTORIES.what_is_wrong(replace(answer(200), rows=((7, ()),))) is not None
    assert HISTORIES.what_is_wrong(replace(answer(200), rows=((7, (row(7, 4), row(7, 4))),))) is not None


def test_answers_that_count_transactions_are_compared_with_these() -> None:
    assert HISTORIES.what_is_wrong(answer(250, row(7, 4), transactions=2)) is None
    assert "after 2 transactions" in str(HISTORIES.what_is_wrong(answer(250, row(7, 4, "new"), transactions=2)))
    assert "1 transactions at a version with 2 to 3" in str(HISTORIES.what_is_wrong(answer(250, transactions=1)))


def test_behind_is_since_the_first_transaction_that_is_missing() -> None:
    assert HISTORIES.behind_s(answer(100)) == 8.0
    assert HISTORIES.behind_s(answer(150)) == 7.0
    assert HISTORIES.behind_s(answer(150, transactions=1)) == 8.0
    assert HISTORIES.behind_s(answer(400)) == 0.0
