"""SQL file of a migration: its statements, and whether all of them can be run in one transaction.

*Invariants*: `blanked` text has the length and the lines of the file, so that positions in both are the same.

Not here: running it (`execution`).
"""

import re
from dataclasses import dataclass

_POSTGRES = re.compile(
    r"--[^\n]*"
    r"|(?<![\w$])[eE]'(?:[^'\\]|\\.|'')*'"
    r"|'(?:[^']|'')*'"
    r'|"(?:[^"]|"")*"'
    r"|(?<![\w$])\$(?P<tag>(?:[A-Za-z_]\w*)?)\$.*?\$(?P=tag)\$"
    r"|/\*",
    re.DOTALL,
)
_MYSQL = re.compile(
    r"(?:#|--(?=\s|$))[^\n]*"
    r"|'(?:[^'\\]|\\.|'')*'"
    r'|"(?:[^"\\]|\\.|"")*"'
    r"|`(?:[^`]|``)*`"
    r"|/\*(?!!).*?\*/",
    re.DOTALL,
)
_COMMENT_ENDS = re.compile(r"/\*|\*/")


@dataclass(frozen=True, slots=True)
class Syntax:
    """Lexical rules of a database's scripts."""

    #: Comments, literals and quoted names; ``/*`` alone begins a comment that may contain others.
    opaque: re.Pattern[str]
    #: Commands of the client program.
    client: re.Pattern[str]
    program: str


SYNTAXES = {
    "postgres": Syntax(_POSTGRES, re.compile(r"\\\S*|\bCOPY\b[^;]*\bFROM\s+STDIN\b", re.IGNORECASE), "psql"),
    "mysql": Syntax(
        _MYSQL, re.compile(r"\\\S*|^\s*(?:DELIMITER|SOURCE)\b", re.IGNORECASE | re.MULTILINE), "the client program"
    ),
}
_OF_TRANSACTIONS = re.compile(r"(?:BEGIN|START\s+TRANSACTION|COMMIT|END|ROLLBACK|ABORT)\b", re.IGNORECASE)
#: Statements that PostgreSQL refuses in a transaction.
_ALONE = re.compile(
    r"(?:CREATE|DROP)\s+(?:UNIQUE\s+)?INDEX\s+CONCURRENTLY\b"
    r"|REINDEX\b.*(?:\bCONCURRENTLY\b|\b(?:DATABASE|SYSTEM|SCHEMA)\b)"
    r"|ALTER\s+TABLE\b.*\bDETACH\s+PARTITION\b.*\bCONCURRENTLY\b"
    r"|VACUUM\b|ALTER\s+SYSTEM\b|(?:CREATE|DROP)\s+(?:DATABASE|TABLESPACE|SUBSCRIPTION)\b",
    re.IGNORECASE | re.DOTALL,
)
_ATOMIC = re.compile(r"CREATE\s+(?:OR\s+REPLACE\s+)?(?:FUNCTION|PROCEDURE)\b", re.IGNORECASE)
#: Parts that decide whether a semicolon ends a statement.
_PARTS = re.compile(r"[;()]|\b(?:BEGIN\s+ATOMIC|CASE|END)\b", re.IGNORECASE)


class ScriptError(Exception):
    """Unusable file of a migration."""


@dataclass(frozen=True, slots=True)
class ScriptStatement:
    """Statement of a script, and the place of its first character."""

    text: str
    start: int
    #: True if it cannot be run in a transaction.
    alone: bool
    #: True if it begins or ends a transaction.
    of_transactions: bool


@dataclass(frozen=True, slots=True)
class Script:
    """Statements of a file."""

    text: str
    #: The text with spaces for comments, literals and quoted names.
    blanked: str
    statements: tuple[ScriptStatement, ...]

    @classmethod
    def parse(cls, text: str, syntax: Syntax) -> "Script":
        """Splits a file. Raises `ScriptError` for a command of a client program, which the database does not run."""
        blank = _blanked(text, syntax.opaque)
        client = syntax.client.search(blank)
        if client is not None:
            word = " ".join(client[0].split())
            raise ScriptError(
                f"Line {_line(text, client.start())} has a command of {syntax.program}, which the database does not "
                f"run: {word}. Remove it, or write it in SQL."
            )
        return cls(text, blank, tuple(_statements(text, blank)))

    @property
    def in_one_transaction(self) -> bool:
        """True if the whole file can be run in a transaction begun for it."""
        return not any(statement.alone or statement.of_transactions for statement in self.statements)

    def line(self, place: int) -> int:
        """Returns the number of the line at a place of the text."""
        return _line(self.text, place)


def _blanked(text: str, opaque: re.Pattern[str]) -> str:
    """Blanks comments, literals and quoted names."""
    parts: list[str] = []
    at = 0
    while (found := opaque.search(text, at)) is not None:
        end = found.end() if found[0] != "/*" else _comment_end(text, found.end())
        parts += [text[at : found.start()], _spaces(text[found.start() : end])]
        at = end
    return "".join([*parts, text[at:]])


def _comment_end(text: str, at: int) -> int:
    depth = 1
    for mark in _COMMENT_ENDS.finditer(text, at):
        depth += 1 if mark[0] == "/*" else -1
        if depth == 0:
            return mark.end()
    return len(text)


def _spaces(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def _statements(text: str, blank: str) -> list[ScriptStatement]:
    found, start, depth, parentheses = [], 0, 0, 0
    for part in _PARTS.finditer(blank):
        word = part[0].upper()
        if word in "()":
            parentheses += 1 if word == "(" else -1
        elif word.startswith("BEGIN"):
            depth += _ATOMIC.match(blank[start:].lstrip()) is not None
        elif word == "CASE":
            depth += depth > 0
        elif word == "END":
            depth -= depth > 0
        elif depth == 0 and parentheses <= 0:
            found.append((start, part.end()))
            start, parentheses = part.end(), 0
    found.append((start, len(text)))
    statements = []
    for begin, end in found:
        code = blank[begin:end].strip().rstrip(";")
        if code:
            at = begin + len(blank[begin:end]) - len(blank[begin:end].lstrip())
            alone, bounds = _ALONE.match(code) is not None, _OF_TRANSACTIONS.match(code) is not None
            statements.append(ScriptStatement(text[at:end].rstrip().removesuffix(";"), at, alone, bounds))
    return statements


def _line(text: str, place: int) -> int:
    return text.count("\n", 0, place) + 1
