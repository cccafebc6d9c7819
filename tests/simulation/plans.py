"""Plans by hand: the words in which the simulation's views are written, and what many of them are made of."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from dataflow.plan.nodes import (
    Aggregate,
    AggregateCall,
    AggregateFunction,
    Block,
    BlockInput,
    Chain,
    JoinCondition,
    OutputColumn,
    Parameter,
    Relation,
    Source,
    View,
    column_types,
    inputs_of,
)
from dataflow.plan.parametric import is_parameter, joins_parameters
from dataflow.scalar import Call, ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.types import Columns
from tests.simulation.schema import BOOL, INT4, INT8, NUMERIC, TABLES

TABLE_BY_NAME = {t.name.removeprefix("public."): t for t in TABLES}


@dataclass(frozen=True, slots=True)
class Shape:
    """A relation and the column sets it is read by."""

    name: str
    relation: Source
    keys: tuple[Columns, ...]

    def views(self) -> list[View]:
        """One view per set of parameters."""
        return [
            view_of(f"{self.name}_by_{'_'.join(map(str, key)) or 'nothing'}", self.relation, key) for key in self.keys
        ]


# --- building blocks -------------------------------------------------------------------------------------------------


def view_of(name: str, relation: Source, key: Columns) -> View:
    """A view that shows all columns."""
    joined = joins_parameters(relation)
    parameters = tuple(
        Parameter(f"p{i}", column, takes_null=not joined and is_parameter(relation, column))
        for i, column in enumerate(key)
    )
    width = len(column_types(relation))
    return View(name, name, relation, parameters, tuple(OutputColumn(f"c{i}", i) for i in range(width)))


def field_of(table: str, name: str) -> ColumnRef:
    """A column of a base table's full row."""
    ordinal = TABLE_BY_NAME[table].ordinal(name)
    return ColumnRef(ordinal, TABLE_BY_NAME[table].columns[ordinal].type)


def chain(table: str, *columns: str | Scalar, where: Scalar | None = None) -> Chain:
    """A chain of named (all by default) or computed columns."""
    names = columns or tuple(c.name for c in TABLE_BY_NAME[table].columns)
    scalars = tuple(field_of(table, c) if isinstance(c, str) else c for c in names)
    return Chain(TABLE_BY_NAME[table].name, where, scalars)


def call(function: str, sql_type: SqlType, *arguments: Scalar) -> Call:
    """A function call."""
    return Call(function, arguments, sql_type)


def number(value: int, sql_type: SqlType = INT4) -> Literal:
    """An integer constant."""
    return Literal(str(value), sql_type)


def or_number(scalar: Scalar, value: int) -> Call:
    """coalesce(scalar, value)."""
    return call("coalesce", scalar.type, scalar, number(value, scalar.type))


def times(left: Scalar, right: Scalar) -> Call:
    """A product of integers."""
    return call("*", INT8, left, right)


def is_null(scalar: Scalar) -> Call:
    """scalar IS NULL."""
    return call("is null", BOOL, scalar)


def greater(left: Scalar, right: Scalar) -> Call:
    """left > right."""
    return call(">", BOOL, left, right)


class Joined:
    """The concatenated columns of a block's inputs, by (input, column)."""

    def __init__(self, *inputs: BlockInput) -> None:
        self.inputs = inputs
        self.types = [column_types(i.relation) for i in inputs]

    def col(self, block_input: int, column: int) -> ColumnRef:
        """One column of one input."""
        return ColumnRef(sum(map(len, self.types[:block_input])) + column, self.types[block_input][column])

    def block(self, *columns: tuple[int, int] | Scalar, where: Scalar | None = None) -> Block:
        """The block with these columns; all of them by default."""
        chosen: Sequence[tuple[int, int] | Scalar] = columns or [
            (i, c) for i, types in enumerate(self.types) for c in range(len(types))
        ]
        return Block(self.inputs, where, tuple(self.col(*c) if isinstance(c, tuple) else c for c in chosen))


def first(relation: Relation) -> BlockInput:
    """The first input of a block."""
    return BlockInput(relation)


def inner(relation: Relation, *on: tuple[int, int, int]) -> BlockInput:
    """JOIN relation ON own = input.column …"""
    return BlockInput(relation, False, tuple(JoinCondition(*c) for c in sorted(on)))


def left(relation: Relation, *on: tuple[int, int, int]) -> BlockInput:
    """LEFT JOIN relation ON own = input.column …"""
    return BlockInput(relation, True, tuple(JoinCondition(*c) for c in sorted(on)))


