"""Tables and parameters that a text of MariaDB or MySQL mentions, with the expressions beside each parameter.
(PostgreSQL reports both itself.)

*Invariant*: a table that is read is mentioned; what is mentioned need not be read (a name may be that of a WITH).

Not here: what the names stand for (`service.engine.databases.mysql.describe`); which rows matter (`reads`).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from dataflow.errors import UnsupportedQuery
from dataflow.sql.mysql.grammar import GRAMMAR
from dataflow.sql.syntax.parse import parameter_name, tree_of


class ParameterUse(Enum):
    """The use of a parameter that is not compared with a column."""

    #: Rows: LIMIT, OFFSET.
    COUNT = "count"
    #: A pattern.
    TEXT = "text"
    #: An operand of arithmetic.
    NUMBER = "number"


@dataclass(frozen=True, slots=True)
class ParameterColumn:
    """A column that a parameter is compared with: its name, and that of its table or alias, "" if there is none."""

    table: str
    column: str


@dataclass(frozen=True, slots=True)
class Mentions:
    """`tables`: database ("" if it is not said) and name. `aliases`: what tables are called in the text."""

    tables: frozenset[tuple[str, str]]
    aliases: frozenset[tuple[str, tuple[str, str]]]
    #: Names that the text gives to SELECTs.
    defined: frozenset[str]
    #: By parameter, in the order of the text.
    parameters: dict[str, tuple[ParameterUse | ParameterColumn, ...]]
    #: Whether it is a SELECT, or several of them put together.
    is_query: bool


def mentions_of(sql: str) -> Mentions:
    """The tables and parameters of a text. UnsupportedQuery for unknown grammar, InvalidQuery for no statement."""
    try:
        tree = tree_of(sql, GRAMMAR)
    except (ParseError, TokenError, RecursionError):
        raise UnsupportedQuery("The statement's grammar is not known here.") from None
    tables: set[tuple[str, str]] = set()
    aliases: set[tuple[str, tuple[str, str]]] = set()
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier):
            continue
        name = _text(table.args.get("db")), table.this.name
        tables.add(name)
        aliases.add((table.alias or table.name, name))
    parameters: dict[str, list[ParameterUse | ParameterColumn]] = {}
    for node in tree.find_all(exp.Placeholder):
        parameters.setdefault(parameter_name(node), []).extend(_beside(node))
    defined = frozenset(cte.alias.lower() for cte in tree.find_all(exp.CTE))
    found = {name: tuple(beside) for name, beside in parameters.items()}
    return Mentions(frozenset(tables), frozenset(aliases), defined, found, isinstance(tree, exp.Query))


def _text(identifier: object) -> str:
    return identifier.name if isinstance(identifier, exp.Identifier) else ""


_COMPARISONS = (exp.EQ, exp.NEQ, exp.LT, exp.LTE, exp.GT, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
_ARITHMETIC = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Mod, exp.IntDiv, exp.Neg)


def _beside(node: exp.Expr) -> Iterator[ParameterUse | ParameterColumn]:
    """The column or use of a parameter, if its place decides that."""
    parent = node.parent
    while isinstance(parent, exp.Paren | exp.Tuple):
        node, parent = parent, parent.parent
    match parent:
        case exp.Limit() | exp.Offset():
            yield ParameterUse.COUNT
        case exp.Like() | exp.RegexpLike():
            yield ParameterUse.TEXT
        case exp.In() | exp.Between() if parent.this is not node:
            yield from _column(parent.this)
        case exp.In() | exp.Between():
            for other in (*parent.args.get("expressions", ()), parent.args.get("low"), parent.args.get("high")):
                yield from _column(other)
        case _ if isinstance(parent, _COMPARISONS):
            yield from _column(parent.expression if parent.this is node else parent.this)
        case _ if isinstance(parent, _ARITHMETIC):
            yield ParameterUse.NUMBER
        case _:
            return


def _column(node: object) -> Iterator[ParameterColumn]:
    while isinstance(node, exp.Paren):
        node = node.this
    if isinstance(node, exp.Column) and isinstance(node.this, exp.Identifier):
        yield ParameterColumn(_text(node.args.get("table")), node.this.name)


__all__ = ["Mentions", "ParameterColumn", "ParameterUse", "mentions_of"]
