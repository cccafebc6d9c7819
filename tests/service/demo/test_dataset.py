"""The demo's data: the same everywhere, consistent in itself, skewed and large enough."""

from collections import Counter, defaultdict
from random import Random

from service.demo.dataset import TAGS, DatasetSize, generate, user_name
from service.demo.views import VIEWS, draw_story, draw_tag, draw_user

SMALL = DatasetSize(users=500, stories=400, votes=6_000, comments=900)


def tables(size: DatasetSize) -> dict[str, list[tuple[str, ...]]]:
    """All rows, as tuples of COPY's text."""
    return {t.table: [tuple(line.rstrip("\n").split("\t")) for line in t.lines] for t in generate(size)}


def test_it_is_the_same_every_time() -> None:
    assert tables(SMALL) == tables(SMALL)


def test_announced_numbers_of_rows_are_right() -> None:
    assert all(t.rows == sum(1 for _ in t.lines) for t in generate(SMALL))


def test_the_default_site_has_a_real_size() -> None:
    rows = {t.table: t.rows for t in generate(DatasetSize())}
    assert rows["stories"] >= 20_000
    assert rows["votes"] >= 500_000


def test_primary_keys_are_unique() -> None:
    data = tables(SMALL)
    keys = {"users": 1, "stories": 1, "votes": 2, "comments": 1, "tags": 1, "taggings": 2}
    for table, width in keys.items():
        assert max(Counter(row[:width] for row in data[table]).values()) == 1, table


def test_foreign_keys_hold() -> None:
    data = tables(SMALL)
    users = {row[0] for row in data["users"]}
    stories = {row[0] for row in data["stories"]}
    comments = {row[0]: row[1] for row in data["comments"]}
    tags = {row[0] for row in data["tags"]}
    assert {row[3] for row in data["stories"]} <= users
    assert {row[0] for row in data["votes"]} <= stories
    assert {row[1] for row in data["votes"]} <= users
    assert {row[1] for row in data["comments"]} <= stories
    assert {row[3] for row in data["comments"]} <= users
    assert all(comments[row[2]] == row[1] for row in data["comments"] if row[2] != "\\N"), "answers stay on a story"
    assert {row[0] for row in data["taggings"]} <= stories
    assert {row[1] for row in data["taggings"]} <= tags


def test_a_score_is_the_sum_of_its_votes() -> None:
    data = tables(SMALL)
    sums: defaultdict[str, int] = defaultdict(int)
    for story, _, value in data["votes"]:
        sums[story] += int(value)
    assert all(int(row[5]) == sums[row[0]] for row in data["stories"])


def test_votes_are_skewed() -> None:
    votes = Counter(row[0] for row in tables(DatasetSize(stories=2_000, votes=50_000))["votes"])
    hottest = sum(count for _, count in votes.most_common(len(votes) // 100))
    assert hottest > len(votes) // 100 * 10 * (50_000 / len(votes))


def test_user_names_are_different() -> None:
    names = [user_name(number) for number in range(DatasetSize().users)]
    assert len(set(names)) == len(names)


def test_readers_ask_for_what_there_is() -> None:
    random, data = Random(1), tables(SMALL)
    users = {row[0] for row in data["users"]}
    for _ in range(2_000):
        assert 1 <= int(draw_story(random, SMALL)) <= SMALL.stories
        assert draw_user(random, SMALL) in users
        assert draw_tag(random, SMALL) in TAGS


def test_examples_are_there() -> None:
    users = {row[0] for row in tables(SMALL)["users"]}
    examples = {view.name: view.example for view in VIEWS}
    assert examples["karma"] is not None
    assert examples["karma"][1] in users
    assert examples["stories_of_tag"] is not None
    assert examples["stories_of_tag"][1] in TAGS
