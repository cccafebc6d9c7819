"""A view's SQL with one list for the members of an IN: ``IN (:a, :b, 1)`` as ``IN (:a)``.

A read's values, or some of them, are then sent to the upstream as those of any other list.

Not here: which parameters are members of a list (`conditions`), lists as arrays (`statement`).
"""

from collections.abc import Collection, Sequence

from sqlglot.tokenizer_core import Token, TokenType

from dataflow.plan.nodes import Members
from dataflow.sql.dialects import dialect_of
from dataflow.sql.syntax.parse import tokens_of


def with_lists(sql: str, dialect: str, lists: Collection[Members]) -> str:
    """The SQL of a plan with these lists, each named by the first of its names; all parameters are ``:name``."""
    list_of = {name: members.names[0] for members in lists for name in members.names}
    tokens = tokens_of(sql, dialect_of(dialect).grammar)
    parts: list[str] = []
    at = i = 0
    while i < len(tokens):
        last = _end_of_list(tokens, i)
        name = _parameter(tokens, i)
        found = next((p for n in range(i, last) if (p := _parameter(tokens, n)) in list_of), None)
        if found is not None:
            parts += [sql[at : tokens[i].start], f"IN (:{list_of[found]})"]
            at, i = tokens[last].end + 1, last
        elif name is not None:
            # A ``?`` is named by how many are before it, which may be fewer now.
            parts += [sql[at : tokens[i].start], f":{name}"]
            at = tokens[i].end + 1
        i += 1
    return "".join([*parts, sql[at:]])


def _end_of_list(tokens: Sequence[Token], first: int) -> int:
    """The closing parenthesis of an ``IN (…)`` without a query; `first` if none begins there."""
    depth = 0
    if tokens[first].token_type is TokenType.IN:
        for i in range(first + 1, len(tokens)):
            kind = tokens[i].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if depth == 0:
                return i
            if kind is TokenType.SELECT:
                return first
    return first


def _parameter(tokens: Sequence[Token], i: int) -> str | None:
    """The name of the parameter that begins there."""
    if tokens[i].token_type is not TokenType.COLON or i + 1 == len(tokens) or tokens[i + 1].end != tokens[i].end:
        return None
    return tokens[i + 1].text.split("@")[0]
