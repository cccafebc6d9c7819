"""A statement apart from how it is spelt: its words, and the sites where a value stands that could be a parameter.

Two texts with equal words mean the same for equal values at their sites, whatever stands between the words. A site is
a parameter, or a constant that is the whole side of a comparison, all of a list behind IN, or a LIMIT or OFFSET. Any
other constant is one of the words.

*Invariants*: what is not understood to the letter is refused, never taken for something else: all that is between two
words is blank, or a comment that ends where every database says so.

Not here: what the words mean (`lower`), whose words are those of which view (`service.engine.adhoc`).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import islice

from sqlglot.errors import TokenError
from sqlglot.tokenizer_core import Token, TokenType

from dataflow.errors import InvalidQuery, Span
from dataflow.sql.dialects import dialect_of
from dataflow.sql.effects import check_effects
from dataflow.sql.syntax.grammar import Grammar
from dataflow.sql.syntax.parse import parse, tokens_of

_BEFORE = frozenset(
    {
        TokenType.EQ,
        TokenType.LT,
        TokenType.LTE,
        TokenType.GT,
        TokenType.GTE,
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.BETWEEN,
    }
)
_BEHIND = frozenset(
    {
        TokenType.SEMICOLON,
        TokenType.R_PAREN,
        TokenType.AND,
        TokenType.OR,
        TokenType.GROUP_BY,
        TokenType.ORDER_BY,
        TokenType.HAVING,
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.UNION,
        TokenType.EXCEPT,
        TokenType.INTERSECT,
        TokenType.WINDOW,
        TokenType.FETCH,
    }
)
_CLAUSES = frozenset(
    {
        TokenType.SELECT,
        TokenType.FROM,
        TokenType.WHERE,
        TokenType.GROUP_BY,
        TokenType.HAVING,
        TokenType.ORDER_BY,
        TokenType.LIMIT,
        TokenType.OFFSET,
        TokenType.WINDOW,
        TokenType.JOIN,
    }
)
_ROWS = frozenset({TokenType.WHERE, TokenType.LIMIT, TokenType.OFFSET})
_STRINGS = frozenset(
    {
        TokenType.STRING,
        TokenType.BYTE_STRING,
        TokenType.NATIONAL_STRING,
        TokenType.UNICODE_STRING,
        TokenType.BIT_STRING,
        TokenType.HEX_STRING,
        TokenType.HEREDOC_STRING,
        TokenType.RAW_STRING,
        TokenType.IDENTIFIER,
    }
)
_NUMBER = re.compile(r"[0-9]+(?:\.[0-9]+)?")
_TEXT = re.compile(r"'(?:[^'\\]|'')*'")


#: Functions that read what is in no table: the server's files.
_OUTSIDE = ("pg_read_", "pg_ls_", "pg_stat_file", "pg_current_logfile", "load_file")


class SiteKind(StrEnum):
    """The kind of value at a site."""

    TEXT = "text"
    NUMBER = "number"
    PARAMETER = "parameter"


@dataclass(frozen=True, slots=True)
class Site:
    """A place of a value in the text. `values`: the constants' texts, several for a list; of a parameter, its name.

    `outer`: it decides which rows the whole statement shows, and not what a part of it is made of.
    """

    span: Span
    kind: SiteKind
    values: tuple[str, ...]
    listed: bool = False
    outer: bool = False
    #: A parameter that is cast.
    cast: bool = False

    @property
    def name(self) -> str:
        """The name of a parameter."""
        return self.values[0]


@dataclass(frozen=True, slots=True)
class Spelling:
    """One SELECT: `words` have a mark for each of `sites`."""

    sql: str
    words: str
    sites: tuple[Site, ...]
    #: Behind its last word.
    end: int
    #: How many words and operators it has, lists of constants aside: what parsing and planning it cost grows with.
    size: int = 0

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of its parameters, each once."""
        return tuple(dict.fromkeys(site.name for site in self.sites if site.kind is SiteKind.PARAMETER))

    def open_sites(self, *, outer: bool) -> tuple[Site, ...]:
        """The sites that can be parameters: all of them, or parameters and what decides which rows are shown."""
        return tuple(site for site in self.sites if not outer or site.outer or site.kind is SiteKind.PARAMETER)

    def with_names(self, names: Mapping[Site, str]) -> str:
        """The SQL with parameters of these names at their sites."""
        parts: list[str] = []
        at = 0
        for site in self.sites:
            if site in names:
                parts += [self.sql[at : site.span.start], f":{names[site]}"]
                at = site.span.end
        return "".join([*parts, self.sql[at : self.end]])


