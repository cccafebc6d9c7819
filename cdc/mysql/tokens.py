"""Lexical analysis of SQL statements of MariaDB and MySQL. Pure.

MySQL manual, "Language Structure"; MariaDB manual, "SQL Language Structure". Strings and comments are recognized in one
pass from left to right, as by the servers.

*Invariants*: a text outside these rules raises `UnknownSyntax`; no text is skipped. A versioned comment
(``/*!50000 … */``) in the binary log was executed: a server that does not execute it logs a plain comment.

Not here: the grammar of statements (`statements`, `alterations`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import assert_never

#: Bits of ``sql_mode`` that change the lexical rules. (MySQL 8 never sets MSSQL.)
ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 10, 1 << 20
#: Replaces bytes of a statement that are not decoded (`charsets.client_text`).
UNREADABLE = "\ufffd"


class UnknownSyntax(ValueError):
    """The statement is outside the supported grammar."""


class TokenKind(Enum):
    """Kinds of tokens that the grammar of statements distinguishes."""

    #: A keyword, an unquoted name, or a number.
    WORD = auto()
    #: A quoted name.
    NAME = auto()
    STRING = auto()
    SIGN = auto()


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token; `text` of a name or string is unquoted."""

    kind: TokenKind
    text: str

    @property
    def keyword(self) -> str:
        """The text in upper case, or ``name`` or ``string``, which equal no keyword."""
        match self.kind:
            case TokenKind.WORD | TokenKind.SIGN:
                return self.text.upper()
            case TokenKind.NAME | TokenKind.STRING:
                return self.kind.name.lower()
            case _:
                assert_never(self.kind)


_BETWEEN = r"""(?P<between>
    [ \t\n\v\f\r]++ | \#[^\n]*+ | --(?=[\x00-\x20\x7f]|\Z)[^\n]*+ | /\*(?!M?!).*?\*/
)"""
_EXECUTED = r"(?P<opened>/\*M?!(?:\d{5,6})?)|(?P<closed>\*/)"
_OTHERS = r"(?P<word>[0-9A-Za-z_$\u0080-\U0010ffff]++)|(?P<sign>(?!/\*)[!%&()*+,\-./:;<=>?@\[\\\]^{|}~])"


@lru_cache(maxsize=16)
def _pattern(sql_mode: int) -> re.Pattern[str]:
    """Return the pattern of a token under an ``sql_mode``."""
    escape = "" if sql_mode & NO_BACKSLASH_ESCAPES else r"|\\."
    plain = "" if sql_mode & NO_BACKSLASH_ESCAPES else r"\\"
    strings = [rf"'(?:[^'{plain}]++|''{escape})*+'"]
    names = ["`(?:[^`]++|``)*+`"]
    if sql_mode & ANSI_QUOTES:
        names.append('"(?:[^"]++|"")*+"')
    else:
        strings.append(rf'"(?:[^"{plain}]++|""{escape})*+"')
    if sql_mode & MSSQL:
        names.append(r"\[(?:[^\]]++|\]\])*+\]")
    quoted = f"(?P<name>{'|'.join(names)})|(?P<string>{'|'.join(strings)})"
    return re.compile(f"{_BETWEEN}|{_EXECUTED}|{quoted}|{_OTHERS}", re.DOTALL | re.VERBOSE)


def tokens_of(text: str, sql_mode: int) -> list[SqlToken]:
    """Return the tokens of a statement without trailing semicolons. Raises UnknownSyntax."""
    tokens = list(_tokens(text, sql_mode & (ANSI_QUOTES | MSSQL | NO_BACKSLASH_ESCAPES)))
    while tokens and tokens[-1] == SqlToken(TokenKind.SIGN, ";"):
        tokens.pop()
    return tokens


