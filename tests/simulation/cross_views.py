"""Views with joins that are more than equalities: cross joins, and the rest of left joins' ON."""

from dataflow.scalar import Call, ColumnRef, Scalar
from tests.simulation.plans import (
    COMMENT_COUNTS,
    COMMENTS,
    COUNT_ROWS,
    STORIES,
    TAGS,
    UPVOTES,
    USERS,
    VOTE_COUNTS,
    VOTES,
    Joined,
    Shape,
    aggregate,
    average,
    call,
    chain,
    first,
    greater,
    greatest,
    inner,
    is_null,
    left,
    left_on,
    number,
    over,
    total,
)
from tests.simulation.schema import BOOL, INT4, NUMERIC

LAST_VOTERS = aggregate(VOTES, (0,), greatest(ColumnRef(1, INT4)))


def less(a: Scalar, b: Scalar) -> Call:
    """a < b."""
    return call("<", BOOL, a, b)


def equal(a: Scalar, b: Scalar) -> Call:
    """a = b."""
    return call("=", BOOL, a, b)


def either(*parts: Scalar) -> Call:
    """a OR b."""
    return call("or", BOOL, *parts)


def cross_joins() -> list[Shape]:
    """Inputs without conditions: driven, beside an aggregate of everything, between others, twice, filtered."""
    all_votes = aggregate(VOTES, (), COUNT_ROWS, total(ColumnRef(2, INT4)), scalar=True)
    average_score = aggregate(STORIES, (), COUNT_ROWS, average(ColumnRef(3, NUMERIC)), scalar=True)
    users_tags = Joined(first(USERS), inner(TAGS))
    stories_average = Joined(first(STORIES), inner(average_score))
    above = greater(stories_average.col(0, 3), stories_average.col(1, 1))
    few = chain("tags", "tag", "story", where=equal(ColumnRef(0, INT4), number(1)))
    between = Joined(first(COMMENTS), inner(few), inner(STORIES, (0, 0, 1)), inner(USERS, (0, 1, 1), (0, 2, 1)))
    across = Joined(first(STORIES), inner(few), inner(COMMENTS, (1, 1, 1)), left(VOTE_COUNTS, (0, 0, 0)))
    pairs = Joined(first(TAGS), inner(TAGS))
    tagged_users = Joined(first(USERS), inner(few), left(UPVOTES, (0, 1, 1), (1, 0, 0)))
    pair_counts = aggregate(users_tags.block((0, 1), (1, 1)), (0, 1), COUNT_ROWS)
    shares = Joined(first(VOTE_COUNTS), inner(all_votes))
    shared = Joined(first(STORIES), left(shares.block((0, 0), (0, 1), (1, 0), (1, 1)), (0, 0, 0)))
    return [
        Shape("users_tags", users_tags.block((0, 0), (0, 1), (1, 0), (1, 1)), ((0,), (2,), (0, 3), (1, 2), ())),
        Shape("stories_average", stories_average.block((0, 0), (0, 1), (0, 3), (1, 1)), ((0,), (1,), ())),
        Shape("above_average", stories_average.block((0, 0), (0, 1), where=above), ((0,), (1,))),
        Shape("between", between.block((0, 0), (0, 2), (1, 0), (2, 2), (3, 1)), ((0,), (1,), (2,), (4,), (3, 4))),
        Shape("across", across.block((0, 0), (0, 1), (1, 0), (2, 0), (2, 4), (3, 1)), ((0,), (1,), (3,), (4,))),
        Shape("pairs", pairs.block((0, 0), (0, 1), (1, 0), (1, 1)), ((0,), (3,), (0, 2), ())),
        Shape("tagged_users", tagged_users.block((0, 0), (0, 1), (1, 0), (1, 1), (2, 0)), ((0,), (1,), (2,))),
        Shape("pair_counts", over(pair_counts), ((0,), (1,), (0, 1))),
        Shape("vote_shares", shared.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,))),
    ]


