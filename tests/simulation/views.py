"""The views that the simulation installs, built as plan nodes: one relation per way in which the engine can go wrong,
each with every set of parameters that makes its route another one.

Invariants: chains over one table share their columns where they can, so that views share materializations.
"""

from dataflow.plan.nodes import Frame, OrderTerm, TopK, View, Window, WindowCall
from dataflow.plan.rules.held_inputs import held
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from tests.simulation.aggregate_views import keeping_values
from tests.simulation.conditioned_views import conditioned
from tests.simulation.cross_views import cross_joins, more_in_on
from tests.simulation.parametric_views import parametric_shapes
from tests.simulation.partition_views import tops, windows
from tests.simulation.plans import (
    AUTHORS,
    COMMENT_COUNTS,
    COMMENT_STORY_AUTHOR,
    COMMENT_STORY_USER,
    COMMENTS,
    COUNT_ROWS,
    FAILING,
    FOLLOWS,
    KARMA,
    NAME,
    SCORE,
    STORIES,
    STORY_USER,
    STORY_VOTES,
    STORY_VOTES_COMMENTS,
    TAGS,
    TITLE,
    UPVOTES,
    USERS,
    VOTE_COUNTS,
    VOTE_STORY_AUTHOR,
    VOTES,
    WEIGHT,
    Joined,
    Shape,
    aggregate,
    average,
    call,
    chain,
    count,
    count_rows,
    field_of,
    first,
    greater,
    greatest,
    inner,
    least,
    left,
    left_on,
    number,
    or_number,
    over,
    tables_of,
    times,
    total,
)
from tests.simulation.schema import BOOL, INT4, INT8, LATE_TABLE, NUMERIC, TEXT
from tests.simulation.set_views import all_of, sets, unions


def single_tables() -> list[Shape]:
    """Chains, alone."""
    no_title = call("coalesce", TEXT, TITLE, Literal("none", TEXT))
    weighty = chain("votes", "story", "weight", where=greater(WEIGHT, number(0)))
    return [
        Shape("stories", STORIES, ((0,), (1,), (1, 2), (0, 1), (3,), (1, 1), ())),
        Shape("weighty_votes", weighty, ((0,), (1,), ())),
        Shape("titles", chain("stories", "id", "author", no_title), ((1,), (2,), (1, 2))),
        Shape("karma", chain("users", "karma", "id"), ((0,), (0, 1))),
        Shape("tags", TAGS, ((0,), (1,), (0, 1))),
    ]


def aggregates_over_chains() -> list[Shape]:
    """All functions, grouped and not, by numbers with several spellings, with HAVING."""
    everything = (COUNT_ROWS, count(WEIGHT), total(WEIGHT), average(WEIGHT), least(WEIGHT), greatest(WEIGHT))
    by_story = aggregate(VOTES, (0,), *everything)
    several = greater(ColumnRef(1, INT8), number(1, INT8))
    scores = aggregate(STORIES, (1,), COUNT_ROWS, total(SCORE), average(SCORE), count(SCORE))
    scalar_scores = aggregate(STORIES, (1,), COUNT_ROWS, total(SCORE), average(SCORE), greatest(TITLE), scalar=True)
    scalar_two = aggregate(STORIES, (2, 1), COUNT_ROWS, total(SCORE), least(TITLE), scalar=True)
    scalar_all = aggregate(VOTES, (), *everything, scalar=True)
    scalar_counts = aggregate(VOTES, (), COUNT_ROWS, total(WEIGHT), scalar=True)
    return [
        Shape("votes_of_story", over(by_story), ((0,), (0, 0), (1,), ())),
        Shape("votes_of_story_voter", over(aggregate(VOTES, (0, 1), *everything)), ((0,), (1,), (0, 1), (1, 0))),
        Shape("popular", over(by_story, several), ((0,), ())),
        Shape("scores", over(scores), ((0,), ())),
        Shape("scalar_scores", over(scalar_scores), ((0,),)),
        Shape("scalar_scores_having", over(scalar_scores, several), ((0,),)),
        Shape("scalar_title_author", over(scalar_two), ((0, 1), (1, 0))),
        Shape("scalar_votes", over(scalar_all), ((),)),
        Shape("scalar_vote_counts", over(scalar_counts), ((),)),
        Shape("users_by_karma", over(aggregate(USERS, (2,), COUNT_ROWS, least(NAME), total(KARMA))), ((0,), ())),
        # Without a sum beside them nothing keeps 1.0 and 1.00 apart in the looked-up state.
        Shape("least_score", over(aggregate(STORIES, (2,), least(SCORE))), ((0,), ())),
        Shape("greatest_karma", over(aggregate(USERS, (1,), COUNT_ROWS, greatest(KARMA))), ((0,), ())),
        Shape("extremes", over(aggregate(STORIES, (2,), least(SCORE), greatest(SCORE), average(SCORE))), ((0,), ())),
    ]


