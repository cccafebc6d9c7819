"""The rule of placement: the same everywhere and always, even, and moving no more than it must."""

import subprocess
import sys
from collections import Counter

import pytest

from dataflow.types import ViewId
from service.leaf_store.layout import HEAD_BYTES, entry_key, key_part, view_head
from service.sharding.homes import Homes

KEYS = [key_part((str(n),)) for n in range(20_000)]


FIRST = [2, 3, 1, 3, 4, 1, 2, 2, 1, 1, 4, 0, 1, 1, 0, 4]
FIRST_VIEWS = [2, 0, 2, 4, 3, 0, 4, 3, 3, 0, 1, 3, 4, 2, 0, 0]
NULL_HOME = 3


def test_homes_never_change() -> None:
    """Whoever changes this moves every key of every service that is upgraded."""
    homes = Homes(5)
    assert [homes.of_key("story", key_part((str(n),))) for n in range(16)] == FIRST
    assert [homes.of_view(f"view{n}") for n in range(16)] == FIRST_VIEWS
    assert homes.of_key("story", key_part(("a", None))) == NULL_HOME


def test_another_process_says_the_same() -> None:
    """Whatever it hashes strings with."""
    code = (
        "from service.sharding.homes import Homes; h = Homes(7); print([h.of_key('v', b'%d' % n) for n in range(200)])"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    homes = Homes(7)
    assert said.strip() == str([homes.of_key("v", b"%d" % n) for n in range(200)])


@pytest.mark.parametrize("shards", [2, 3, 16, 64])
def test_keys_are_spread_evenly(shards: int) -> None:
    of_key = Homes(shards).keys_of("story")
    counts = Counter(map(of_key, KEYS))
    mean = len(KEYS) / shards
    assert len(counts) == shards
    assert max(counts.values()) < 1.4 * mean
    assert min(counts.values()) > 0.6 * mean


def test_each_view_is_spread_on_its_own() -> None:
    homes = Homes(2)
    same = sum(homes.of_key("one", key) == homes.of_key("other", key) for key in KEYS)
    assert 0.4 < same / len(KEYS) < 0.6


@pytest.mark.parametrize("shards", [1, 2, 3, 7])
def test_one_shard_more_takes_keys_and_moves_no_others(shards: int) -> None:
    before, after = Homes(shards).keys_of("story"), Homes(shards + 1).keys_of("story")
    moved = [key for key in KEYS if before(key) != after(key)]
    assert {after(key) for key in moved} == {shards}
    assert 0.8 < len(moved) * (shards + 1) / len(KEYS) < 1.2


def test_the_order_begins_at_home_and_goes_on_as_if_it_were_not_there() -> None:
    four, three = Homes(4), Homes(3)
    for key in KEYS[:500]:
        order = four.order("story", key)
        assert sorted(order) == [0, 1, 2, 3]
        assert order[0] == four.of_key("story", key)
        assert [shard for shard in order if shard != 3] == three.order("story", key)


@pytest.mark.parametrize("key", [("7",), (), ("a", "b"), ("a", None), ("x" * 300,), ("x" * 248,), ("é\0",)])
def test_all_leaf_stores_call_a_key_alike(key: tuple[str | None, ...]) -> None:
    for view in (0, 1, (1 << 32) - 1):
        assert entry_key(view_head(ViewId(view)), key)[HEAD_BYTES:] == key_part(key)