def _tokens(text: str, sql_mode: int) -> Iterator[SqlToken]:
    match = _pattern(sql_mode).match
    at, executed = 0, False
    while at < len(text):
        found = match(text, at)
        if found is None:
            raise UnknownSyntax(f"the text from its character {at} on")
        at = found.end()
        match found.lastgroup:
            case "opened" | "closed":
                if executed == (found.lastgroup == "opened"):
                    raise UnknownSyntax("a comment")
                executed = not executed
            case "word":
                yield SqlToken(TokenKind.WORD, found[0])
            case "sign":
                yield SqlToken(TokenKind.SIGN, found[0])
            case "name" | "string":
                end = found[0][-1]
                kind = TokenKind.NAME if found.lastgroup == "name" else TokenKind.STRING
                yield SqlToken(kind, found[0][1:-1].replace(end * 2, end))
            case _:
                pass
    if executed:
        raise UnknownSyntax("a comment without an end")


class TokenReader:
    """Cursor over the tokens of a statement. `database` is that of unqualified table names."""

    def __init__(self, tokens: list[SqlToken], database: str) -> None:
        self._tokens = tokens
        self._at = 0
        self.database = database

    @property
    def at_end(self) -> bool:
        """True if all tokens have been read."""
        return self._at >= len(self._tokens)

    def peek(self) -> str:
        """Return the next token as a keyword; "" at the end."""
        return "" if self.at_end else self._tokens[self._at].keyword

    def next(self) -> SqlToken:
        """Read the next token. Raises UnknownSyntax."""
        if self.at_end:
            raise UnknownSyntax("the end")
        self._at += 1
        return self._tokens[self._at - 1]

    def skip(self, *words: str) -> bool:
        """Skip the next token if it is one of these."""
        found = self.peek() in words and not self.at_end
        self._at += found
        return found

    def skip_phrase(self, *words: str) -> bool:
        """Skip the next tokens if they are these."""
        found = [token.keyword for token in self._tokens[self._at : self._at + len(words)]] == list(words)
        self._at += len(words) if found else 0
        return found

    def require(self, *words: str) -> None:
        """Skip these tokens. Raises UnknownSyntax."""
        if not self.skip_phrase(*words):
            raise UnknownSyntax(" ".join(words))

    def require_end(self) -> None:
        """Raise UnknownSyntax if any token is left."""
        if not self.at_end:
            raise UnknownSyntax(self.peek())

    def name(self) -> str:
        """Read a name. Raises UnknownSyntax."""
        token = self.next()
        if token.kind not in (TokenKind.WORD, TokenKind.NAME) or UNREADABLE in token.text:
            raise UnknownSyntax(token.text)
        return token.text

    def table(self) -> tuple[str, str]:
        """Read a table's name, by default in the statement's database. Raises UnknownSyntax."""
        name = self.database if self.peek() == "." else self.name()
        return (name, self.name()) if self.skip(".") else (self.database, name)

    def tables(self) -> list[tuple[str, str]]:
        """Read table names, separated by commas. Raises UnknownSyntax."""
        found = [self.table()]
        while self.skip(","):
            found.append(self.table())
        return found

    def skip_existence(self) -> bool:
        """Skip IF [NOT] EXISTS."""
        return self.skip_phrase("IF", "EXISTS") or self.skip_phrase("IF", "NOT", "EXISTS")

    def skip_wait(self) -> None:
        """Skip WAIT n or NOWAIT."""
        if not self.skip("NOWAIT") and self.skip("WAIT"):
            self.next()

    def skip_to(self, word: str) -> None:
        """Skip up to and including the word, outside of parentheses. Raises UnknownSyntax."""
        depth = 0
        while depth or self.peek() != word:
            depth += _nesting(self.next())
        self.next()

    def keywords(self) -> list[str]:
        """Return all further tokens as keywords."""
        return [token.keyword for token in self._tokens[self._at :]]

    def parts(self) -> Iterator["TokenReader"]:
        """Split the further tokens at commas outside of parentheses."""
        part: list[SqlToken] = []
        depth = 0
        for token in self._tokens[self._at :]:
            depth += _nesting(token)
            if token.keyword == "," and not depth:
                yield TokenReader(part, self.database)
                part = []
            else:
                part.append(token)
        yield TokenReader(part, self.database)


def _nesting(token: SqlToken) -> int:
    return (token.keyword == "(") - (token.keyword == ")")