def inner_joins() -> list[Shape]:
    """Two to four inputs, driven from each, straddled, incongruent, with themselves, by two conditions."""
    replies = Joined(first(COMMENTS), inner(COMMENTS, (3, 0, 0)))
    siblings = Joined(first(COMMENTS), inner(COMMENTS, (1, 0, 1)))
    grandchildren = Joined(first(COMMENTS), inner(COMMENTS, (3, 0, 0)), inner(COMMENTS, (3, 1, 0)))
    voted_and_commented = Joined(first(COMMENTS), inner(STORIES, (0, 0, 1)), inner(VOTES, (0, 1, 0), (1, 0, 2)))
    four = Joined(first(VOTES), inner(STORIES, (0, 0, 0)), inner(USERS, (0, 1, 1)), inner(TAGS, (0, 1, 0)))
    same_number = Joined(first(USERS), inner(STORIES, (3, 0, 2)))
    story_user = STORY_USER.block((0, 0), (0, 2), (0, 1), (1, 1), (1, 2))
    tagged = Joined(first(STORIES), inner(TAGS, (0, 0, 0)))
    return [
        Shape("story_user", story_user, ((0,), (2,), (3,), (4,), (1, 3), (0, 3), (1, 4), ())),
        Shape(
            "comment_story_user",
            COMMENT_STORY_USER.block((0, 0), (0, 1), (0, 4), (1, 1), (1, 2), (2, 0), (2, 1)),
            ((0,), (1,), (3,), (5,), (6,), (4, 6), (2, 4, 6), (3, 5)),
        ),
        Shape(
            "comment_story_author",
            COMMENT_STORY_AUTHOR.block((0, 0), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1), (2, 2)),
            ((0,), (1,), (2,), (4,), (5,), (6,), (1, 5), (3, 5)),
        ),
        Shape("four", four.block((0, 1), (0, 2), (1, 0), (2, 1), (3, 1)), ((0,), (2,), (3,), (4,), (0, 4), (3, 4), ())),
        Shape("replies", replies.block((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)), ((0,), (1,), (2,), (3,), (4,), (2, 4))),
        Shape("siblings", siblings.block((0, 0), (0, 1), (1, 0), (1, 2)), ((0,), (1,), (2,), (3,), (0, 3))),
        Shape(
            "grandchildren",
            grandchildren.block((0, 0), (0, 2), (1, 2), (2, 0), (2, 2)),
            ((0,), (1,), (2,), (4,), (1, 4)),
        ),
        Shape(
            "voted_and_commented",
            voted_and_commented.block((0, 0), (0, 2), (1, 0), (1, 1), (2, 2)),
            ((0,), (1,), (2,), (3,), (1, 3)),
        ),
        Shape("same_number", same_number.block((0, 0), (0, 2), (1, 0), (1, 3)), ((0,), (1,), (2,), (3,))),
        Shape("tagged", tagged.block((0, 0), (0, 1), (1, 1)), ((0,), (1,), (2,), (1, 2), ())),
        Shape(
            "upvoted",
            Joined(first(STORIES), inner(UPVOTES, (0, 0, 0))).block((0, 0), (0, 1), (1, 1)),
            ((0,), (1,), (2,)),
        ),
    ]


