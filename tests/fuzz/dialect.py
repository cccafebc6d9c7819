"""Material of random SQL in one database: its tables, their values, and the forms of its expressions, as templates.

In a template ``{int}`` is any expression of a kind, ``{int.}`` one that contains no other, ``{any.}`` one of some kind,
``{x}`` one of the kind that is asked for, ``{constant}`` a constant of that kind, ``{list}`` some, ``{condition}`` a
predicate, ``{again}`` what was filled in before it, ``{distinct}`` at times DISTINCT. What is there twice is drawn
twice as often.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

#: A *kind* is what expressions are typed by here: integers of any width are one kind, so that they are mixed.
INT, TEXT, NUM, BOOL, DATE = "int", "text", "num", "bool", "date"
#: The kind that is asked for.
SAME = "x"

Forms = tuple[str, ...]
#: Calls, with the kinds of their results.
Calls = tuple[tuple[str, str], ...]

OPERATORS = tuple(f"{{x}} {operator} {{x}}" for operator in ("=", "=", "<>", "<", "<=", ">", ">="))
COMPARISONS = (
    *OPERATORS,
    *OPERATORS,
    "{x} IN ({list})",
    "{x} IN ({list})",
    "{x} IN ({list})",
    "{x} NOT IN ({list})",
    "{x} NOT IN ({list})",
    "{x} BETWEEN {constant} AND {x}",
    "{x} BETWEEN {constant} AND {x}",
)
LIKE = tuple(f"{{x}} LIKE '{pattern}'" for pattern in ("a%", "%o%", "_o%", "%", ""))
CASE = "CASE WHEN {condition} THEN {x} ELSE {x} END"
TRUTHS = (
    "({condition} AND {condition})",
    "({condition} OR {condition})",
    "NOT ({condition})",
    "({condition}) IS NOT TRUE",
)
#: Conditions in which a free parameter is read as its exact text.
EXACT_TEXT = (
    "{column} LIKE :free",
    "({column} LIKE :free OR {other})",
    "lower({column}) = lower(:free)",
    "({column} = :free AND upper({column}) <> upper(:free)) IS NOT TRUE",
)
#: Pairs of columns that are joined on purpose: of the tables that the corpora of all databases have.
JOINS = (
    ("stories.author_id", "users.id"),
    ("votes.story_id", "stories.id"),
    ("votes.user_id", "users.id"),
    ("comments.story_id", "stories.id"),
    ("comments.user_id", "users.id"),
    ("comments.parent_id", "comments.id"),
    ("tags.story_id", "stories.id"),
    ("follows.user_id", "users.id"),
    ("follows.other_id", "users.id"),
    ("events.story_id", "stories.id"),
    ("events.user_id", "users.id"),
    ("users.invited_by", "users.id"),
)
#: Columns that must not be NULL or repeat, by table: a row with a key that is there is changed instead.
KEYS = {
    "users": ("id",),
    "stories": ("id",),
    "votes": ("story_id", "user_id"),
    "comments": ("id",),
    "sections": ("code",),
    "vals": ("id",),
}
#: Columns that must not be NULL, and are not changed.
NOT_NULL = ("karma",)
DATES = ("2020-01-01", "2024-01-01", "2024-02-29", "2021-03-15", "1999-12-31")


@dataclass(frozen=True)
class Dialect:
    """The SQL of one database."""

    #: Columns and their kinds, by table.
    tables: Mapping[str, Mapping[str, str]]
    #: Values by kind: what is stored, written and given to parameters.
    values: Mapping[str, Forms]
    #: How a value is written, by kind: where it says its type itself, and beside a column.
    literals: Mapping[str, str]
    constants: Mapping[str, str]
    #: The first state of the tables, to include; what collects their statistics.
    data: str
    analyze: str
    #: An INSERT whose key may be taken; how it sets a column then.
    upserts: Forms
    assignment: str

    #: Kinds of what is shown and compared.
    kinds: Forms
    #: Kinds that tables are joined by: the first that both have.
    joined: Forms
    #: Kinds of parameters, and those of which a range is asked for.
    parameters: Forms
    ranged: Forms
    #: Conditions by kind in which a free parameter is read as its exact text.
    exact: Mapping[str, Forms]
    #: Kinds that set operations have as columns.
    united: Forms
    #: Kinds of which there is a least value.
    extremes: Forms

    #: Expressions, by kind, and of any kind.
    forms: Mapping[str, Forms]
    choices: Forms
    #: Predicates about NULL; of two values by kind, `SAME` for those that have none of their own.
    null_tests: Forms
    comparisons: Mapping[str, Forms]
    #: Aggregates, and what may stand behind one.
    aggregates: Calls
    filters: Forms
    #: What stands behind GROUP BY: ``{keys}`` are all expressions, ``{first}`` is one of them.
    groupings: Forms
    #: Window functions: ``{by_all}`` is a window in a total order, ``{some}`` one in any, ``{partition}`` and
    #: ``{total}`` are parts of the first, ``{n}`` is a column of numbers.
    windows: Calls
    #: How many SELECTs have one.
    windowed: float
    #: Terms of ORDER BY: column number ``{n}``, whose name is ``c{n}``.
    terms: Forms

    #: The kind of what shows any one of several equal values that can be told apart.
    picked: Mapping[str, str] = field(default_factory=dict)
    #: Other kinds whose columns are of a kind, too.
    also: Mapping[str, Forms] = field(default_factory=dict)
    #: Rows of parameters, each written with its type, in FROM: one column ``c1``, and its kind.
    series: Calls = ()
    #: Numbers made of the rows of ``{query}``, which shows a number.
    lists: Forms = ()
    #: The corpus's option for columns of a kind (`tests/sql/README.md`).
    options: Mapping[str, str] = field(default_factory=dict)

    def members(self, kind: str) -> Forms:
        """The kinds of the columns that are of a kind."""
        return (kind, *self.also.get(kind, ()))

    def any_of_equal(self, kinds: Sequence[str]) -> list[str]:
        """The kinds of columns that show any one of equal values."""
        return [self.picked.get(kind, kind) for kind in kinds]

    def literal(self, kind: str, rng: Random) -> str:
        """A value that says its type itself."""
        return _written(self.literals, kind, rng.choice(self.values[kind]))

    def constant(self, kind: str, rng: Random) -> str:
        """A value beside a column of the kind."""
        return _written(self.constants, kind, rng.choice(self.values[kind]))

    def stored(self, kind: str, rng: Random) -> str:
        """A value to store, at times NULL."""
        return "NULL" if rng.random() < 0.15 else self.constant(kind, rng)


def _written(forms: Mapping[str, str], kind: str, value: str) -> str:
    form = forms[kind]
    return f"({value})" if form == "{}" and value.startswith("-") else form.format(value)