#: What lists are made of.
_CHEAP = {TokenType.COMMA, TokenType.NUMBER, TokenType.STRING}
_MAX_SIZE = 2000
#: Lists and all; counted roughly, since to find words exactly is what takes long.
_MAX_WORDS = 6000
_ROUGHLY = re.compile(r"\w+|[^\w\s]")


def spelling_of(sql: str, dialect: str = "postgres") -> Spelling:
    """How a statement is spelt. InvalidQuery, UnsupportedQuery if it is not one that only reads."""
    if "\0" in sql:
        raise InvalidQuery("The SQL has a zero byte.")
    most = next(islice(_ROUGHLY.finditer(sql), _MAX_WORDS, None), None)
    if most is not None:
        raise InvalidQuery(f"The SQL is too large: more than {_MAX_WORDS} words, constants and operators.")
    grammar = dialect_of(dialect).grammar
    try:
        tokens = list(tokens_of(sql, grammar))
    except TokenError as error:
        raise InvalidQuery("The SQL has a string, identifier or comment that does not end.") from error
    size = sum(token.token_type not in _CHEAP for token in tokens)
    if size > _MAX_SIZE:
        raise InvalidQuery(f"The SQL is too large: {size} words and operators, at most {_MAX_SIZE} are read.")
    check_effects(sql, dialect)
    parse(sql, grammar)
    while tokens and tokens[-1].token_type is TokenType.SEMICOLON:
        tokens.pop()
    end = tokens[-1].end + 1 if tokens else 0
    _check_gaps(sql, tokens, grammar)
    _check_calls(tokens, grammar)
    sites = _Sites(sql, tokens).found()
    return Spelling(sql, _words(sql, tokens, sites, grammar), tuple(site for _, _, site in sites), end, size)


def _check_gaps(sql: str, tokens: Sequence[Token], grammar: Grammar) -> None:
    blank = grammar.gap
    at = 0
    for token in tokens:
        if token.start > at and not blank.fullmatch(sql, at, token.start):
            raise InvalidQuery("This comment cannot be read without doubt.", Span(at, token.start), "Remove it.")
        at = max(at, token.end + 1)
    rest = sql[at:].strip("; \t\n\r\f\v")
    if rest and not blank.fullmatch(rest):
        raise InvalidQuery("This comment cannot be read without doubt.", Span(at, len(sql)), "Remove it.")


def _check_calls(tokens: Sequence[Token], grammar: Grammar) -> None:
    """The other checks do not look into quotes, and let the text of a view read the server's files."""
    for before, token, after in zip([None, *tokens], tokens, [*tokens[1:], None], strict=False):
        span, name = Span(token.start, token.end + 1), token.text.lower()
        quoted = token.token_type is TokenType.IDENTIFIER
        if quoted and before is not None and before.token_type is TokenType.AMP and before.end + 1 == token.start:
            raise InvalidQuery("A quoted name is written without escapes.", span)
        if after is None or after.token_type is not TokenType.L_PAREN or token.token_type is TokenType.STRING:
            continue
        if name.startswith(_OUTSIDE) or (quoted and grammar.has_side_effects(name)):
            raise InvalidQuery(f"A query only reads tables, so it cannot call {token.text}.", span)


# --- sites ----------------------------------------------------------------------------------------------------------

#: The tokens from the first to the last, and what they are.
_Found = tuple[int, int, Site]


