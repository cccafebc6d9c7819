"""Views that the engine does not keep but refreshes: what they hold, as plan nodes for the oracle, and what is said of
what they read, which is as narrow as it may be, so that whatever the engine leaves out is missed.

Invariants: a column that the relation reads is among those that are read; a key narrows a read only by columns whose
texts are their values.
"""

from dataclasses import dataclass

from dataflow.engine.events import InstallRefresh, InstallView
from dataflow.engine.key_sizes import KeyLimits
from dataflow.plan.nodes import Frame, Source, View, Window, WindowCall, column_types
from dataflow.plan.refresh import RefreshParameter, RefreshView, TableRead
from dataflow.scalar import ColumnRef, Scalar
from dataflow.types import Columns, ViewId
from tests.simulation.plans import (
    COMMENTS,
    COUNT_ROWS,
    FAILING,
    FOLLOWS,
    SCORE,
    STORIES,
    STORY_USER,
    STORY_VOTES,
    TABLE_BY_NAME,
    UPVOTES,
    USERS,
    VOTES,
    WEIGHT,
    Joined,
    aggregate,
    call,
    chain,
    first,
    greater,
    inner,
    is_null,
    number,
    over,
    tables_of,
    total,
    view_of,
)
from tests.simulation.schema import BOOL, INT4, LATE_TABLE
from tests.simulation.set_views import all_of

#: How long an answer of a view that expires is good. The world has no time: such a key is evicted like any other.
EXPIRES_AFTER_MS = 1000


@dataclass(frozen=True, slots=True)
class Refreshed:
    """A view as the oracle takes it, and as the engine does."""

    view: View
    refresh: RefreshView


def reading(table: str, *columns: str, where: Scalar | None = None, **keys: int) -> TableRead:
    """A read of some columns (all by default), narrowed by `keys`, positions of the view's key by column."""
    known = TABLE_BY_NAME[table]
    names = columns or tuple(column.name for column in known.columns)
    narrowed = tuple(sorted((known.ordinal(name), position) for name, position in keys.items()))
    return TableRead(known.name, frozenset(map(known.ordinal, names)), where, narrowed)


def refreshed(name: str, relation: Source, key: Columns, *reads: TableRead, ttl_ms: int | None = None) -> Refreshed:
    """A view that shows all columns of `relation`, by `key`."""
    types = column_types(relation)
    parameters = tuple(RefreshParameter(f"p{i}", types[column]) for i, column in enumerate(key))
    output = tuple((f"c{i}", sql_type) for i, sql_type in enumerate(types))
    refresh = RefreshView(name, name, parameters, output, reads, "it is to be refreshed", ttl_ms)
    return Refreshed(view_of(name, relation, key), refresh)


def of_one_table() -> list[Refreshed]:
    """Narrowed by the key, by a filter, by columns, or by nothing; empty groups; copies of rows."""
    up, good = greater(WEIGHT, number(0)), greater(SCORE, number(0, SCORE.type))
    upvotes = chain("votes", "voter", "weight", where=up)
    sums = over(aggregate(upvotes, (0,), COUNT_ROWS, total(ColumnRef(1, INT4)), scalar=True))
    best = over(Window(VOTES, (0,), (WindowCall("max", (WEIGHT,), (), Frame(end=None), INT4),)))
    authors = all_of(chain("stories", "author"), chain("comments", "author"))
    titles = chain("stories", "title", where=good)
    by_author = chain("stories", "author", "title", where=good)
    return [
        refreshed("refreshed_stories", STORIES, (1,), reading("stories", author=0)),
        refreshed("refreshed_story", STORIES, (0, 1), reading("stories", id=0, author=1)),
        refreshed("refreshed_titles", titles, (), reading("stories", "title", "score", where=good)),
        refreshed(
            "refreshed_good", by_author, (0,), reading("stories", "author", "title", "score", where=good, author=0)
        ),
        # A number has several texts, so a key of one narrows nothing.
        refreshed("refreshed_by_score", STORIES, (3,), reading("stories")),
        refreshed("refreshed_sums", sums, (0,), reading("votes", "voter", "weight", where=up, voter=0)),
        refreshed("refreshed_best", best, (1,), reading("votes")),
        refreshed(
            "refreshed_authors",
            authors,
            (0,),
            reading("stories", "author", author=0),
            reading("comments", "author", author=0),
        ),
        refreshed("refreshed_expiring", STORIES, (1,), reading("stories", author=0), ttl_ms=EXPIRES_AFTER_MS),
    ]


