"""Interface of a dialect: its grammar, its names, and the meaning of its expressions.

Everything else is the same for all dialects: which rows a SELECT means, and how they are planned.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from dataflow.plan.nodes import AggregateCall
from dataflow.scalar import Scalar
from dataflow.schema import Catalog, SqlType
from dataflow.sql.syntax.grammar import Grammar
from dataflow.types import Value

if TYPE_CHECKING:
    from dataflow.sql.expressions.aggregates import WrittenCall
    from dataflow.sql.expressions.bind import Binder


@dataclass(frozen=True, slots=True)
class KnownRows:
    """The rows of a function of constants."""

    type: SqlType
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class ComputedRows:
    """The rows of a function of parameters, by their places from 0 to 399: no value is there twice."""

    type: SqlType
    #: The value at a place, over the parameters' row; NULL behind the last row. It fails if there are too many.
    value_at: Callable[[Scalar], Scalar]


@dataclass(frozen=True, slots=True, eq=False)
class Dialect:
    """One dialect of SQL."""

    grammar: Grammar
    #: The parser's name of the dialect in which nodes are printed.
    printer: str

    # Names

    #: A catalog's name as it is compared with names in a text, and as it is among its words (`reads.SqlWords`).
    name: Callable[[str], str]
    word: Callable[[str], str]
    #: A name as an identifier.
    quote: Callable[[str], str]

    # Constants and parameters

    #: Whether constants (numbers, or else texts) compare with values of a type as parameters do.
    constant_fits: Callable[[SqlType, bool], bool]
    #: Whether text that becomes a date or a time may mean the current one ('today').
    moments: bool
    #: Functions of text: a parameter among their arguments is text.
    text_functions: frozenset[str]
    #: The type of a text parameter that is read as its exact text, by that of text of no column; None if every text
    #: parameter is.
    exact_text: Callable[[SqlType], SqlType] | None
    #: Whether VALUES names its columns column1, column2 and so on; else by the first row.
    names_values: bool
    #: Whether WITH ROLLUP on the server of a catalog is what is planned.
    plans_rollup: Callable[[Catalog], bool]
    #: Whether statements are sent with their parameters' values in the text (`templates`).
    fills_templates: bool

    # Expressions

    #: The current time over its row (`plan.clock_bounds`) that a node of this SQL text means; None: something else.
    current_time: Callable[[exp.Expr, str], Scalar | None]
    #: What a node means, by its type; a node without an entry is refused.
    binders: Mapping[type[exp.Expr], Callable[["Binder", Any], Scalar]]
    #: The functions in FROM with one column, by name.
    row_functions: Mapping[str, Callable[[Any, "Binder"], KnownRows | ComputedRows]]
    #: Names of aggregate functions, beside those that the parser knows.
    aggregates: frozenset[str]
    #: An expression as a value, where nothing else decides its type: `text` is that of text of no column.
    value: Callable[[Scalar, SqlType], Scalar]
    #: What a query in FROM or in an expression shows.
    inner: Callable[[Scalar], Scalar]
    #: An expression where a condition must stand: a boolean.
    condition: Callable[[Scalar], Scalar]
    #: An expression that is compared with a parameter, which is then of its type.
    parameter: Callable[[Scalar], Scalar]
    #: Whether a cast of such a parameter to a type, of the same family, leaves each value what it is.
    cast_keeps_value: Callable[[SqlType], bool]
    #: Several expressions in the type that one column of all of them has.
    same_type: Callable[[str, Sequence[Scalar]], list[Scalar]]
    #: The call of an aggregate function.
    aggregate_call: Callable[["WrittenCall", "Binder"], AggregateCall]
    #: A call's result (a column) as the value that expressions above it see.
    aggregate_value: Callable[[Scalar, AggregateCall], Scalar]
    #: What a shown expression is called if it has no alias, in that SQL text.
    column_name: Callable[[exp.Expr, str], str]
    #: HAVING of a SELECT, with names that mean what it shows put in.
    having: Callable[[exp.Select], exp.Expr]
    #: The result of a window function (a column) as the value that expressions see, by name and arguments, and whether
    #: a view shows it as it is, or is ordered by it.
    window_value: Callable[[str, Sequence[Scalar], Scalar, bool], Scalar]
    #: Whether a name in a window's ORDER BY is that of a shown column, before one of FROM.
    windows_see_shown: bool
    #: The type of a value that a window function takes from another row.
    row_value: Callable[[SqlType], SqlType]
