"""Views with an order: their keys can be covered in part."""

from dataclasses import replace

from dataflow.plan.nodes import Chain, OrderTerm, Source, TopK, View
from dataflow.types import Columns
from tests.simulation.parametric_views import HEAVIER
from tests.simulation.plans import (
    COMMENTS,
    SCORE,
    STORIES,
    STORY_USER,
    STORY_VOTES,
    TAGS,
    USERS,
    VOTES,
    Joined,
    aggregate,
    average,
    chain,
    first,
    greater,
    inner,
    left,
    left_on,
    view_of,
)


def ordered(name: str, relation: Source, *order: OrderTerm, keys: tuple[Columns, ...]) -> list[View]:
    """One view per set of parameters, in this order."""
    assert not isinstance(relation, Chain) or relation.columns
    return [
        replace(view_of(f"ordered_{name}_by_{'_'.join(map(str, key)) or 'nothing'}", relation, key), order=order)
        for key in keys
    ]


def up(column: int) -> OrderTerm:
    """Ascending, NULLs last."""
    return OrderTerm(column)


def down(column: int) -> OrderTerm:
    """Descending, NULLs first, as PostgreSQL has it."""
    return OrderTerm(column, descending=True, nulls_first=True)


def ordered_views() -> list[View]:
    """Over chains and blocks; with ties, NULLs, copies of rows; dropped and multiplied by the join; of key ()."""
    tagged = Joined(first(STORIES), inner(TAGS, (0, 0, 0))).block((0, 0), (0, 1), (0, 3), (1, 1))
    story_user = STORY_USER.block((0, 0), (0, 2), (0, 3), (0, 1), (1, 1), (1, 2))
    counted = STORY_VOTES.block((0, 0), (0, 1), (0, 2), (1, 1))
    user_stories = Joined(first(USERS), left(STORIES, (1, 0, 0))).block((0, 0), (0, 1), (0, 2), (1, 0), (1, 2))
    voted = Joined(first(VOTES), inner(USERS, (0, 0, 1))).block((0, 0), (0, 2), (1, 0), (1, 1))
    averaged = Joined(first(STORIES), inner(aggregate(STORIES, (), average(SCORE), scalar=True)))
    better = left_on(Joined(first(STORIES)), STORIES, (1, 0, 1), rest=lambda j: greater(j.col(1, 3), j.col(0, 3)))
    better_authors = Joined(*better.inputs, left(USERS, (0, 1, 1))).block((0, 0), (0, 1), (0, 3), (1, 0), (2, 1))
    latest = Joined(first(STORIES), left(TopK(COMMENTS, (1,), (OrderTerm(0),), 1), (1, 0, 0)))
    return [
        *ordered("free_heavier", HEAVIER, up(2), up(1), up(0), keys=((3,), (0, 3))),
        *ordered("averaged", averaged.block((0, 0), (0, 1), (0, 2), (1, 0)), up(2), up(0), keys=((1,), ())),
        *ordered("better", better_authors, down(2), keys=((1,), ())),
        *ordered("latest", latest.block((0, 0), (0, 1), (1, 0), (1, 4)), down(0), keys=((1,), ())),
        *ordered("stories", STORIES, down(3), up(0), keys=((1,), (2,), (0, 1), ())),
        *ordered("story_titles", chain("stories", "title", "author", "id"), up(0), keys=((1,), ())),
        *ordered("votes", VOTES, OrderTerm(2, nulls_first=True), keys=((0,), (1,), ())),
        *ordered("story_user", story_user, down(2), up(0), keys=((3,), (0,), (4,), ())),
        *ordered("story_scores", story_user, up(2), keys=((3,), ())),
        *ordered("tagged", tagged, up(0), keys=((1,), (3,), ())),
        *ordered("counted", counted, OrderTerm(2, descending=True), down(0), keys=((1,), ())),
        *ordered("user_stories", user_stories, up(2), up(1), keys=((0,), (1,), ())),
        *ordered("voted", voted, up(1), keys=((0,), (2,), ())),
    ]


ORDERED_VIEWS: tuple[View, ...] = tuple(ordered_views())