def left_joins() -> list[Shape]:
    """Padding, off inner and left inputs, with aggregates, filtered after it, of whole joins."""
    story_votes_rows = Joined(first(STORIES), left(VOTES, (0, 0, 0)))
    story_comment_user = Joined(first(STORIES), left(COMMENTS, (1, 0, 0)), left(USERS, (0, 1, 2)))
    user_story_votes = Joined(first(USERS), left(STORIES, (1, 0, 0)), left(VOTE_COUNTS, (0, 1, 0)))
    rich = Joined(
        first(STORIES), inner(USERS, (0, 0, 1)), left(VOTE_COUNTS, (0, 0, 0)), left(COMMENT_COUNTS, (0, 0, 0))
    )
    story_votes_comment_user = Joined(
        first(STORIES), left(VOTE_COUNTS, (0, 0, 0)), left(COMMENTS, (1, 0, 0)), left(USERS, (0, 2, 2))
    )
    story_tags_comment_user = Joined(
        first(STORIES),
        left(TAGS, (0, 0, 0)),
        left(COMMENTS, (1, 0, 0)),
        left(USERS, (0, 2, 2)),
        left(UPVOTES, (0, 2, 1)),
    )
    nobody = call("is null", BOOL, story_votes_rows.col(1, 0))
    return [
        Shape(
            "story_votes",
            STORY_VOTES.block((0, 0), (0, 1), (0, 2), or_number(STORY_VOTES.col(1, 1), 0), (1, 3)),
            ((0,), (1,), (1, 2), (3,), ()),
        ),
        Shape(
            "story_vote_rows", story_votes_rows.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,), (2,), (1, 2), ())
        ),
        Shape("unvoted", story_votes_rows.block((0, 0), (0, 1), where=nobody), ((0,), (1,), ())),
        Shape(
            "story_comment_user",
            story_comment_user.block((0, 0), (0, 1), (1, 0), (1, 2), (2, 1)),
            ((0,), (1,), (4,), ()),
        ),
        Shape(
            "story_votes_comment_user",
            story_votes_comment_user.block((0, 0), (0, 1), (1, 1), (2, 0), (3, 1)),
            ((0,), (1,), ()),
        ),
        Shape(
            "story_tags_comment_user",
            story_tags_comment_user.block((0, 0), (0, 1), (1, 1), (2, 0), (3, 1), (4, 1)),
            ((0,), (1,)),
        ),
        Shape("user_story_votes", user_story_votes.block((0, 0), (0, 1), (1, 0), (1, 2), (2, 1)), ((0,), (1,), (2,))),
        Shape(
            "rich_story", rich.block((0, 0), (0, 2), (1, 0), (1, 1), (2, 1), (2, 3), (3, 1)), ((0,), (2,), (3,), (1, 3))
        ),
    ]


def left_joins_by_two_ways() -> list[Shape]:
    """Padding off an input that two inputs hang off, or that is read twice, and off a join within."""
    parents = Joined(first(COMMENTS), left(COMMENTS, (0, 0, 3)))
    commented_upvotes = Joined(first(COMMENTS), left(UPVOTES, (0, 0, 1), (1, 0, 2)))
    two_hang = Joined(first(COMMENTS), left(STORIES, (0, 0, 1)), left(VOTES, (0, 1, 0), (1, 0, 2)))
    tagged_stories = Joined(first(STORIES), inner(TAGS, (0, 0, 0))).block((0, 1), (0, 0), (1, 1))
    user_tags = Joined(first(USERS), left(tagged_stories, (0, 0, 0)))
    return [
        Shape("parents", parents.block((0, 0), (0, 1), (0, 3), (1, 0), (1, 4)), ((0,), (1,), (2,))),
        Shape(
            "commented_upvotes",
            commented_upvotes.block((0, 0), (0, 1), (0, 2), (1, 0), (1, 1)),
            ((0,), (1,), (2,), (1, 2)),
        ),
        Shape("two_hang", two_hang.block((0, 0), (0, 2), (1, 1), (1, 0), (2, 2)), ((0,), (1,), (2,))),
        Shape("user_tags", user_tags.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,), ())),
    ]


