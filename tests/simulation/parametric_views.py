"""Views over parametric chains: by their parameters alone and by more, below aggregates, windows, unions and joins."""

from collections.abc import Callable
from dataclasses import replace

from dataflow.functions.series import SERIES_VALUE
from dataflow.plan.nodes import Aggregate, Block, BlockInput, Chain, ChainParameters, OrderTerm, TopK
from dataflow.plan.parametric import row_of_parameters
from dataflow.scalar import Call, ColumnRef, Scalar
from dataflow.schema import SqlType
from tests.simulation.plans import (
    COMMENT_COUNTS,
    COUNT_ROWS,
    SCORE,
    STORIES,
    TABLE_BY_NAME,
    USERS,
    VOTES,
    WEIGHT,
    Joined,
    Shape,
    aggregate,
    call,
    chain,
    count,
    field_of,
    first,
    greater,
    inner,
    left,
    number,
    over,
    total,
)
from tests.simulation.schema import BOOL, INT4, NUMERIC
from tests.simulation.set_views import all_of


def parametric(table: str, number: int, where: Callable[..., Scalar] | None = None, sql_type: SqlType = INT4) -> Chain:
    """All columns of a table, and those of so many parameters, which `where` is given."""
    first_column = len(TABLE_BY_NAME[table].columns)
    own = tuple(ColumnRef(first_column + i, sql_type) for i in range(number))
    plain = chain(table)
    return replace(
        plain,
        predicate=None if where is None else where(*own),
        columns=(*plain.columns, *own),
        parameters=ChainParameters(first_column, (sql_type,) * number),
    )


def _either(one: Scalar, other: Scalar) -> Scalar:
    return call("or", BOOL, one, other)


#: story, voter, weight, a weight that is less
HEAVIER = parametric("votes", 1, lambda least: greater(WEIGHT, least))
#: story, voter, weight, and two parameters, of which a row is between
BETWEEN = parametric("votes", 2, lambda least, most: call("and", BOOL, greater(WEIGHT, least), greater(most, WEIGHT)))
#: id, author, title, score, a score that is less and has several texts
BETTER = parametric("stories", 1, lambda least: greater(SCORE, least), NUMERIC)
#: id, author, title, score, reader
READ_STORIES = parametric("stories", 1)
#: id, story, author, parent, body, somebody
OF_SOMEBODY = parametric(
    "comments",
    1,
    lambda who: _either(
        call("=", BOOL, field_of("comments", "author"), who), call("=", BOOL, field_of("comments", "parent"), who)
    ),
)


def _series() -> Aggregate:
    """start, end, one of the first numbers from the one to the other."""
    stories = TABLE_BY_NAME["stories"]
    digits = all_of(*(Block((BlockInput(row_of_parameters(stories, ())),), None, (number(n),)) for n in range(5)))
    joined = Joined(first(row_of_parameters(stories, (INT4, INT4))), inner(digits))
    value = Call(SERIES_VALUE, (joined.col(0, 0), joined.col(0, 1), number(1), joined.col(1, 0)), INT4)
    return aggregate(joined.block((0, 0), (0, 1), value, where=call("is not null", BOOL, value)), (0, 1, 2))


