"""A node that fails as nothing fails upstream concerns the views above it, for a while, and nobody else."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import pytest

from dataflow.engine.effects import Answer, Effect, Forward, LeafEvict, ViewStatus
from dataflow.engine.events import Apply, EvictSome, SnapshotTaken, TableDelta, Transaction
from dataflow.engine.limits import Limits
from dataflow.engine.nodes import GroupingNode
from dataflow.errors import InvariantViolation
from dataflow.ops.block import BlockJoin
from dataflow.types import Row, TransactionId, ViewId
from tests.dataflow.engine.site import Now, Site
from tests.fixtures.compiled import replaces_methods

COUNTED = "SELECT story_id, count(*) AS n FROM comments WHERE story_id = :story GROUP BY story_id"
NAMED = "SELECT id, name FROM users WHERE id = :id"
COMMENT: Row = ("999", "7", "1", "one more", "2026-01-01 00:00:00+00")


def statuses(effects: list[Effect], view: ViewId) -> list[str]:
    return [e.status for e in effects if isinstance(e, ViewStatus) and e.view == view]


def comment(site: Site) -> list[Effect]:
    """Somebody comments on story 7."""
    end = site.engine.applied + 10
    delta = TableDelta([], [COMMENT])
    return site.step(Apply([Transaction(TransactionId(end), end, {"public.comments": delta})], end))


def failing_absorb(error: Exception) -> AbstractContextManager[Any]:
    return patch.object(GroupingNode, "absorb", side_effect=error)


@replaces_methods
@pytest.mark.parametrize("error", [RecursionError("too deep"), MemoryError(), ValueError("4300 digits")])
def test_the_view_above_is_answered_upstream_and_others_stay_as_they_are(error: Exception) -> None:
    site = Site()
    counted, named = site.install(1, COUNTED), site.install(2, NAMED)
    for story in ("7", "8"):
        site.read(counted, (story,))
    site.read(named, ("3",))
    with failing_absorb(error):
        effects = comment(site)
    assert {e.key for e in effects if isinstance(e, LeafEvict)} == {("7",), ("8",)}
    assert statuses(effects, counted) == ["quarantined"]
    assert site.covered == {(named, ("3",))}
    assert [type(e) for e in site.read(counted, ("7",))] == [Forward]
    site.engine.check()
    released = site.step(SnapshotTaken(Now()))
    assert statuses(released, counted) == ["ready"]
    assert isinstance(site.read(counted, ("7",))[-1], Answer)
    site.engine.check()


@replaces_methods
def test_one_that_fails_again_stays_longer_and_one_that_is_well_begins_anew() -> None:
    site = Site(Limits(quarantine_heartbeats=4))
    counted = site.install(1, COUNTED)

    def heartbeats_of_a_stay() -> int:
        site.read(counted, ("7",))
        with failing_absorb(MemoryError()):
            assert statuses(comment(site), counted) == ["quarantined"]
        for number in range(1, 10):
            if statuses(site.step(SnapshotTaken(Now())), counted):
                return number
        raise AssertionError("for ever")

    assert [heartbeats_of_a_stay() for _ in range(4)] == [1, 2, 4, 4]
    for _ in range(8):
        site.step(SnapshotTaken(Now()))
    assert heartbeats_of_a_stay() == 1


@replaces_methods
def test_a_lookup_that_cannot_be_installed_is_answered_upstream() -> None:
    site = Site()
    counted = site.install(1, COUNTED)
    with patch.object(GroupingNode, "fill_groups", side_effect=RecursionError("too deep")):
        effects = site.read(counted, ("7",))
    assert isinstance(effects[-1], Forward)
    assert statuses(effects, counted) == ["quarantined"]
    site.engine.check()


@replaces_methods
def test_a_state_that_contradicts_itself_is_not_gone_on_with() -> None:
    site = Site()
    counted = site.install(1, COUNTED)
    site.read(counted, ("7",))
    with failing_absorb(InvariantViolation("a row was there twice")), pytest.raises(InvariantViolation):
        comment(site)


def test_a_key_goes_also_where_it_cannot_be_told_what_it_has_read() -> None:
    site = Site()
    view = site.install(1, "SELECT c.id, u.name FROM comments c JOIN users u ON u.id = c.author WHERE c.story_id = :s")
    site.read(view, ("7",))
    with patch.object(BlockJoin, "keys_at", side_effect=RecursionError("too deep")):
        effects = site.step(EvictSome(1))
    assert [e.key for e in effects if isinstance(e, LeafEvict)] == [("7",)]
    site.engine.check()