def of_several() -> list[Refreshed]:
    """Joins, each table narrowed by another part of the key or by none; one table read twice in different ways."""
    up, down = greater(WEIGHT, number(0)), greater(number(0), WEIGHT)
    downvotes = chain("votes", "story", "voter", where=down)
    story_user = STORY_USER.block((0, 0), (0, 1), (0, 2), (1, 1))
    replies = Joined(first(COMMENTS), inner(COMMENTS, (0, 0, 3))).block((0, 0), (0, 1), (1, 2))
    disputed = Joined(first(UPVOTES), inner(downvotes, (0, 0, 0))).block((0, 0), (0, 1), (1, 1))
    counts = STORY_VOTES.block((0, 0), (0, 2), (1, 1), (1, 3))
    return [
        refreshed(
            "refreshed_story_user",
            story_user,
            (1, 3),
            reading("stories", "id", "author", "title", author=0),
            reading("users", "id", "name", id=0, name=1),
        ),
        refreshed(
            "refreshed_named",
            story_user,
            (3,),
            reading("stories", "id", "author", "title"),
            reading("users", "id", "name", name=0),
        ),
        refreshed(
            "refreshed_replies",
            replies,
            (1, 2),
            reading("comments", "id", "story", "parent", story=0),
            reading("comments", "id", "author", author=1),
        ),
        refreshed(
            "refreshed_disputed",
            disputed,
            (0,),
            reading("votes", where=up, story=0),
            reading("votes", where=down, story=0),
        ),
        refreshed(
            "refreshed_counts",
            counts,
            (0,),
            reading("stories", "id", "title", id=0),
            reading("votes", "story", "weight", story=0),
        ),
    ]


def of_the_late_table() -> list[Refreshed]:
    """The stream lacks some changes of it for a while."""
    followed = Joined(first(FOLLOWS), inner(USERS, (0, 0, 1))).block((0, 0), (0, 1), (1, 1))
    return [
        refreshed("refreshed_follows", FOLLOWS, (1,), reading("follows", followee=0)),
        refreshed(
            "refreshed_followed",
            followed,
            (2,),
            reading("follows", "follower", "followee"),
            reading("users", "id", "name", name=0),
        ),
    ]


def failing() -> list[Refreshed]:
    """The SQL fails for some rows, and so does the filter, which then says nothing."""
    overflowing = call("+", INT4, WEIGHT, number(2**31 - 1))
    weighed = chain("votes", "story", "voter", overflowing, where=call("not", BOOL, is_null(WEIGHT)))
    read = reading("votes", where=greater(overflowing, number(0)), story=0)
    return [refreshed(FAILING + "_refreshed", weighed, (0,), read)]


#: By name.
REFRESHED: dict[str, Refreshed] = {
    each.view.name: each for each in (*of_one_table(), *of_several(), *of_the_late_table(), *failing())
}
LATE_REFRESHED = tuple(name for name, each in REFRESHED.items() if LATE_TABLE in tables_of(each.view.relation))
EARLY_REFRESHED = tuple(name for name in REFRESHED if name not in LATE_REFRESHED)


def expires(view: View) -> bool:
    """Return whether the view's answers are good for a while, whatever changes."""
    return view.name in REFRESHED and REFRESHED[view.name].refresh.ttl_ms is not None


def installation(
    view_id: ViewId, view: View, limit_rows: int | None, whole: bool = False
) -> InstallView | InstallRefresh:
    """The event that installs a view, in its tier."""
    limits = KeyLimits(limit_rows)
    if view.name in REFRESHED:
        return InstallRefresh(view_id, REFRESHED[view.name].refresh, limits)
    return InstallView(view_id, view, whole, limits)