def parametric_shapes() -> list[Shape]:
    """A filter, a value, an OR; groups with and without GROUP BY; joined by the parameter, or with it beside a key."""
    sums = (COUNT_ROWS, count(WEIGHT), total(WEIGHT))
    voted = Joined(first(READ_STORIES), left(VOTES, (0, 0, 0), (1, 0, 4))).block((0, 0), (0, 1), (0, 4), (1, 2))
    heavy_stories = Joined(first(HEAVIER), inner(STORIES, (0, 0, 0)), inner(USERS, (0, 1, 1)))
    both = Joined(first(HEAVIER), inner(OF_SOMEBODY, (1, 0, 0), (5, 0, 3)))
    groups = Joined(first(READ_STORIES), left(aggregate(HEAVIER, (0, 3), *sums), (0, 0, 0), (1, 0, 4)))
    none = Joined(first(READ_STORIES), left(aggregate(HEAVIER, (0, 3), COUNT_ROWS), (0, 0, 0), (1, 0, 4)))
    without = call("is null", BOOL, none.col(1, 2))
    compared = Joined(first(READ_STORIES), inner(COMMENT_COUNTS, (0, 0, 0)))
    more = greater(compared.col(1, 1), compared.col(0, 4))
    best = TopK(HEAVIER, (0, 3), (OrderTerm(2, descending=True), OrderTerm(1)), 1, with_ties=True)
    asked = Joined(
        first(row_of_parameters(TABLE_BY_NAME["stories"], (INT4, INT4))),
        left(aggregate(VOTES, (0,), COUNT_ROWS, total(WEIGHT)), (0, 0, 0)),
        left(aggregate(HEAVIER, (1, 3), COUNT_ROWS), (0, 0, 0), (1, 0, 1)),
    )
    numbers = Joined(first(_series()), left(aggregate(VOTES, (1,), COUNT_ROWS, total(WEIGHT)), (0, 0, 2)))
    stories_of = Joined(first(_series()), left(READ_STORIES, (1, 0, 2), (4, 0, 0)))
    kinds = all_of(
        replace(HEAVIER, columns=(*HEAVIER.columns[:2], HEAVIER.columns[3])),
        replace(OF_SOMEBODY, columns=(OF_SOMEBODY.columns[1], OF_SOMEBODY.columns[2], OF_SOMEBODY.columns[5])),
    )
    return [
        Shape("free_heavier", HEAVIER, ((3,), (0, 3), (1, 3), (0, 1, 3))),
        Shape("free_between", BETWEEN, ((3, 4), (0, 3, 4), (4, 3))),
        Shape("free_better", BETTER, ((4,), (1, 4))),
        Shape("free_better_authors", over(aggregate(BETTER, (1, 4), COUNT_ROWS)), ((1,), (0, 1))),
        Shape("free_of_somebody", OF_SOMEBODY, ((5,), (1, 5))),
        Shape("free_between_sums", over(aggregate(BETWEEN, (0, 3, 4), *sums)), ((1, 2), (0, 1, 2))),
        Shape("free_heavier_total", over(aggregate(HEAVIER, (3,), *sums, scalar=True)), ((0,),)),
        Shape("free_voted", voted, ((0, 2), (1, 2), (2,))),
        Shape("free_heavy_stories", heavy_stories.block((0, 0), (0, 3), (0, 2), (1, 1), (2, 1)), ((1,), (0, 1))),
        Shape("free_heavy_or_somebody", both.block((0, 0), (0, 3), (0, 1), (1, 0)), ((1,), (0, 1))),
        Shape("free_heavier_groups", groups.block((0, 0), (0, 1), (0, 4), (1, 2), (1, 4)), ((0, 2), (1, 2), (2,))),
        Shape("free_no_heavier", none.block((0, 0), (0, 1), (0, 4), where=without), ((0, 2), (1, 2))),
        Shape("free_more_comments", compared.block((0, 0), (0, 1), (0, 4), where=more), ((2,), (0, 2), (1, 2))),
        Shape("free_asked", asked.block((0, 0), (0, 1), (1, 1), (1, 2), (2, 2)), ((0, 1), (1, 0))),
        Shape("free_series", numbers.block((0, 0), (0, 1), (0, 2), (1, 1), (1, 2)), ((0, 1), (1, 0))),
        Shape("free_series_stories", stories_of.block((0, 0), (0, 1), (0, 2), (1, 0)), ((0, 1), (0, 1, 2))),
        Shape("free_heaviest", over(best), ((3,), (0, 3))),
        Shape("free_kinds", over(aggregate(kinds, (0, 2), COUNT_ROWS)), ((1,), (0, 1))),
    ]
