"""The grammar of MariaDB and MySQL, without what the parser makes of functions to translate them.

A function is `exp.Anonymous`, by its name, with its arguments as they are written, but for aggregates and what has a
syntax of its own. Expressions carry the text that they are written with, by which the servers name columns, and
identifiers say that upper and lower case are the same (`expressions.scope.name_of`).

What the tokenizer reads otherwise than the servers do is refused: comments that are executed.
"""

import re
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.mysql import MySQL
from sqlglot.parsers.mysql import MySQLParser
from sqlglot.tokenizer_core import TokenType

from dataflow.errors import UnsupportedQuery
from dataflow.sql.mysql.side_effects import has_side_effects
from dataflow.sql.syntax.grammar import BLOCK_COMMENT, Grammar

_AGGREGATES = ("AVG", "COUNT", "MAX", "MIN", "SUM")
#: Those with words between their arguments, or whose arguments are no expressions.
_SPECIAL = frozenset(
    {
        "CAST",
        "CHAR",
        "CONVERT",
        "EXTRACT",
        "GROUP_CONCAT",
        "JSON_TABLE",
        "JSON_VALUE",
        "MATCH",
        "POSITION",
        "SUBSTRING",
        "TRIM",
        "VALUES",
        "WEIGHT_STRING",
    }
)
_ESCAPE = re.compile(r"\\(.)|''|\"\"", re.DOTALL)
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
#: Words that are no names, so that their case means nothing.
_RESERVED = frozenset(
    {
        "select",
        "from",
        "where",
        "and",
        "or",
        "not",
        "in",
        "is",
        "null",
        "like",
        "between",
        "as",
        "on",
        "join",
        "left",
        "right",
        "inner",
        "outer",
        "cross",
        "group",
        "by",
        "order",
        "having",
        "limit",
        "union",
        "all",
        "distinct",
        "exists",
        "case",
        "when",
        "then",
        "else",
        "asc",
        "desc",
    }
)
_EXECUTED = re.compile(r"/\*M?!")
#: Where an expression notes its text.
WRITTEN = "written"
#: What parentheses of the text note; the parser adds others, by its own precedence of comparisons.
PARENTHESES = "parentheses"


def string_value(written: str) -> str:
    """The value of a string literal; `written` includes quotes (``sql_mode`` without NO_BACKSLASH_ESCAPES)."""
    quote = written[0]

    def character(found: re.Match[str]) -> str:
        if found[1] is not None:
            return _ESCAPED.get(found[1], found[1])
        return quote if found[0][0] == quote else found[0]

    return _ESCAPE.sub(character, written[1:-1])


def _check(sql: str) -> None:
    """UnsupportedQuery for a text that the servers may read as another than the tokenizer does."""
    if _EXECUTED.search(sql):
        raise UnsupportedQuery("Comments that are executed (/*! … */) are not read.")


class _Parser(MySQLParser):
    FUNCTIONS: ClassVar = {name: MySQLParser.FUNCTIONS[name] for name in _AGGREGATES}
    FUNCTION_PARSERS: ClassVar = {k: v for k, v in MySQLParser.FUNCTION_PARSERS.items() if k in _SPECIAL}
    PRIMARY_PARSERS: ClassVar = {
        **MySQLParser.PRIMARY_PARSERS,
        TokenType.STRING: lambda self, token: self.expression(
            exp.Literal.string(string_value(self.sql[token.start : token.end + 1])), token
        ),
    }

    def _parse_expression(self) -> Any:
        first = self._curr
        node = super()._parse_expression()
        last = self._prev
        if node is not None and first is not None and last is not None and last.end >= first.start:
            node.meta[WRITTEN] = self.sql[first.start : last.end + 1]
        return node

    def _parse_paren(self) -> Any:
        node = super()._parse_paren()
        if isinstance(node, exp.Paren):
            node.meta[PARENTHESES] = True
        return node

    def _parse_statement(self) -> Any:
        statement = super()._parse_statement()
        if isinstance(statement, exp.Expr):
            for identifier in statement.find_all(exp.Identifier):
                identifier.meta["caseless"] = True
        return statement


class _Dialect(MySQL):
    Parser = _Parser

    def to_json_path(self, path: Any) -> Any:
        """Paths stay as they are written."""
        return path


def _folded(word: str) -> str:
    return word.lower() if word.lower() in _RESERVED or " " in word else word


GRAMMAR = Grammar(
    _Dialect(),
    has_side_effects,
    gap=re.compile(rf"(?:[ \t\n\r\f\v]|(?:--[ \t]|#)[^\n\r]*(?=\n|\Z)|{BLOCK_COMMENT})*", re.DOTALL),
    folded=_folded,
    unquoted=str.lower,
    check=_check,
    into_writes=True,
    dollar_words=True,
)

__all__ = ["GRAMMAR", "PARENTHESES", "WRITTEN", "string_value"]
