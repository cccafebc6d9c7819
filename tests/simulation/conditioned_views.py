"""Views whose joins have conditions between inputs beside equalities: a route goes no further where one is not TRUE."""

from dataflow.plan.nodes import Block
from dataflow.scalar import ColumnRef, Scalar
from tests.simulation.plans import (
    COMMENT_COUNTS,
    COMMENTS,
    COUNT_ROWS,
    STORIES,
    TAGS,
    USERS,
    VOTE_COUNTS,
    VOTES,
    Joined,
    Shape,
    aggregate,
    call,
    first,
    greater,
    greatest,
    inner,
    is_null,
    left,
    over,
)
from tests.simulation.schema import BOOL, INT4

LAST_VOTERS = aggregate(VOTES, (0,), greatest(ColumnRef(1, INT4)))


def conditioned() -> list[Shape]:
    """Before an inner input and before left ones, on values and on padding, below an aggregate, by number."""
    followed = Joined(first(STORIES), inner(COMMENTS, (1, 0, 0)), inner(USERS, (0, 1, 2)), left(VOTE_COUNTS, (0, 1, 3)))
    later = greater(followed.col(1, 3), followed.col(0, 1))
    richer = Joined(first(STORIES), inner(USERS, (0, 0, 1)), inner(COMMENTS, (1, 0, 0)), left(USERS, (0, 2, 2)))
    worth = greater(richer.col(1, 2), richer.col(0, 3))
    counted = Joined(
        first(STORIES), left(VOTE_COUNTS, (0, 0, 0)), left(COMMENT_COUNTS, (0, 0, 0)), left(TAGS, (0, 0, 0))
    )
    few = call("or", BOOL, is_null(counted.col(1, 0)), call("<", BOOL, counted.col(1, 2), counted.col(0, 1)))
    voted = Joined(
        first(STORIES),
        left(LAST_VOTERS, (0, 0, 0)),
        left(USERS, (0, 1, 1)),
        left(COMMENTS, (1, 0, 0)),
        left(USERS, (0, 3, 2)),
    )
    nameless = voted.block((0, 0), (0, 1), (1, 1), (3, 0), (4, 1), where=is_null(voted.col(2, 0)))
    return [
        Shape("conditioned_later", _later(followed, later), ((0,), (1,), (2,), (3,), (0, 3), ())),
        Shape("conditioned_counts", over(aggregate(_later(followed, later), (0,), COUNT_ROWS)), ((0,), (1,))),
        Shape("conditioned_voices", over(aggregate(_later(followed, later), (2,), COUNT_ROWS)), ((0,), ())),
        Shape("conditioned_richer", richer.block((0, 0), (1, 0), (2, 0), (3, 1), where=worth), ((0,), (1,), (2,))),
        Shape("conditioned_few", counted.block((0, 0), (0, 1), (1, 1), (2, 1), (3, 1), where=few), ((0,), (1,), ())),
        Shape("conditioned_nameless", nameless, ((0,), (1,))),
    ]


def _later(joined: Joined, condition: Scalar) -> Block:
    return joined.block((0, 0), (1, 0), (2, 0), (2, 1), (3, 1), where=condition)
