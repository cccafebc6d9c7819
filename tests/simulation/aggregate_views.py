"""Views with the aggregates that keep values: DISTINCT, lists, truths, FILTER; over tables, joins and unions."""

from dataclasses import replace

from dataflow.plan.nodes import AggregateCall, AggregateFunction, CallOrder
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from tests.simulation.plans import (
    COUNT_ROWS,
    KARMA,
    STORIES,
    USERS,
    VOTE_STORY_AUTHOR,
    VOTES,
    WEIGHT,
    Joined,
    Shape,
    aggregate,
    chain,
    count,
    first,
    greater,
    left,
    number,
    over,
    total,
)
from tests.simulation.schema import BOOL, INT4, TEXT
from tests.simulation.set_views import all_of

INT4_ARRAY = SqlType("int4", "int4[]", kind="array", element=INT4)
COMMA = Literal(",", TEXT)


def distinct(call: AggregateCall) -> AggregateCall:
    """f(DISTINCT x)."""
    return replace(call, distinct=True)


def filtered(call: AggregateCall, condition: Scalar) -> AggregateCall:
    """f(…) FILTER (WHERE condition)."""
    return replace(call, keeps=condition)


def truth(function: AggregateFunction, argument: Scalar) -> AggregateCall:
    """bool_and or bool_or."""
    return AggregateCall(function, argument, BOOL)


def texts(argument: Scalar, descending: bool = False) -> AggregateCall:
    """string_agg(x, ',' ORDER BY x)."""
    order = (CallOrder(argument, descending),)
    return AggregateCall(AggregateFunction.STRING_AGG, argument, TEXT, others=(COMMA,), order=order)


def numbers(argument: Scalar) -> AggregateCall:
    """array_agg(x ORDER BY x)."""
    return AggregateCall(AggregateFunction.ARRAY_AGG, argument, INT4_ARRAY, order=(CallOrder(argument),))


def keeping_values() -> list[Shape]:
    """DISTINCT, lists, truths and FILTER."""
    heavy = greater(WEIGHT, number(0))
    votes = aggregate(
        VOTES,
        (0,),
        distinct(count(WEIGHT)),
        distinct(total(WEIGHT)),
        filtered(COUNT_ROWS, heavy),
        truth(AggregateFunction.BOOL_AND, heavy),
        truth(AggregateFunction.BOOL_OR, heavy),
        numbers(WEIGHT),
    )
    title, story = ColumnRef(2, TEXT), ColumnRef(0, INT4)
    titles = aggregate(STORIES, (1,), texts(title), distinct(texts(title, descending=True)), numbers(story))
    everything = aggregate(VOTES, (), distinct(count(WEIGHT)), numbers(ColumnRef(1, INT4)), COUNT_ROWS, scalar=True)
    karma = aggregate(USERS, (1,), distinct(count(KARMA)), COUNT_ROWS)
    rows = VOTE_STORY_AUTHOR.block((2, 1), (0, 2), (1, 2))
    weight = ColumnRef(1, INT4)
    joined = aggregate(
        rows,
        (0,),
        distinct(count(weight)),
        texts(title),
        filtered(total(weight), greater(weight, number(0))),
        numbers(weight),
    )
    people = all_of(chain("stories", "author", "id"), chain("comments", "author", "story"))
    of_people = aggregate(people, (0,), distinct(count(weight)), numbers(weight))
    users_titles = Joined(first(USERS), left(titles, (0, 0, 0)))
    return [
        Shape("values_of_votes", over(votes), ((0,), ())),
        Shape("values_of_titles", over(titles), ((0,), ())),
        Shape("values_of_everything", over(everything), ((),)),
        Shape("values_of_karma", over(karma), ((0,),)),
        Shape("values_joined", over(joined), ((0,), ())),
        Shape("values_of_people", over(of_people), ((0,),)),
        Shape("values_of_users", users_titles.block((0, 0), (0, 1), (1, 1), (1, 2)), ((0,), (1,))),
    ]
