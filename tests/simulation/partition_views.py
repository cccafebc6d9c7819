"""Views with windows and top-k: over tables, joins, unions and each other; by the partition and by more; in joins."""

from dataflow.plan.nodes import Frame, FrameMode, OrderTerm, Source, TopK, Window, WindowCall
from dataflow.scalar import ColumnRef, Scalar
from dataflow.schema import SqlType
from dataflow.types import Columns
from tests.simulation.plans import (
    COMMENTS,
    COUNT_ROWS,
    STORIES,
    STORY_USER,
    TAGS,
    USERS,
    VOTE_COUNTS,
    VOTES,
    Joined,
    Shape,
    aggregate,
    call,
    chain,
    first,
    inner,
    left,
    number,
    over,
)
from tests.simulation.schema import BOOL, INT4, INT8
from tests.simulation.set_views import all_of

WHOLE = Frame(end=None)
ROWS_SO_FAR = Frame(FrameMode.ROWS)
NEIGHBOURS = Frame(FrameMode.ROWS, -1, 1)


def up(column: int) -> OrderTerm:
    """Ascending, NULLs last."""
    return OrderTerm(column)


def down(column: int) -> OrderTerm:
    """Descending, NULLs first."""
    return OrderTerm(column, descending=True, nulls_first=True)


def of(
    function: str, sql_type: SqlType, *arguments: Scalar, order: tuple[OrderTerm, ...] = (), frame: Frame | None = None
) -> WindowCall:
    """A window function over the default frame, or another."""
    return WindowCall(function, arguments, order, frame or Frame(), sql_type)


def top(source: Source, partition: Columns, limit: int, *order: OrderTerm, offset: int = 0, ties: bool = False) -> TopK:
    """ORDER BY … LIMIT within a partition."""
    return TopK(source, partition, order, limit, offset, ties)


def windows() -> list[Shape]:
    """Ranks, neighbours and running aggregates; with ties and NULLs; a filter on a rank; two windows on each other."""
    by_score = (down(3), up(0))
    ranks = Window(
        STORIES,
        (1,),
        (
            of("row_number", INT8, order=by_score),
            of("rank", INT8, order=(down(2),)),
            of("dense_rank", INT8, order=(up(2),)),
            of("lag", INT4, ColumnRef(0, INT4), order=by_score),
        ),
    )
    weight = ColumnRef(2, INT4)
    running = Window(
        VOTES,
        (0,),
        (
            of("sum", INT8, weight, order=(up(2),)),
            of("count", INT8, frame=WHOLE),
            of("max", INT4, weight, order=(up(1),), frame=NEIGHBOURS),
            of("sum", INT8, weight, order=(up(1),), frame=ROWS_SO_FAR),
        ),
    )
    of_two = Window(chain("comments", "author", "story", "id"), (0, 1), (of("row_number", INT8, order=(up(2),)),))
    whole = Window(TAGS, (), (of("rank", INT8, order=(up(1),)), of("count", INT8, frame=WHOLE)))
    joined = Window(STORY_USER.block((1, 1), (0, 0), (0, 2)), (0,), (of("row_number", INT8, order=(up(1),)),))
    people = all_of(chain("stories", "author", "id"), chain("comments", "author", "story"))
    of_people = Window(people, (0,), (of("dense_rank", INT8, order=(up(1),)), of("count", INT8, frame=WHOLE)))
    counted = Window(STORY_VOTES_BLOCK, (1,), (of("rank", INT8, order=(down(2),)),))
    stacked = Window(
        over(of_two), (0,), (of("count", INT8, frame=WHOLE), of("sum", INT8, ColumnRef(3, INT8), frame=WHOLE))
    )
    best = call("=", BOOL, ColumnRef(4, INT8), number(1, INT8))
    ranked_users = Joined(first(USERS), left(ranks, (1, 0, 0)))
    by_story = Joined(first(COMMENTS), inner(of_two, (0, 0, 2), (1, 0, 1)))
    by_row = Joined(first(COMMENTS), left(of_two, (1, 0, 1), (2, 0, 0)))
    return [
        Shape("window_ranks", over(ranks), ((1,), (0,), (1, 0), (1, 2), ())),
        Shape("window_running", over(running), ((0,), (1,), (0, 1))),
        Shape("window_two", over(of_two), ((0,), (1,), (0, 1), (1, 2), (0, 3))),
        Shape("window_whole", over(whole), ((0,), ())),
        Shape("window_joined", over(joined), ((0,), (1,), (0, 2))),
        Shape("window_people", over(of_people), ((0,), (1,), (0, 1))),
        Shape("window_counted", over(counted), ((1,), (0,))),
        Shape("window_stacked", over(stacked), ((0,), (1,), (0, 1))),
        Shape("window_best", over(ranks, best), ((1,), (0,))),
        Shape("window_users", ranked_users.block((0, 0), (0, 1), (1, 0), (1, 4)), ((0,), (1,), ())),
        Shape("window_by_story", by_story.block((0, 0), (0, 1), (0, 2), (1, 3)), ((0,), (1,), (2,))),
        Shape("window_by_row", by_row.block((0, 0), (0, 1), (1, 0), (1, 3)), ((0,), (1,))),
    ]


