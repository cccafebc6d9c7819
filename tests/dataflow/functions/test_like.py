"""LIKE by pieces: the same as by all choices, in a bounded time."""

from random import Random

import pytest

from dataflow.errors import EvaluationError
from dataflow.functions.like import like_matcher
from tests.fixtures.in_time import in_time
from tests.fixtures.seeds import day_seed


def like(text: str, pattern: str) -> bool:
    """By the definition: what `%` stands for is tried at every length."""
    ends = {0}
    escaped = False
    for c in pattern:
        if not escaped and c == "%":
            ends = set(range(min(ends, default=len(text) + 1), len(text) + 1))
        elif not escaped and c == "_":
            ends = {end + 1 for end in ends if end < len(text)}
        elif not escaped and c == "\\":
            escaped = True
            continue
        else:
            ends = {end + 1 for end in ends if text[end : end + 1] == c}
        escaped = False
    return len(text) in ends


def test_a_pattern_is_matched_as_defined() -> None:
    random = Random(day_seed("like"))
    for _ in range(20_000):
        text = "".join(random.choices("ab%_\\ä\n", k=random.randrange(10)))
        pattern = "".join(
            random.choices(["a", "b", "%", "%", "_", "\\%", "\\_", "\\\\", "ä", "\n"], k=random.randrange(8))
        )
        assert like_matcher(pattern)(text) == like(text, pattern), (text, pattern)


@pytest.mark.parametrize(
    ("text", "pattern"),
    [
        ("abc" * 500, "%a%b%c%d%"),
        ("select from where " * 1000, "%select%from%where%zzz%"),
        ("foo" * 4000 + "bar" * 4000, "%foo%bar%baz%"),
        ("a" * 1_000_000, "%a_a_a_b%"),
        ("a" * 1_000_000, "%a" * 20 + "%b"),
        ("a" * 100_000, "%" + "a" * 50_000 + "b%"),
        ("a" * 10_000, "_%" * 400 + "b"),
    ],
)
def test_no_text_takes_long(text: str, pattern: str) -> None:
    with in_time():
        assert not like_matcher(pattern)(text)


@pytest.mark.parametrize(
    ("text", "pattern"), [("a" * 10**6, "%" + "a_" * 400 + "b%"), ("a", "%_" * 10**6), ("a", "a" * 10**7)]
)
def test_what_would_take_long_is_the_upstreams(text: str, pattern: str) -> None:
    with in_time(), pytest.raises(EvaluationError, match="not computed"):
        like_matcher(pattern)(text)
