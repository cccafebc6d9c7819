"""Homes by what requests say: the same however it is said."""

import pytest

from service.gateway.homes import home_of, replicas_of, slot_of, slot_of_query
from service.sharding.homes import SLOTS


@pytest.mark.parametrize(
    ("query", "params"),
    [
        (b"id=7", {"id": 7}),
        (b"id=7&limit=5&after=abc", {"id": "7"}),
        (b"b=x%20y&a=1", {"a": 1, "b": "x y"}),
        (b"b=x+y&a=1", {"b": "x y", "a": 1}),
        (b"ids=2&ids=1", {"ids": [1, 2]}),
        (b"id:null", {"id": None}),
        (b"ok=true&x=1.5", {"x": 1.5, "ok": True}),
        (b"name=%C3%A4", {"name": "\u00e4"}),
        (b"", {}),
        (b"&&", {}),
        (b"id=" + b"7" * 1000, {"id": "7" * 1000}),
    ],
)
def test_a_query_string_and_json_that_say_the_same(query: bytes, params: dict[str, object]) -> None:
    assert slot_of_query("story", query) == slot_of("story", params)


def test_what_differs_is_told_apart() -> None:
    slots = {
        slot_of("story", {"id": 7}),
        slot_of("other", {"id": 7}),
        slot_of("story", {"id": 8}),
        slot_of("story", {"id": None}),
        slot_of("story", {"id": ""}),
        slot_of("story", {"id": 7}, b"who"),
    }
    assert len(slots) == 6


def test_replicas_of_a_shard_share_its_keys() -> None:
    first = [replicas_of(slot_of("story", {"id": n}), 2)[0] for n in range(2000) if home_of(2, "story", {"id": n}) == 0]
    assert 0.4 < sum(first) / len(first) < 0.6
    assert all(set(replicas_of(slot, 3)) == {0, 1, 2} for slot in range(0, SLOTS, 97))