def aggregates_over_blocks() -> list[Shape]:
    """Groups of joined rows, weighted ones too, and what is built on top of them."""
    weight, score = VOTE_STORY_AUTHOR.col(0, 2), VOTE_STORY_AUTHOR.col(1, 3)
    vote_rows = VOTE_STORY_AUTHOR.block((2, 0), (2, 1), weight, score, (1, 2))
    weight_column, score_column = ColumnRef(2, INT4), ColumnRef(3, NUMERIC)
    user_karma = aggregate(vote_rows, (0,), COUNT_ROWS, total(weight_column), average(score_column))
    name_karma = aggregate(
        vote_rows,
        (1,),
        COUNT_ROWS,
        count(weight_column),
        total(score_column),
        least(weight_column),
        greatest(ColumnRef(4, TEXT)),
    )
    title_name = aggregate(vote_rows, (4, 1), COUNT_ROWS, average(weight_column))
    scalar_name = aggregate(vote_rows, (1,), COUNT_ROWS, total(score_column), scalar=True)
    scalar_all = aggregate(vote_rows, (), COUNT_ROWS, total(weight_column), greatest(weight_column), scalar=True)
    users_karma = Joined(first(USERS), left(user_karma, (0, 0, 0)))
    active_users = Joined(first(USERS), inner(user_karma, (0, 0, 0)), inner(AUTHORS, (0, 0, 0)))
    histogram = aggregate(over(VOTE_COUNTS), (1,), COUNT_ROWS, total(ColumnRef(3, INT8)))
    story_scores = STORY_VOTES.block((0, 1), (0, 0), or_number(STORY_VOTES.col(1, 1), 0))
    users_stories = Joined(first(USERS), left(story_scores, (0, 0, 0)))
    users_count = users_stories.block((0, 1), (1, 2))
    return [
        Shape("user_karma", over(user_karma), ((0,), ())),
        Shape("name_karma", over(name_karma), ((0,), ())),
        Shape("title_name", over(title_name), ((0,), (1,), (0, 1))),
        Shape("scalar_name", over(scalar_name), ((0,),)),
        Shape("scalar_vote_rows", over(scalar_all), ((),)),
        Shape("users_karma", users_karma.block((0, 0), (0, 1), (1, 1), (1, 2), (1, 3)), ((0,), (1,), ())),
        Shape("active_users", active_users.block((0, 0), (0, 1), (1, 1), (2, 1), (2, 2)), ((0,), (1,), (3,), (1, 3))),
        Shape("histogram", over(histogram), ((0,), ())),
        Shape("user_stories", users_stories.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,))),
        Shape("names_votes", over(aggregate(users_count, (0,), COUNT_ROWS, total(ColumnRef(1, INT8)))), ((0,), ())),
        *weighted(),
    ]


