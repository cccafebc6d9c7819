"""Rights of a principal: patterns of views, claims."""

import pytest

from service.ground.errors import ApiError
from service.web.principal import Principal, Right, require_read

READ = frozenset({Right.READ})


@pytest.mark.parametrize(
    ("views", "name", "may"),
    [
        (("*",), "story", True),
        (("story",), "story", True),
        (("story",), "story2", False),
        (("story",), "Story", False),
        (("story",), "story\n", False),
        (("story_*", "top"), "story_with_votes", True),
        (("story_*", "top"), "top", True),
        (("story_*", "top"), "xtop", False),
        (("s?", "a.b"), "s1", True),
        (("a.b",), "axb", False),
        (("?",), "", False),
        ((), "story", False),
        (("s*",), "s" * 64, False),
    ],
)
def test_views_are_named_by_patterns(views: tuple[str, ...], name: str, may: bool) -> None:
    assert Principal("a", READ, views).may_read(name) is may
    assert not Principal("a", frozenset({Right.ADMIN}), views).may_read(name)


def test_without_access_control_everything_may_be_read() -> None:
    require_read(None, "story")


def test_a_refusal_names_what_was_asked_for_and_nothing_else() -> None:
    with pytest.raises(ApiError) as refused:
        require_read(Principal("a", READ, ("story",)), "other")
    assert refused.value.code == "forbidden"
    assert "story" not in f"{refused.value.detail}{refused.value.hint}"


def test_claims_are_members_of_members() -> None:
    principal = Principal("a", READ, claims={"sub": "42", "org": {"id": 7}, "a.b": 1, "none": None})
    assert [principal.claim(path) for path in ("sub", "org.id", "org.name", "sub.x", "a.b", "none", "")] == [
        "42",
        7,
        None,
        None,
        None,
        None,
        None,
    ]


@pytest.mark.parametrize("views", [("*",), ("adhoc_*",), ("adhoc_0123456789abcdef",)])
def test_views_of_queries_are_for_who_may_query(views: tuple[str, ...]) -> None:
    name = "adhoc_0123456789abcdef"
    assert not Principal("a", READ, views).may_read(name)
    assert Principal("a", READ | {Right.QUERY}, views).may_read(name)
    assert not Principal("a", READ | {Right.QUERY}, ("none",)).may_read(name)
    assert Principal("a", READ).may_read("adhoc_report")
