"""PostgreSQL's grammar, without what the parser makes of functions to translate them into other databases' SQL.

The parser knows hundreds of functions of many databases, maps synonyms onto one node, reorders and rewrites arguments
(``DIV``, ``TO_CHAR``, ``DATE_TRUNC``), and takes intervals, subscripts and JSON paths apart. Here a function of ours is
`exp.Anonymous`, by its name, with its arguments as they are written; an interval is a cast of its string.
"""

import re
from collections.abc import Callable
from typing import Any, ClassVar

from sqlglot import exp
from sqlglot.dialects.postgres import Postgres
from sqlglot.parsers.postgres import PostgresParser
from sqlglot.tokenizer_core import TokenType

from dataflow.errors import UnsupportedQuery
from dataflow.evaluate import SIGNATURES
from dataflow.sql.postgres.side_effects import has_side_effects
from dataflow.sql.syntax.grammar import BLOCK_COMMENT, Grammar, unescaped

#: Functions that are no plain ones and have no syntax of their own.
_OTHERS = frozenset(
    {
        "concat",
        "concat_ws",
        "greatest",
        "least",
        "num_nulls",
        "num_nonnulls",
        "generate_series",
        "array_length",
        "array_to_string",
        "cardinality",
        "pow",
        "array_append",
        "array_cat",
        "array_lower",
        "array_position",
        "array_prepend",
        "array_remove",
        "array_upper",
        "json_extract_path",
        "json_extract_path_text",
        "jsonb_extract_path",
        "jsonb_extract_path_text",
        "to_json",
        "to_jsonb",
        "json_build_object",
        "jsonb_build_object",
        "json_build_array",
        "jsonb_build_array",
    }
)
#: Parsed as the parser does.
_PARSED = frozenset({"make_interval"})
_PLAIN = frozenset(name.upper() for name in (*SIGNATURES, *_OTHERS) if name.isidentifier() and name not in _PARSED)
#: Those with words between their arguments.
_SPECIAL = frozenset({"EXTRACT", "OVERLAY", "POSITION", "SUBSTRING", "TRIM"})
#: Where LIKE notes that it is written as an operator: it is read from left to right with all others then.
SIGN = "sign"
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{1,2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-7]{1,3})|(.))|''", re.DOTALL)
_ESCAPED = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


def _escaped_text(written: str) -> str:
    """The value of ``E'…'``, whose `written` form includes quotes. Bytes beyond ASCII are left to the upstream."""

    def character(found: re.Match[str]) -> str:
        hexadecimal, short, long, octal, other = found.groups()
        if other is not None:
            return _ESCAPED.get(other, other)
        for digits, base in ((hexadecimal, 16), (octal, 8)):
            if digits is not None:
                if int(digits, base) > 127:
                    raise UnsupportedQuery("Bytes beyond ASCII in a string are not read.")
                return chr(int(digits, base))
        code = short or long
        return "'" if code is None else chr(int(code, 16))

    return _ESCAPE.sub(character, written[2:-1])


def _like(parse: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """LIKE and ILIKE, with a note if they are written as ``~~``."""

    def parse_like(parser: Any, this: Any) -> Any:
        is_sign = "~" in parser._prev.text
        node = parse(parser, this)
        node.meta[SIGN] = is_sign
        return node

    return parse_like


def _prefix(node: type[exp.Unary] | type[exp.Func]) -> Callable[[Any], Any]:
    """An operator before its operand, other than a sign: ``~ a + b`` is ``~ (a + b)``."""
    return lambda parser: parser.expression(node(this=parser._parse_term()))


def _quantified(node: type[exp.Any | exp.All]) -> Callable[[list[Any]], exp.Expr]:
    """ANY or ALL of an array, which the parser has of subqueries only."""
    return lambda arguments: node(this=arguments[0] if len(arguments) == 1 else exp.Tuple(expressions=arguments))


class _Parser(PostgresParser):
    FUNCTIONS: ClassVar = {
        **{k: v for k, v in PostgresParser.FUNCTIONS.items() if k not in _PLAIN},
        "SOME": _quantified(exp.Any),
        "ALL": _quantified(exp.All),
    }
    FUNCTION_PARSERS: ClassVar = {
        k: v for k, v in PostgresParser.FUNCTION_PARSERS.items() if k not in _PLAIN or k in _SPECIAL
    }
    #: ``->`` is an operator of json.
    LAMBDAS: ClassVar = {k: v for k, v in PostgresParser.LAMBDAS.items() if k is not TokenType.ARROW}
    JSON_OPERATORS: ClassVar = {
        **PostgresParser.JSON_OPERATORS,
        TokenType.ARROW: lambda self, this, path: self.expression(exp.JSONExtract(this=this, expression=path)),
        TokenType.DARROW: lambda self, this, path: self.expression(exp.JSONExtractScalar(this=this, expression=path)),
    }
    UNARY_PARSERS: ClassVar = {
        **PostgresParser.UNARY_PARSERS,
        TokenType.RLIKE: _prefix(exp.BitwiseNot),
        TokenType.PIPE_SLASH: _prefix(exp.Sqrt),
        TokenType.DPIPE_SLASH: _prefix(exp.Cbrt),
    }
    RANGE_PARSERS: ClassVar = {
        **PostgresParser.RANGE_PARSERS,
        **{token: _like(PostgresParser.RANGE_PARSERS[token]) for token in (TokenType.LIKE, TokenType.ILIKE)},
    }
    PRIMARY_PARSERS: ClassVar = {
        **PostgresParser.PRIMARY_PARSERS,
        TokenType.BYTE_STRING: lambda self, token: self.expression(
            exp.Literal.string(_escaped_text(self.sql[token.start : token.end + 1]))
        ),
    }

    def _parse_interval(self, require_interval: bool = True, parse_function_unit: bool = True) -> Any:
        """``INTERVAL '1 day'`` as a cast; with a unit behind the string, as the parser has it."""
        following = self._next
        if self._curr is None or self._curr.token_type is not TokenType.INTERVAL or following is None:
            return super()._parse_interval(require_interval, parse_function_unit)
        if following.token_type is not TokenType.STRING:
            return super()._parse_interval(require_interval, parse_function_unit)
        index = self._index
        self._advance(2)
        unit = self._curr
        if unit is not None and unit.text.upper() in _UNITS:
            self._retreat(index)
            return super()._parse_interval(require_interval, parse_function_unit)
        return self.expression(
            exp.Cast(this=exp.Literal.string(following.text), to=exp.DataType(this=exp.DType.INTERVAL))
        )


_UNITS = frozenset({"YEAR", "MONTH", "DAY", "HOUR", "MINUTE", "SECOND"})


class _Dialect(Postgres):
    #: Subscripts stay as they are written.
    INDEX_OFFSET = 0
    Parser = _Parser


#: What catalogs have room for (NAMEDATALEN - 1).
_NAME_BYTES = 63


def cut_name(name: str) -> str:
    """Truncates a name as the server does (manual, 4.1.1): to 63 bytes, and no part of a character."""
    return name if len(name) * 4 <= _NAME_BYTES else name.encode()[:_NAME_BYTES].decode(errors="ignore")


GRAMMAR = Grammar(
    _Dialect(),
    has_side_effects,
    gap=re.compile(rf"(?:[ \t\n\r\f\v]|--[^\n\r]*(?=[\n\r]|\Z)|{BLOCK_COMMENT})*", re.DOTALL),
    folded=lambda word: word.lower() if word.isascii() else word,
    unquoted=unescaped,
    cut=cut_name,
    question_operators=True,
)

__all__ = ["GRAMMAR", "SIGN"]
