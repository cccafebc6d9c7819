"""Views with unions: of tables, of joins, of themselves, under groups and joins; UNION, INTERSECT, EXCEPT and DISTINCT;
semijoins and antijoins by counts."""

from dataflow.plan.nodes import Source, Union
from dataflow.scalar import ColumnRef, Literal
from tests.simulation.plans import (
    COMMENTS,
    COUNT_ROWS,
    STORIES,
    STORY_USER,
    TAGS,
    UPVOTES,
    USERS,
    Joined,
    Shape,
    aggregate,
    call,
    chain,
    count,
    first,
    greater,
    inner,
    is_null,
    least,
    left,
    number,
    over,
    total,
)
from tests.simulation.schema import BOOL, INT4, INT8, TEXT


def all_of(*sources: Source) -> Union:
    """UNION ALL."""
    return Union(sources)


def unions() -> list[Shape]:
    """UNION ALL as a view, under groups, between joins; branches with constants, over joins, over each other, equal."""
    people = all_of(
        chain("stories", "author", "id"), chain("comments", "author", "story"), chain("votes", "voter", "story")
    )
    tagged = Joined(first(STORIES), inner(TAGS, (0, 0, 0)))
    texts = all_of(
        tagged.block((0, 0), (0, 1), (1, 1)),
        chain("comments", "story", "author", "body"),
        chain("stories", "id", "author", "title"),
    )
    authors = STORY_USER.block((1, 0), (1, 1), (0, 0))
    voters = Joined(first(UPVOTES), inner(USERS, (0, 0, 1))).block((1, 0), (1, 1), (0, 0))
    active = all_of(authors, voters)
    kinds = all_of(chain("stories", "id", Literal("s", TEXT)), chain("comments", "story", Literal("c", TEXT)))
    twice = all_of(TAGS, TAGS)
    nested = all_of(
        all_of(chain("votes", "voter", "story"), chain("comments", "author", "story")), chain("stories", "author", "id")
    )
    activity = aggregate(people, (0,), COUNT_ROWS, least(ColumnRef(1, INT4)))
    active_counts = aggregate(active, (0,), COUNT_ROWS)
    kind_counts = aggregate(kinds, (0, 1), COUNT_ROWS)
    everything = aggregate(people, (), COUNT_ROWS, total(ColumnRef(1, INT4)), scalar=True)
    user_activity = Joined(first(USERS), left(activity, (0, 0, 0)))
    user_people = Joined(first(USERS), inner(people, (0, 0, 0)), left(STORIES, (0, 1, 1)))
    story_texts = Joined(first(STORIES), left(texts, (0, 0, 0)))
    scored = Joined(first(active_counts), inner(nested, (0, 0, 0)))
    return [
        Shape("people", people, ((0,), (1,), (0, 1), (0, 0), ())),
        Shape("texts", texts, ((0,), (1,), (2,), (0, 2))),
        Shape("active", active, ((0,), (1,), (2,), (1, 2))),
        Shape("kinds", kinds, ((0,), (1,), (0, 1))),
        Shape("twice", twice, ((0,), (1,), ())),
        Shape("nested_union", nested, ((0,), (1,))),
        Shape("activity", over(activity), ((0,), ())),
        Shape("active_counts", over(active_counts), ((0,),)),
        Shape("kind_counts", over(kind_counts), ((0,), (1,), (0, 1))),
        Shape("everything", over(everything), ((),)),
        Shape("user_activity", user_activity.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,))),
        Shape("user_people", user_people.block((0, 0), (0, 1), (1, 1), (2, 2)), ((0,), (1,), (2,), ())),
        Shape("story_texts", story_texts.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,))),
        Shape("scored_union", scored.block((0, 0), (0, 1), (1, 1)), ((0,), (2,))),
    ]


def tagged_with(source_tag: str, *columns: str, table: str) -> Source:
    """A branch of INTERSECT or EXCEPT: its columns, and from which side they are."""
    return chain(table, *columns, Literal(source_tag, TEXT))


def sets() -> list[Shape]:
    """DISTINCT and UNION as groups without calls; INTERSECT and EXCEPT as counts per side; EXISTS and NOT EXISTS."""
    names = over(aggregate(USERS, (1,)))
    titles = over(aggregate(chain("stories", "author", "title"), (0, 1)))
    karma = over(aggregate(USERS, (2,)))
    pairs = all_of(chain("votes", "voter", "story"), chain("comments", "author", "story"))
    united = over(aggregate(pairs, (0, 1)))
    numbers = over(aggregate(all_of(chain("users", "karma"), chain("stories", "score")), (0,)))
    sides = all_of(
        tagged_with("l", "voter", "story", table="votes"), tagged_with("r", "author", "story", table="comments")
    )
    from_left = call(
        "case", INT4, call("=", BOOL, ColumnRef(2, TEXT), Literal("l", TEXT)), number(1), Literal(None, INT4)
    )
    from_right = call(
        "case", INT4, call("=", BOOL, ColumnRef(2, TEXT), Literal("r", TEXT)), number(1), Literal(None, INT4)
    )
    counted = aggregate(sides, (0, 1), count(from_left), count(from_right))
    some_left, some_right = (greater(ColumnRef(i, INT8), number(0, INT8)) for i in (2, 3))
    both = call("and", BOOL, some_left, some_right)
    only_left = call("and", BOOL, some_left, call("not", BOOL, some_right))
    upvoted = aggregate(UPVOTES, (0,), COUNT_ROWS)
    semi = Joined(first(STORIES), inner(upvoted, (0, 0, 0)))
    anti = Joined(first(STORIES), left(upvoted, (0, 0, 0)))
    replied = aggregate(COMMENTS, (3,), COUNT_ROWS)
    unanswered = Joined(first(COMMENTS), left(replied, (0, 0, 0)), left(upvoted, (0, 0, 1)))
    neither = call("and", BOOL, is_null(unanswered.col(1, 1)), is_null(unanswered.col(2, 1)))
    commenting = aggregate(all_of(chain("comments", "author"), chain("votes", "voter")), (0,), COUNT_ROWS)
    silent = Joined(first(USERS), left(commenting, (0, 0, 0)))
    return [
        Shape("distinct_names", names, ((0,), ())),
        Shape("distinct_titles", titles, ((0,), (1,), (0, 1))),
        Shape("distinct_karma", karma, ((0,), ())),
        Shape("union_pairs", united, ((0,), (1,), (0, 1), ())),
        Shape("union_numbers", numbers, ((0,), ())),
        Shape("intersect", over(counted, both), ((0,), (1,), (0, 1), ())),
        Shape("except", over(counted, only_left), ((0,), (1,), (0, 1), ())),
        Shape("exists", semi.block((0, 0), (0, 1), (0, 2)), ((0,), (1,), ())),
        Shape("not_exists", anti.block((0, 0), (0, 1), where=is_null(anti.col(1, 1))), ((0,), (1,), ())),
        Shape("unanswered", unanswered.block((0, 0), (0, 1), (0, 2), where=neither), ((0,), (1,), (2,))),
        Shape("silent", silent.block((0, 0), (0, 1), where=is_null(silent.col(1, 1))), ((0,), (1,))),
    ]