def more_in_on() -> list[Shape]:
    """With equalities and without, off inner and off left inputs, padded ones too; what hangs off such an input."""
    stories_comments = left_on(
        Joined(first(STORIES)), COMMENTS, (1, 0, 0), rest=lambda j: less(j.col(0, 1), j.col(1, 2))
    )
    commented = left_on(stories_comments, USERS, (0, 1, 2), rest=lambda j: less(j.col(0, 1), j.col(2, 0)))
    better = left_on(Joined(first(STORIES)), STORIES, (1, 0, 1), rest=lambda j: greater(j.col(1, 3), j.col(0, 3)))
    authors = Joined(*better.inputs, left(USERS, (0, 1, 1)), left(VOTE_COUNTS, (0, 1, 0)))
    either_way = left_on(
        Joined(first(COMMENTS), left(STORIES, (0, 0, 1))),
        USERS,
        rest=lambda j: either(equal(j.col(2, 0), j.col(0, 2)), equal(j.col(2, 0), j.col(1, 1))),
    )
    counted_either_way = Joined(*either_way.inputs, left(COMMENT_COUNTS, (0, 0, 1)), left(TAGS, (0, 1, 0)))
    without_votes = left_on(
        Joined(first(STORIES), left(VOTE_COUNTS, (0, 0, 0))),
        COMMENTS,
        (1, 0, 0),
        rest=lambda j: is_null(j.col(1, 0)),
    )
    answered = Joined(*without_votes.inputs, left(USERS, (0, 2, 2)))
    votes_below = left_on(
        Joined(first(USERS), inner(STORIES, (1, 0, 0))),
        VOTES,
        (1, 0, 0),
        rest=lambda j: less(j.col(2, 2), j.col(1, 0)),
    )
    hung = left_on(
        votes_below, COMMENTS, (1, 2, 0), rest=lambda j: either(is_null(j.col(2, 2)), less(j.col(2, 2), j.col(3, 0)))
    )
    nobody = is_null(votes_below.col(2, 0))
    same_title = left_on(Joined(first(STORIES)), COMMENTS, (1, 0, 0), rest=lambda j: equal(j.col(0, 2), j.col(1, 4)))
    titled = Joined(*same_title.inputs, left(USERS, (0, 1, 2)))
    # Without votes or without their voter there is no name: then all comments of the story match.
    nameless = left_on(
        Joined(first(STORIES), left(LAST_VOTERS, (0, 0, 0)), left(USERS, (0, 1, 1))),
        COMMENTS,
        (1, 0, 0),
        rest=lambda j: is_null(j.col(2, 0)),
    )
    nameless_authors = Joined(*nameless.inputs, left(VOTE_COUNTS, (0, 3, 3)), left(USERS, (0, 3, 2)))
    scores = over(aggregate(better.block((0, 1), (1, 0)), (0,), COUNT_ROWS))
    authors_scores = Joined(first(USERS), left(aggregate(better.block((0, 1), (1, 0)), (0,), COUNT_ROWS), (0, 0, 0)))
    return [
        Shape("on_commented", commented.block((0, 0), (0, 1), (1, 0), (1, 2), (2, 1)), ((0,), (1,), ())),
        Shape("on_better", better.block((0, 0), (0, 1), (0, 3), (1, 0), (1, 3)), ((0,), (1,), (0, 1), ())),
        Shape("on_better_authors", authors.block((0, 0), (0, 1), (1, 0), (2, 1), (3, 1)), ((0,), (1,))),
        Shape("on_either", either_way.block((0, 0), (0, 2), (1, 1), (2, 0), (2, 1)), ((0,), (1,), ())),
        Shape("on_either_counted", counted_either_way.block((0, 0), (0, 1), (2, 0), (3, 1), (4, 1)), ((0,), (1,))),
        Shape("on_without_votes", without_votes.block((0, 0), (0, 1), (1, 1), (2, 0), (2, 4)), ((0,), (1,), ())),
        Shape("on_answered", answered.block((0, 0), (0, 1), (1, 1), (2, 0), (3, 1)), ((0,), (1,))),
        Shape("on_votes", votes_below.block((0, 0), (0, 1), (1, 0), (2, 1), (2, 2)), ((0,), (1,), (2,), (1, 2))),
        Shape("on_no_votes", votes_below.block((0, 0), (1, 0), where=nobody), ((0,), (1,))),
        Shape("on_hung", hung.block((0, 0), (1, 0), (2, 1), (2, 2), (3, 0)), ((0,), (1,), ())),
        Shape("on_title", titled.block((0, 0), (0, 1), (1, 0), (2, 1)), ((0,), (1,))),
        Shape("on_nameless", nameless_authors.block((0, 0), (0, 1), (3, 0), (4, 1), (5, 1)), ((0,), (1,))),
        Shape("on_scores", scores, ((0,), ())),
        Shape("on_authors_scores", authors_scores.block((0, 0), (0, 1), (1, 1)), ((0,), (1,))),
    ]
