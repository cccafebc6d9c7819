"""A query on its way to a relation: what each clause hands to the next, and what comes out at the end.

The clauses of a SELECT work on rows one after another: FROM and WHERE, GROUP BY and HAVING, window functions, DISTINCT,
LIMIT. Each takes `Rows` and what is still to be computed `Above` them, and gives the same for the next.

*Invariants*: a parameter's column goes through every clause; where a clause looks at several rows together, it looks
at those of one key only, which is what the upstream does after it filtered.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

from sqlglot import exp

from dataflow.errors import UnsupportedQuery
from dataflow.plan.expressions import conjunction, used_columns
from dataflow.plan.nodes import Block, BlockInput, Frame, OrderTerm, Relation, Source, column_types
from dataflow.plan.rewriting import input_columns
from dataflow.scalar import ColumnRef, Literal, Scalar
from dataflow.schema import SqlType
from dataflow.sql.conditions import BoundParameter
from dataflow.sql.expressions import functions
from dataflow.sql.syntax.spans import span_of


@dataclass(frozen=True, slots=True)
class Output:
    """A column that a SELECT shows, as an expression over its input."""

    name: str
    expression: Scalar
    #: Where it stands, for errors.
    node: exp.Expr | None


@dataclass(frozen=True, slots=True)
class Sorted:
    """One term of an ORDER BY that is not a constant."""

    expression: Scalar
    descending: bool
    nulls_first: bool
    node: exp.Expr

    def term(self, column: int) -> OrderTerm:
        """The term over a relation whose `column` is the expression. UnsupportedQuery if the order is not known."""
        try:
            functions.sortable(self.expression)
        except UnsupportedQuery as error:
            raise UnsupportedQuery(error.reason, span_of(self.node)) from error
        return OrderTerm(column, self.descending, self.nulls_first)


def sorted_by(expression: Scalar, term: exp.Expr) -> Sorted:
    """A term of the syntax tree whose expression is bound."""
    return Sorted(expression, bool(term.args.get("desc")), bool(term.args.get("nulls_first")), term)


@dataclass(frozen=True, slots=True)
class WindowUse:
    """A window function with its window."""

    function: str
    arguments: tuple[Scalar, ...]
    keeps: Scalar | None
    partition: tuple[Scalar, ...]
    order: tuple[Sorted, ...]
    frame: Frame
    type: SqlType
    node: exp.Expr


#: Changes an expression that stands at a place of the SQL.
Change = Callable[[Scalar, exp.Expr | None], Scalar]


@dataclass(frozen=True, slots=True)
class Above:
    """The expressions over the rows that later clauses compute."""

    outputs: tuple[Output, ...]
    order: tuple[Sorted, ...]
    parameters: tuple[BoundParameter, ...] = ()
    #: DISTINCT ON; () is none.
    distinct_on: tuple[Scalar, ...] = ()
    windows: tuple[WindowUse, ...] = ()

    def changed(self, change: Change) -> "Above":
        """With every expression but the parameters' changed."""

        def ordered(terms: Iterable[Sorted]) -> tuple[Sorted, ...]:
            return tuple(replace(t, expression=change(t.expression, t.node)) for t in terms)

        def all_of(expressions: Iterable[Scalar], node: exp.Expr | None) -> tuple[Scalar, ...]:
            return tuple(change(e, node) for e in expressions)

        return replace(
            self,
            outputs=tuple(replace(o, expression=change(o.expression, o.node)) for o in self.outputs),
            order=ordered(self.order),
            distinct_on=all_of(self.distinct_on, None),
            windows=tuple(
                replace(
                    use,
                    arguments=all_of(use.arguments, use.node),
                    keeps=None if use.keeps is None else change(use.keeps, use.node),
                    partition=all_of(use.partition, use.node),
                    order=ordered(use.order),
                )
                for use in self.windows
            ),
        )

    def with_parameters(self, change: Callable[[Scalar], Scalar]) -> "Above":
        """With the parameters' expressions changed."""
        return replace(self, parameters=tuple(replace(p, expression=change(p.expression)) for p in self.parameters))

    def require_single(self, within: Iterable[Scalar], what: str) -> None:
        """A list or range of keys must not cut what is computed over several rows, unless it cuts `within` it."""
        known = set(within)
        for p in self.parameters:
            if not p.single and p.expression not in known:
                raise p.refused(
                    f"{p.title} is a list or a range over a column that is not in {what}: rows of several"
                    " keys would be taken together."
                )