def weighted() -> list[Shape]:
    """Eager aggregation: rows that stand for several, and partial sums."""
    one, two = STORY_VOTES, STORY_VOTES_COMMENTS
    votes = one.block((0, 1), (0, 3), or_number(one.col(1, 1), 1), or_number(one.col(1, 2), 0), (1, 3), (0, 2))
    rows, values, partial = ColumnRef(2, INT8), ColumnRef(3, INT8), ColumnRef(4, INT8)
    score = ColumnRef(1, NUMERIC)
    author_votes = aggregate(
        votes,
        (0,),
        count_rows(rows),
        count_rows(values),
        total(partial, None, values),
        average(partial, None, values),
        total(score, rows),
        average(score, rows),
        greatest(ColumnRef(5, TEXT)),
    )
    products = two.block(
        (0, 1), or_number(two.col(1, 1), 1), or_number(two.col(1, 2), 0), (1, 3), or_number(two.col(2, 1), 1)
    )
    first_rows, first_values = ColumnRef(1, INT8), ColumnRef(2, INT8)
    first_sum, second_rows = ColumnRef(3, INT8), ColumnRef(4, INT8)
    both = aggregate(
        products,
        (0,),
        count_rows(times(first_rows, second_rows)),
        total(first_sum, second_rows, first_values),
        average(first_sum, second_rows, first_values),
    )
    users_votes = Joined(first(USERS), left(author_votes, (0, 0, 0)))
    return [
        Shape("author_votes", over(author_votes), ((0,), ())),
        Shape("author_products", over(both), ((0,), ())),
        Shape("users_votes", users_votes.block((0, 0), (0, 1), (1, 1), (1, 3), (1, 5), (1, 6)), ((0,), (1,))),
    ]


def joins_over_aggregates() -> list[Shape]:
    """An aggregate as an inner input, driven from either side."""
    user_authors = Joined(first(USERS), inner(AUTHORS, (0, 0, 0)))
    busy = greater(user_authors.col(1, 1), number(1, INT8))
    counts = Joined(first(VOTE_COUNTS), inner(COMMENT_COUNTS, (0, 0, 0)), inner(STORIES, (0, 0, 0)))
    return [
        Shape(
            "user_authors", user_authors.block((0, 0), (0, 1), (1, 1), (1, 2), (1, 3)), ((0,), (1,), (2,), (1, 4), ())
        ),
        Shape("busy_authors", user_authors.block((0, 0), (0, 1), where=busy), ((0,), (1,))),
        Shape("counts", counts.block((0, 0), (0, 1), (1, 1), (2, 1), (2, 2)), ((0,), (3,), (3, 4), ())),
    ]


def without_provenance() -> list[Shape]:
    """Joins and groups by what no lookup can ask for, so that an input of a partial route is covered whole."""
    titled = chain("stories", "id", "author", call("coalesce", TEXT, TITLE, Literal("z", TEXT)))
    quoting = Joined(first(COMMENTS), inner(titled, (2, 0, 4)))
    maybe_quoting = Joined(first(COMMENTS), left(titled, (2, 0, 4)), left(USERS, (0, 1, 1)))
    by_count = Joined(first(USERS), inner(AUTHORS, (1, 0, 0)))
    maybe_by_count = Joined(first(USERS), left(VOTE_COUNTS, (1, 0, 0)), left(STORIES, (0, 1, 0)))
    rivals = Joined(first(AUTHORS), inner(AUTHORS, (1, 0, 1)))
    quoting_author = Joined(first(COMMENTS), inner(titled, (1, 0, 2), (2, 0, 4)))
    maybe_counted = Joined(first(COMMENTS), left(COMMENT_COUNTS, (0, 0, 1), (1, 0, 0)), left(VOTE_COUNTS, (0, 1, 0)))
    titles = aggregate(titled, (2,), COUNT_ROWS, greatest(ColumnRef(0, INT4)))
    titles_authors = aggregate(titled, (1, 2), COUNT_ROWS)
    return [
        Shape("quoting", quoting.block((0, 0), (0, 1), (1, 0), (1, 1), (1, 2)), ((0,), (1,), (2,), (3,), (4,), (1, 3))),
        Shape(
            "quoting_author",
            quoting_author.block((0, 0), (0, 1), (1, 0), (1, 1), (1, 2)),
            ((0,), (2,), (3,), (4,), (3, 4)),
        ),
        Shape("maybe_counted", maybe_counted.block((0, 0), (0, 1), (1, 0), (1, 1), (2, 1)), ((0,), (1,))),
        Shape("maybe_quoting", maybe_quoting.block((0, 0), (0, 1), (1, 0), (1, 2), (2, 1)), ((0,), (1,), ())),
        Shape("by_count", by_count.block((0, 0), (0, 1), (1, 0), (1, 1)), ((0,), (1,), (2,), (3,))),
        Shape("maybe_by_count", maybe_by_count.block((0, 0), (0, 1), (1, 0), (2, 2)), ((0,), (1,))),
        Shape("rivals", rivals.block((0, 0), (0, 1), (1, 0), (1, 3)), ((0,), (2,), (0, 2))),
        Shape("title_counts", over(titles), ((0,),)),
        *default_rows(),
        Shape("title_author_counts", over(titles_authors), ((0,), (0, 1))),
    ]