def left_on(joined: Joined, relation: Relation, *on: tuple[int, int, int], rest: Callable[[Joined], Scalar]) -> Joined:
    """… LEFT JOIN relation ON own = input.column … AND rest."""
    item = left(relation, *on)
    return Joined(*joined.inputs, replace(item, on=rest(Joined(*joined.inputs, item))))


def aggregate(relation: Source, group: Columns, *calls: AggregateCall, scalar: bool = False) -> Aggregate:
    """GROUP BY."""
    return Aggregate(relation, group, calls, scalar)


def over(relation: Relation, where: Scalar | None = None) -> Block:
    """The block that makes an aggregate, a window or a top-k a view; `where` is a HAVING."""
    return Joined(first(relation)).block(where=where)


COUNT_ROWS = AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8)


def count_rows(weight: Scalar) -> AggregateCall:
    """COUNT(*) of rows that stand for several."""
    return AggregateCall(AggregateFunction.COUNT_ROWS, None, INT8, weight)


def function_of(function: AggregateFunction, argument: Scalar) -> AggregateCall:
    """An aggregate function with the type PostgreSQL gives it."""
    result = argument.type
    if function is AggregateFunction.COUNT:
        result = INT8
    elif function is AggregateFunction.AVG:
        result = NUMERIC
    elif function is AggregateFunction.SUM and argument.type.name in ("int4", "int8"):
        result = INT8 if argument.type.name == "int4" else NUMERIC
    return AggregateCall(function, argument, result)


def count(argument: Scalar) -> AggregateCall:
    """COUNT(x)."""
    return function_of(AggregateFunction.COUNT, argument)


def total(argument: Scalar, weight: Scalar | None = None, partial: Scalar | None = None) -> AggregateCall:
    """SUM(x), of rows that stand for several, or of partial sums of `partial` values."""
    plain = function_of(AggregateFunction.SUM, argument)
    result = argument.type if partial is not None else plain.type
    return AggregateCall(plain.function, argument, result, weight, partial)


def average(argument: Scalar, weight: Scalar | None = None, partial: Scalar | None = None) -> AggregateCall:
    """AVG(x), likewise."""
    return AggregateCall(AggregateFunction.AVG, argument, NUMERIC, weight, partial)


def least(argument: Scalar) -> AggregateCall:
    """MIN(x)."""
    return function_of(AggregateFunction.MIN, argument)


def greatest(argument: Scalar) -> AggregateCall:
    """MAX(x)."""
    return function_of(AggregateFunction.MAX, argument)


#: What the names of views begin with whose expressions fail for some rows.
FAILING = "failing"

# --- what many views are made of -------------------------------------------------------------------------------------

USERS = chain("users")
STORIES = chain("stories")
VOTES = chain("votes")
COMMENTS = chain("comments")
TAGS = chain("tags")
FOLLOWS = chain("follows")
UPVOTES = chain("votes", "story", "voter", where=greater(field_of("votes", "weight"), number(0)))

WEIGHT, SCORE, KARMA = field_of("votes", "weight"), field_of("stories", "score"), field_of("users", "karma")
NAME, TITLE, BODY = field_of("users", "name"), field_of("stories", "title"), field_of("comments", "body")

#: story, count(*), count(weight), sum(weight)
VOTE_COUNTS = aggregate(VOTES, (0,), COUNT_ROWS, count(WEIGHT), total(WEIGHT))
COMMENT_COUNTS = aggregate(COMMENTS, (1,), COUNT_ROWS)
#: author, count(*), avg(score), min(title)
AUTHORS = aggregate(STORIES, (1,), COUNT_ROWS, average(SCORE), least(TITLE))

STORY_USER = Joined(first(STORIES), inner(USERS, (0, 0, 1)))
COMMENT_STORY_USER = Joined(first(COMMENTS), inner(STORIES, (0, 0, 1)), inner(USERS, (0, 0, 2)))
COMMENT_STORY_AUTHOR = Joined(first(COMMENTS), inner(STORIES, (0, 0, 1)), inner(USERS, (0, 1, 1)))
VOTE_STORY_AUTHOR = Joined(first(VOTES), inner(STORIES, (0, 0, 0)), inner(USERS, (0, 1, 1)))
STORY_VOTES = Joined(first(STORIES), left(VOTE_COUNTS, (0, 0, 0)))
STORY_VOTES_COMMENTS = Joined(first(STORIES), left(VOTE_COUNTS, (0, 0, 0)), left(COMMENT_COUNTS, (0, 0, 0)))


def tables_of(relation: Relation) -> frozenset[str]:
    """The base tables below a relation."""
    if isinstance(relation, Chain):
        return frozenset((relation.table,))
    return frozenset().union(*map(tables_of, inputs_of(relation)))
