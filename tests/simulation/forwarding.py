"""Reads that run upstream as they are: what they bring, and whether it is exact where the engine says it is."""

from collections import Counter
from random import Random

from dataflow.engine.effects import AnswerForward
from dataflow.plan.nodes import View
from dataflow.types import ViewId
from tests.simulation.configuration import Asked, ForwardedRead
from tests.simulation.expectation import BaseTables, Expectations
from tests.simulation.refreshed_views import expires
from tests.simulation.refreshing import bag_of_text
from tests.simulation.report import describe, require
from tests.simulation.world import World

Views = dict[ViewId, View]


def run_forward(forward: ForwardedRead, keys: tuple[Asked, ...], views: Views, world: World, rng: Random) -> None:
    """A forwarded read takes its snapshot and reads."""
    forward.snapshot, forward.bound = world.visibility.snapshot(), world.visibility.bound(rng)
    expectations = Expectations(BaseTables(world.visible_tables()))
    for asked in keys:
        view = views.get(asked.view)
        keyed = None if view is None else expectations.of(view.relation, view.key_columns)
        forward.rows.append(Counter() if view is None or keyed is None else bag_of_text(view, asked.key, keyed))


def compare_forward(
    answer: AnswerForward, forward: ForwardedRead, keys: tuple[Asked, ...], views: Views, base: BaseTables
) -> None:
    """Forwarded rows are exact at the position they are sent under, where `base` is."""
    require(forward.snapshot is not None, f"{answer} of a read that was not forwarded")
    expectations = Expectations(base)
    for asked, bag in zip(keys, forward.rows, strict=True):
        view = views.get(asked.view)
        if view is not None and not expires(view):
            expected = bag_of_text(view, asked.key, expectations.of(view.relation, view.key_columns))
            require(bag == expected, f"{answer} of {view.name} {asked.key}: {describe(bag)}, not {describe(expected)}")