def tops() -> list[Shape]:
    """The first rows per key, with offsets and ties; of a join; in a join; of all rows; under groups; DISTINCT ON."""
    latest = top(COMMENTS, (1,), 2, down(0))
    second = top(STORIES, (1,), 1, up(3), up(0), offset=1)
    tied = top(VOTES, (0,), 1, up(2), ties=True)
    none = top(TAGS, (0,), 0, up(1))
    newest = top(STORIES, (), 2, down(0))
    of_join = top(STORY_USER.block((1, 1), (0, 0), (0, 2)), (0,), 1, down(1))
    of_union = top(all_of(chain("votes", "voter", "story"), chain("comments", "author", "story")), (0,), 2, down(1))
    of_counts = top(STORY_VOTES_BLOCK, (1,), 1, down(2), up(0))
    stories_latest = Joined(first(STORIES), left(latest, (1, 0, 0)), left(USERS, (0, 1, 2)))
    voted = Joined(first(USERS), inner(tied, (1, 0, 0)))
    front = Joined(first(newest), inner(USERS, (0, 0, 1)), left(VOTE_COUNTS, (0, 0, 0)))
    latest_counts = aggregate(over(latest), (2,), COUNT_ROWS)
    one_each = Joined(first(top(STORIES, (2,), 1, up(0))), inner(TAGS, (0, 0, 0)))
    return [
        Shape("top_latest", over(latest), ((1,), (0,), (1, 2), ())),
        Shape("top_second", over(second), ((1,), (0,), (1, 0))),
        Shape("top_tied", over(tied), ((0,), (1,))),
        Shape("top_none", over(none), ((0,), ())),
        Shape("top_newest", over(newest), ((0,), (1,), ())),
        Shape("top_of_join", over(of_join), ((0,), (1,))),
        Shape("top_of_union", over(of_union), ((0,), (1,))),
        Shape("top_of_counts", over(of_counts), ((1,), ())),
        Shape("top_stories", stories_latest.block((0, 0), (0, 1), (1, 0), (1, 4), (2, 1)), ((0,), (1,), (3,), ())),
        Shape("top_voted", voted.block((0, 0), (0, 1), (1, 0), (1, 2)), ((0,), (1,), (2,))),
        Shape("top_front", front.block((0, 0), (0, 1), (1, 1), (2, 1)), ((0,), (2,), ())),
        Shape("top_counts", over(latest_counts), ((0,), ())),
        Shape("top_one_each", one_each.block((0, 0), (0, 2), (1, 1)), ((0,), (1,), (2,))),
    ]


STORY_VOTES_BLOCK = Joined(first(STORIES), left(VOTE_COUNTS, (0, 0, 0))).block((0, 0), (0, 1), (1, 1))
