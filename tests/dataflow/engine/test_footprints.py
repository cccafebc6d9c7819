"""Footprints of views' keys: inner keys that are evicted with them, and inner keys that stay."""

from typing import Any

import pytest

from dataflow.engine.events import Ahead, EvictSome
from dataflow.engine.footprints import InnerFootprints, Needs
from dataflow.spark.workload.inner import Holding, Inner
from dataflow.types import Key, ViewId
from load.micro.lru import Lru
from tests.dataflow.engine.site import Site
from tests.dataflow.engine.test_eviction import BY_AUTHOR, STORY, keys_of
from tests.dataflow.engine.test_state_bytes import SHAPES

#: Reads no user: no vote is as large as the number of a comment. But whether users are read is not seen from theirs.
NO_USERS = (
    "SELECT s.id, u.name FROM stories s JOIN comments c ON c.story_id = s.id JOIN votes v ON v.story_id = s.id"
    " AND v.value > c.id LEFT JOIN users u ON u.id = c.author WHERE s.id = :id"
)


def walked(site: Site, most: int = 10**6) -> InnerFootprints:
    found = InnerFootprints()
    for _ in found.walk(site.engine.graph.leaves, most):
        pass
    return found


def holding(found: InnerFootprints, view: ViewId) -> tuple[Holding, dict[Key, int]]:
    """Return a model of the footprints with one byte an inner key, and its numbers of keys."""
    needs: list[Needs] = found.keys[view]
    inner = Inner(
        outside=None,  # type: ignore[arg-type]
        of_key=[(n.reads, n.keeps) for n in needs],
        node=[node for node, _ in found.inner],
        sizes=[1.0] * len(found.inner),
        needs=[(n.reads, n.keeps) for _, n in found.inner],
        costs=[],
        table_share=0.0,
    )
    return Holding(inner), {n.key: number for number, n in enumerate(needs)}


def test_two_keys_share_what_both_have_read() -> None:
    site = Site(policy=Lru())
    view = site.install(1, STORY)
    # Both are of one author.
    site.read(view, ("5",))
    site.read(view, ("10005",))
    found = walked(site)
    one, other = found.keys[view]
    assert {one.key, other.key} == {("5",), ("10005",)}
    assert len(found.inner) == keys_of(site) == 3
    assert len(one.reads) == len(other.reads) == 2
    assert len({*one.reads} & {*other.reads}) == 1
    assert not one.keeps + other.keeps
    assert all(100 < needs.size < 1000 for _, needs in found.inner)


@pytest.mark.parametrize("shape", SHAPES)
def test_a_model_forgets_what_the_engine_does(shape: str) -> None:
    site = Site(policy=Lru())
    view = site.install(1, SHAPES[shape])
    extent = Ahead(2) if shape == "parts of keys" else None
    for number in range(40):
        # Some are of one author.
        site.read(view, (str(number % 20 + 10_000 * (number // 20)),), extent)
    found = walked(site)
    model, numbers = holding(found, view)
    assert sum(model.hold(number) for number in numbers.values()) == len(found.inner) == keys_of(site)
    for _ in range(40):
        before = keys_of(site)
        (effect,) = site.step(EvictSome(1))
        freed = model.let_go(numbers[effect.key])  # type: ignore[union-attr]
        assert freed == before - keys_of(site)
    assert keys_of(site) == 0


def test_what_may_be_needed_is_kept_if_another_key_has_read_it() -> None:
    site = Site(policy=Lru())
    comments = site.install(1, SHAPES["join"])
    none = site.install(2, NO_USERS)
    site.read(comments, ("7",))
    site.read(none, ("7",))
    found = walked(site)
    (reading,), (keeping,) = found.keys[comments], found.keys[none]
    assert keeping.keeps
    assert {*keeping.keeps} < {*reading.reads}
    site.step(EvictSome(1))
    left = keys_of(site)
    assert left == len({*keeping.reads, *keeping.keeps})
    # It did not read them, so that they can go is noticed by the pass.
    site.step(EvictSome(1))
    site.step(EvictSome(left))
    assert keys_of(site) == 0


def test_of_many_keys_some_of_each_view_are_told() -> None:
    site = Site(policy=Lru())
    views = [site.install(1, STORY), site.install(2, BY_AUTHOR)]
    for view in views:
        for number in range(200):
            site.read(view, (str(number),))
    found = walked(site, most=100)
    told: list[Any] = [found.keys[view] for view in views]
    assert sum(1 + len(n.reads) for n in [*told[0], *told[1], *(n for _, n in found.inner)]) < 130
    assert all(5 < len(each) < 40 for each in told)
    # Not those that came first.
    assert {n.key for n in told[0]} != {(str(number),) for number in range(len(told[0]))}