@dataclass(slots=True)
class _Sites:
    sql: str
    tokens: Sequence[Token]

    def found(self) -> list[_Found]:
        """All sites, in order."""
        result: list[_Found] = []
        depth, clause, i = 0, TokenType.SELECT, 0
        while i < len(self.tokens):
            kind = self.tokens[i].token_type
            depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
            if depth == 0 and kind in _CLAUSES:
                clause = kind
            outer = clause in _ROWS and (depth == 0 or (depth == 1 and self._opens_list(i - 1)))
            site = self._parameter(i) or self._list(i, outer) or self._constant(i, outer)
            if site is not None:
                result.append(site)
                i = site[1]
            i += 1
        return result

    def _kind(self, i: int) -> TokenType | None:
        return self.tokens[i].token_type if 0 <= i < len(self.tokens) else None

    def _raw(self, i: int) -> str:
        return self.sql[self.tokens[i].start : self.tokens[i].end + 1]

    def _span(self, first: int, last: int) -> Span:
        return Span(self.tokens[first].start, self.tokens[last].end + 1)

    def _opens_list(self, i: int) -> bool:
        return self._kind(i) is TokenType.L_PAREN and self._kind(i - 1) is TokenType.IN

    def _parameter(self, i: int) -> _Found | None:
        if self._kind(i) is not TokenType.COLON or i + 1 >= len(self.tokens) or "@" not in self.tokens[i + 1].text:
            return None
        name = self.tokens[i + 1].text.split("@")[0]
        listed = self._opens_list(i - 1) and self._kind(i + 2) is TokenType.R_PAREN
        cast = self._kind(i + 2) in (TokenType.DCOLON, TokenType.ALIAS)
        return i, i + 1, Site(self._span(i, i + 1), SiteKind.PARAMETER, (name,), listed, cast=cast)

    def _list(self, i: int, outer: bool) -> _Found | None:
        """All members of ``IN (…)``."""
        if not self._opens_list(i - 1):
            return None
        values: list[tuple[SiteKind, str]] = []
        at = i
        while (member := self._value(at)) is not None:
            last, kind, text = member
            values.append((kind, text))
            at = last + 2
            if self._kind(last + 1) is TokenType.R_PAREN and len({kind for kind, _ in values}) == 1:
                texts = tuple(text for _, text in values)
                return i, last, Site(self._span(i, last), kind, texts, listed=True, outer=outer)
            if self._kind(last + 1) is not TokenType.COMMA:
                return None
        return None

    def _constant(self, i: int, outer: bool) -> _Found | None:
        """The whole side of a comparison, or a number of rows."""
        value = self._value(i)
        if value is None or not (self._kind(i - 1) in _BEFORE or self._is_upper_end(i)):
            return None
        last, kind, text = value
        behind = self._kind(last + 1)
        if behind is not None and behind not in _BEHIND:
            return None
        return i, last, Site(self._span(i, last), kind, (text,), outer=outer)

    def _is_upper_end(self, i: int) -> bool:
        """Return whether BETWEEN, a constant or parameter, and AND are in front."""
        if self._kind(i - 1) is not TokenType.AND:
            return False
        begin = next((n for n in (i - 3, i - 4) if self._kind(n) is TokenType.BETWEEN), None)
        if begin is None:
            return False
        lower = self._value(begin + 1)
        return (lower is not None and lower[0] == i - 2) or self._kind(begin + 1) is TokenType.COLON

    def _value(self, i: int) -> tuple[int, SiteKind, str] | None:
        """The constant that begins there: its last token, its kind and its text."""
        kind = self._kind(i)
        if kind is TokenType.DASH and self._kind(i + 1) is TokenType.NUMBER and _NUMBER.fullmatch(self._raw(i + 1)):
            return i + 1, SiteKind.NUMBER, "-" + self._raw(i + 1)
        if kind is TokenType.NUMBER and _NUMBER.fullmatch(self._raw(i)):
            return i, SiteKind.NUMBER, self._raw(i)
        if kind is TokenType.STRING and _TEXT.fullmatch(self._raw(i)):
            return i, SiteKind.TEXT, self._raw(i)[1:-1].replace("''", "'")
        return None


# --- words ----------------------------------------------------------------------------------------------------------


def _words(sql: str, tokens: Sequence[Token], sites: Sequence[_Found], grammar: Grammar) -> str:
    """The words, each on a line of its own; at sites a mark that no word can be."""
    found = {first: (last, site) for first, last, site in sites}
    words: list[str] = []
    i = 0
    while i < len(tokens):
        if i in found:
            i, site = found[i]
            words.append("\0[]" if site.listed else "\0")
        else:
            words.append(_gap(sql, tokens, i) + _word(sql, tokens[i], grammar))
        i += 1
    return "\n".join(words)


def _word(sql: str, token: Token, grammar: Grammar) -> str:
    raw = sql[token.start : token.end + 1]
    if token.token_type in _STRINGS:
        # Its lines are not those of the words.
        return repr(raw)
    return grammar.folded(" ".join(raw.split()))


def _gap(sql: str, tokens: Sequence[Token], i: int) -> str:
    """Return the text before a string that decides its meaning: ``E'…'``, or two strings that are one, on two lines."""
    if i == 0 or tokens[i].token_type not in _STRINGS:
        return ""
    gap = sql[tokens[i - 1].end + 1 : tokens[i].start]
    return "" if not gap else "\t" if "\n" in gap or "\r" in gap else " "