def default_rows() -> list[Shape]:
    """Groups without GROUP BY by what no lookup can ask for: a key without rows has a row all the same."""
    titled = chain("stories", "author", call("coalesce", TEXT, TITLE, Literal("z", TEXT)), "score")
    sums = (COUNT_ROWS, total(ColumnRef(2, NUMERIC)))
    rows = Joined(first(USERS), left(STORIES, (1, 0, 0))).block((1, 2), (0, 0))
    kinds = all_of(chain("stories", "id", Literal("s", TEXT)), chain("comments", "story", Literal("c", TEXT)))
    return [
        Shape("default_titles", over(aggregate(held(titled), (1,), *sums, scalar=True)), ((0,),)),
        Shape("default_authors", over(aggregate(held(titled), (0, 1), *sums, scalar=True)), ((0, 1), (1, 0))),
        Shape("default_joined", over(aggregate(held(rows), (0,), COUNT_ROWS, scalar=True)), ((0,),)),
        Shape("default_kinds", over(aggregate(held(kinds), (1,), COUNT_ROWS, scalar=True)), ((0,),)),
        Shape("default_two_kinds", over(aggregate(held(kinds), (0, 1), COUNT_ROWS, scalar=True)), ((0, 1),)),
    ]


def blocks_in_blocks() -> list[Shape]:
    """A block as an inner input, driven from outside and from inside, and several levels of groups."""
    scores = STORY_VOTES.block((0, 1), (0, 0), or_number(STORY_VOTES.col(1, 1), 0))
    user_scores = Joined(first(USERS), inner(scores, (0, 0, 0)))
    score_comments = Joined(first(scores), inner(COMMENTS, (1, 0, 1)), left(TAGS, (0, 0, 1)))
    sums = aggregate(STORIES, (1,), count(SCORE), total(SCORE))
    user_sums = Joined(first(USERS), left(sums, (0, 0, 0)))
    sums_by_name = user_sums.block((0, 1), (1, 2), or_number(user_sums.col(1, 1), 0))
    partial, values = ColumnRef(1, NUMERIC), ColumnRef(2, INT8)
    name_sums = aggregate(sums_by_name, (0,), COUNT_ROWS, total(partial, None, values), average(partial, None, values))
    rows = VOTE_STORY_AUTHOR.block((2, 1), (1, 2), (0, 2))
    scalar_straddled = aggregate(rows, (1, 0), COUNT_ROWS, total(ColumnRef(2, INT4)), scalar=True)
    replying = chain("comments", where=call("is not null", BOOL, field_of("comments", "parent")))
    roots = chain("comments", where=call("is null", BOOL, field_of("comments", "parent")))
    threads = Joined(first(roots), left(replying, (3, 0, 0)))
    return [
        Shape("user_scores", user_scores.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,), (2,), (3,), (1, 2))),
        Shape(
            "score_comments",
            score_comments.block((0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (2, 1)),
            ((0,), (1,), (3,), (4,), (0, 4)),
        ),
        Shape("name_sums", over(name_sums), ((0,), ())),
        Shape("scalar_straddled", over(scalar_straddled), ((0, 1),)),
        Shape("threads", threads.block((0, 0), (0, 1), (0, 2), (1, 0), (1, 2)), ((0,), (1,), (2,), ())),
    ]


