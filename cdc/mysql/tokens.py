"""The tokens of an SQL statement, by the lexical rules of MariaDB and MySQL. Pure.

MySQL manual, "Language Structure"; MariaDB manual, "SQL Language Structure". Strings and comments are found in one pass
from left to right, as the servers do it: neither is looked for inside of the other.

*Invariants*: a text that these rules do not cover raises `UnknownSyntax`; nothing of it is skipped. A versioned comment
(``/*!50000 … */``) in the binary log was executed: a server that does not execute one logs it as a plain comment.

Not here: what statements mean (`statements`, `alterations`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache

#: Bits of ``sql_mode`` that change what a text means. (MySQL 8 has no MSSQL, and never sets its bit.)
ANSI_QUOTES, MSSQL, NO_BACKSLASH_ESCAPES = 1 << 2, 1 << 10, 1 << 20
#: Stands for bytes of a text that are not decoded (`events`).
UNREADABLE = "\ufffd"


class UnknownSyntax(ValueError):
    """The statement is none of those that are known here."""


class TokenKind(Enum):
    """The kind of a token."""

    #: A keyword, a name without quotes, or a number.
    WORD = auto()
    #: A quoted name.
    NAME = auto()
    STRING = auto()
    SIGN = auto()


@dataclass(frozen=True, slots=True)
class SqlToken:
    """One token; `text` of a name or a string is without its quotes."""

    kind: TokenKind
    text: str

    @property
    def keyword(self) -> str:
        """In upper case, if it can be a keyword or a sign; otherwise something that is neither."""
        return self.text.upper() if self.kind in (TokenKind.WORD, TokenKind.SIGN) else self.kind.name.lower()


_BETWEEN = r"""(?P<between>
    [ \t\n\v\f\r]++ | \#[^\n]*+ | --(?=[\x00-\x20\x7f]|\Z)[^\n]*+ | /\*(?!M?!).*?\*/
)"""
_EXECUTED = r"(?P<opened>/\*M?!(?:\d{5,6})?)|(?P<closed>\*/)"
_OTHERS = r"(?P<word>[0-9A-Za-z_$\u0080-\U0010ffff]++)|(?P<sign>(?!/\*)[!%&()*+,\-./:;<=>?@\[\\\]^{|}~])"


@lru_cache(maxsize=16)
def _pattern(sql_mode: int) -> re.Pattern[str]:
    """All tokens under an ``sql_mode``."""
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
    """The tokens of a statement, without semicolons at its end. Raises UnknownSyntax."""
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
    """Reads the tokens of a statement one by one. `database`: of tables that are named without theirs."""

    def __init__(self, tokens: list[SqlToken], database: str) -> None:
        self._tokens = tokens
        self._at = 0
        self.database = database

    @property
    def at_end(self) -> bool:
        """Whether there are no more."""
        return self._at >= len(self._tokens)

    def peek(self) -> str:
        """The next token as a keyword; "" at the end."""
        return "" if self.at_end else self._tokens[self._at].keyword

    def next(self) -> SqlToken:
        """Go past the next token. Raises UnknownSyntax."""
        if self.at_end:
            raise UnknownSyntax("the end")
        self._at += 1
        return self._tokens[self._at - 1]

    def skip(self, *words: str) -> bool:
        """Go past the next token if it is one of these."""
        found = self.peek() in words and not self.at_end
        self._at += found
        return found

    def skip_phrase(self, *words: str) -> bool:
        """Go past the next tokens if they are these."""
        found = [token.keyword for token in self._tokens[self._at : self._at + len(words)]] == list(words)
        self._at += len(words) if found else 0
        return found

    def require(self, *words: str) -> None:
        """Go past these tokens. Raises UnknownSyntax."""
        if not self.skip_phrase(*words):
            raise UnknownSyntax(" ".join(words))

    def require_end(self) -> None:
        """Nothing is left. Raises UnknownSyntax."""
        if not self.at_end:
            raise UnknownSyntax(self.peek())

    def name(self) -> str:
        """A name. Raises UnknownSyntax."""
        token = self.next()
        if token.kind not in (TokenKind.WORD, TokenKind.NAME) or UNREADABLE in token.text:
            raise UnknownSyntax(token.text)
        return token.text

    def table(self) -> tuple[str, str]:
        """A table's name, in the statement's database unless it says which. Raises UnknownSyntax."""
        name = self.database if self.peek() == "." else self.name()
        return (name, self.name()) if self.skip(".") else (self.database, name)

    def tables(self) -> list[tuple[str, str]]:
        """Table names, separated by commas. Raises UnknownSyntax."""
        found = [self.table()]
        while self.skip(","):
            found.append(self.table())
        return found

    def skip_existence(self) -> bool:
        """IF [NOT] EXISTS."""
        return self.skip_phrase("IF", "EXISTS") or self.skip_phrase("IF", "NOT", "EXISTS")

    def skip_wait(self) -> None:
        """WAIT n or NOWAIT."""
        if not self.skip("NOWAIT") and self.skip("WAIT"):
            self.next()

    def skip_to(self, word: str) -> None:
        """Go past the next such token that is in no parentheses. Raises UnknownSyntax."""
        depth = 0
        while depth or self.peek() != word:
            depth += _nesting(self.next())
        self.next()

    def keywords(self) -> list[str]:
        """All that is left, as keywords."""
        return [token.keyword for token in self._tokens[self._at :]]

    def parts(self) -> Iterator["TokenReader"]:
        """All that is left, cut at the commas that are in no parentheses."""
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