@dataclass(slots=True)
class Columns:
    """The columns of a block in the making, each expression once."""

    expressions: list[Scalar] = field(default_factory=list)

    def add(self, expression: Scalar) -> int:
        """The place of an expression."""
        if expression not in self.expressions:
            self.expressions.append(expression)
        return self.expressions.index(expression)

    def ref(self, expression: Scalar) -> ColumnRef:
        """An expression as a column of the block."""
        return ColumnRef(self.add(expression), expression.type)


@dataclass(frozen=True, slots=True)
class Rows:
    """Joined rows that pass all conjuncts."""

    inputs: tuple[BlockInput, ...]
    conjuncts: tuple[Scalar, ...] = ()

    def columns(self) -> list[ColumnRef]:
        """The columns of a row."""
        return input_columns(Block(self.inputs, None, ()))

    def block(self, columns: Iterable[Scalar]) -> Block:
        """The rows as a relation of these columns."""
        return Block(self.inputs, conjunction(self.conjuncts), tuple(columns))


def rows_of(relation: Relation) -> Rows:
    """All rows of a relation."""
    return Rows((BlockInput(relation),))


def needed(above: Above) -> list[Scalar]:
    """Returns the expressions still to be computed, without constants."""
    shown = [o.expression for o in above.outputs]
    expressions = [*shown, *(t.expression for t in above.order), *(p.expression for p in above.parameters)]
    return [e for e in expressions if used_columns(e)]


def placed(rows: Rows, above: Above, columns: Columns) -> tuple[Rows, Above]:
    """The next rows, which have all that is needed above them in `columns`."""

    def place(expression: Scalar) -> Scalar:
        return columns.ref(expression) if used_columns(expression) else expression

    return rows, above.changed(lambda e, _: place(e)).with_parameters(place)


def comparable_group(expressions: Iterable[Scalar], node: exp.Expr | None) -> None:
    """UnsupportedQuery unless it is known when rows are equal in these columns."""
    for expression in expressions:
        if not expression.type.comparable:
            raise UnsupportedQuery(f"When {expression.type.sql} values are equal is not known exactly.", span_of(node))


@dataclass(frozen=True, slots=True)
class Lowered:
    """A query as a relation."""

    relation: Source
    #: Name and column of what is shown.
    outputs: tuple[tuple[str, int], ...]
    #: Each is a column of the relation.
    parameters: tuple[BoundParameter, ...] = ()
    order: tuple[OrderTerm, ...] = ()
    #: An aggregate without GROUP BY: a row for every key.
    scalar: bool = False
    #: A branch of a UNION without the parameters: rows for every key, also for NULL.
    keyless: bool = False
    #: The rows that a read picks by the current time; the relation is then over a chain of them, of no table.
    picked: "Lowered | None" = None

    def types(self) -> tuple[SqlType, ...]:
        """The types of what is shown."""
        types = column_types(self.relation)
        return tuple(types[column] for _, column in self.outputs)


def finished(rows: Rows, above: Above, *, scalar: bool, ordered: bool, keyless: bool = False) -> Lowered:
    """The relation that has all that is left to be computed."""
    columns = Columns()
    shown = tuple((o.name, columns.add(o.expression)) for o in above.outputs)
    order = tuple(t.term(columns.add(t.expression)) for t in above.order) if ordered else ()
    parameters = tuple(replace(p, expression=columns.ref(p.expression)) for p in above.parameters)
    return Lowered(rows.block(columns.expressions), shown, parameters, order, scalar, keyless)


def varying(terms: Sequence[Sorted]) -> tuple[Sorted, ...]:
    """Terms that order anything: a constant does not."""
    return tuple(t for t in terms if used_columns(t.expression) and not isinstance(t.expression, Literal))