def failing() -> list[Shape]:
    """Expressions that fail for some rows: what has none of these lives on."""

    def overflowing(weight: Scalar) -> Call:
        return call("+", INT4, weight, number(2**31 - 1))

    joined = Joined(first(VOTES), inner(STORIES, (0, 0, 0)))
    sums = aggregate(VOTES, (0,), COUNT_ROWS, total(overflowing(WEIGHT)))
    joined_sums = aggregate(joined.block((1, 1), (0, 2)), (0,), COUNT_ROWS, total(overflowing(ColumnRef(1, INT4))))
    user_sums = Joined(first(USERS), left(joined_sums, (0, 0, 0)))
    votes = chain("votes", "story", "voter", overflowing(WEIGHT))
    either = aggregate(all_of(votes, chain("comments", "story", "author", "id")), (0,), COUNT_ROWS)
    running = Window(VOTES, (0,), (WindowCall("max", (overflowing(WEIGHT),), (), Frame(end=None), INT4),))
    best = Joined(first(STORIES), left(TopK(votes, (0,), (OrderTerm(2),), 1), (0, 0, 0)))
    above = left_on(
        Joined(first(STORIES)), VOTES, (0, 0, 0), rest=lambda j: greater(overflowing(j.col(1, 2)), j.col(0, 1))
    )
    above_users = Joined(*above.inputs, left(USERS, (0, 1, 1)))
    return [
        Shape(FAILING + "_union", over(either), ((0,), ())),
        Shape(FAILING + "_window", over(running), ((0,), (1,))),
        Shape(FAILING + "_top", best.block((0, 0), (0, 1), (1, 2)), ((0,), (1,))),
        Shape(FAILING + "_on", above_users.block((0, 0), (0, 1), (1, 1), (1, 2), (2, 1)), ((0,), (1,), ())),
        Shape(FAILING + "_votes", chain("votes", "story", "voter", overflowing(WEIGHT)), ((0,), (1,), ())),
        Shape(FAILING + "_join", joined.block((0, 0), (1, 1), overflowing(joined.col(0, 2))), ((0,), (1,), ())),
        Shape(FAILING + "_sums", over(sums), ((0,), ())),
        Shape(FAILING + "_joined_sums", over(joined_sums), ((0,), ())),
        Shape(FAILING + "_user_sums", user_sums.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,))),
    ]


def late_tables() -> list[Shape]:
    """Views over the table that joins the publication late."""
    followed = Joined(first(FOLLOWS), inner(USERS, (0, 0, 1)))
    followers = Joined(first(USERS), left(aggregate(FOLLOWS, (1,), COUNT_ROWS), (0, 0, 0)))
    followed_stories = Joined(first(FOLLOWS), inner(STORIES, (1, 0, 1)))
    return [
        Shape("follows", FOLLOWS, ((0,), (1,), ())),
        Shape("followed", followed.block((0, 0), (0, 2), (1, 0), (1, 1)), ((0,), (1,), (2,), (3,))),
        Shape("followers", followers.block((0, 0), (0, 1), (1, 1)), ((0,), (1,), ())),
        Shape("followed_stories", followed_stories.block((0, 0), (0, 2), (1, 0)), ((0,), (2,))),
    ]


SHAPES: tuple[Shape, ...] = (
    *single_tables(),
    *aggregates_over_chains(),
    *inner_joins(),
    *left_joins(),
    *left_joins_by_two_ways(),
    *aggregates_over_blocks(),
    *joins_over_aggregates(),
    *without_provenance(),
    *blocks_in_blocks(),
    *failing(),
    *late_tables(),
    *cross_joins(),
    *more_in_on(),
    *conditioned(),
    *unions(),
    *sets(),
    *windows(),
    *tops(),
    *keeping_values(),
    *parametric_shapes(),
)
VIEWS: tuple[View, ...] = tuple(view for shape in SHAPES for view in shape.views())
LATE_VIEWS = tuple(view for view in VIEWS if LATE_TABLE in tables_of(view.relation))
EARLY_VIEWS = tuple(view for view in VIEWS if LATE_TABLE not in tables_of(view.relation))
