"""What a statement in the binary log does to which tables, as far as the rows of tables are concerned. Pure.

Rows are logged as rows; statements are what defines tables, what ends transactions, and changes of rows of whoever has
set another ``binlog_format``.

*Invariant*: careful, not complete: a statement that is not understood is said to change rows of any table.

Not here: what follows from it (`assembler`).
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto

from cdc.mysql.events import Query

#: A database's name and a table's in it; no table is all of them.
TableName = tuple[str, str | None]


class Did(Enum):
    """What a statement did to a table."""

    #: All rows are gone.
    TRUNCATE = auto()
    #: It was dropped, renamed or created: the name is another table's now, or nobody's.
    REPLACE = auto()
    #: Columns are gone or of another kind; none are named if it may be any.
    ALTER = auto()
    #: Columns are at other places than they were.
    SHIFT = auto()
    #: Rows came or went that are not in the log.
    REWRITE = auto()


@dataclass(frozen=True, slots=True)
class Effect:
    """What a statement did to one table."""

    table: TableName
    did: Did
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement of the log. `changes_rows`: of some table, and they are not in the log."""

    effects: tuple[Effect, ...] = ()
    changes_rows: bool = False


_NOTHING = Statement()
_ROWS = Statement(changes_rows=True)

#: Quoted names, strings, words and numbers (also ``1st``), anything else by itself.
_TOKEN = re.compile(
    r"`(?:[^`]|``)*`|'(?:[^'\\]|\\.|'')*'|\"(?:[^\"\\]|\\.|\"\")*\"|[\w$\u0080-\uffff@]+|[^\s]", re.DOTALL
)
_COMMENT = re.compile(r"/\*(?!M?!).*?\*/|--[\s\x00-\x1f][^\n]*|#[^\n]*", re.DOTALL)
#: ``/*!50000 … */`` is no comment for the server.
_EXECUTED = re.compile(r"/\*M?!\d*|\*/")
_QUOTES = "`'\""

#: What does nothing to the rows of tables (``CREATE VIEW``, ``DROP INDEX`` …).
_HARMLESS = frozenset({
    "ANALYZE", "BEGIN", "BINLOG", "CHECK", "COMMIT", "COMMENT", "FLUSH", "GRANT", "INSTALL", "KILL", "OPTIMIZE",
    "PURGE", "RELEASE", "REPAIR", "RESET", "REVOKE", "ROLLBACK", "SAVEPOINT", "SET", "SHUTDOWN", "START", "STOP",
    "UNINSTALL", "UNLOCK", "USE", "XA",
})  # fmt: skip
#: Modifiers between CREATE, ALTER, DROP and what it is about; options of a view's definition have a value.
_MODIFIERS = frozenset({"OR", "REPLACE", "ONLINE", "OFFLINE", "IGNORE", "UNIQUE", "FULLTEXT", "SPATIAL", "AGGREGATE"})
_DEFINERS = frozenset({"DEFINER", "ALGORITHM", "SQL"})
_DATABASES = frozenset({"DATABASE", "SCHEMA"})


def statement_of(query: Query) -> Statement:
    """What the statement does."""
    tokens = _without_settings(_TOKEN.findall(_EXECUTED.sub(" ", _COMMENT.sub(" ", query.text))))
    first = tokens[0].upper() if tokens else "SET"
    reader = _Reader(tokens, 1, query.database)
    if first in ("CREATE", "DROP", "ALTER"):
        return _definition(first, reader)
    if first == "TRUNCATE":
        reader.skip("TABLE")
        return Statement((Effect(reader.table(), Did.TRUNCATE),))
    if first == "RENAME":
        return Statement(tuple(_renamed(reader))) if reader.skip("TABLE", "TABLES") else _NOTHING
    return _NOTHING if first in _HARMLESS else _ROWS


def _without_settings(tokens: list[str]) -> list[str]:
    """MariaDB: ``SET STATEMENT name = value, … FOR statement``."""
    if [token.upper() for token in tokens[:2]] == ["SET", "STATEMENT"]:
        ends = [i for i, token in enumerate(tokens) if token.upper() == "FOR"]
        return tokens[ends[0] + 1 :] if ends else ["?"]
    return tokens


class _Reader:
    """Reads tokens one by one."""

    def __init__(self, tokens: list[str], at: int, database: str) -> None:
        self._tokens = tokens
        self._at = at
        self._database = database

    def peek(self) -> str:
        """The next token as a keyword; "" at the end."""
        return self._tokens[self._at].upper() if self._at < len(self._tokens) else ""

    def next(self) -> str:
        """The next token as it is."""
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def skip(self, *words: str) -> bool:
        """Go past the next token if it is one of these."""
        found = self.peek() in words and self.peek() != ""
        self._at += found
        return found

    def table(self) -> tuple[str, str]:
        """A table's name, in the statement's database unless it says which."""
        name = _unquoted(self.next())
        if self.skip("."):
            return name, _unquoted(self.next())
        return self._database, name

    def names(self) -> Iterator[tuple[str, str]]:
        """Table names, separated by commas."""
        yield self.table()
        while self.skip(","):
            yield self.table()

    def skip_existence(self) -> bool:
        """IF [NOT] EXISTS."""
        return self.skip("IF") and (self.skip("NOT") or True) and self.skip("EXISTS")

    def parts(self) -> Iterator[list[str]]:
        """What is left, cut at the commas that are in no parentheses."""
        part: list[str] = []
        depth = 0
        for token in self._tokens[self._at :]:
            depth += (token == "(") - (token == ")")
            if token == "," and not depth:
                yield part
                part = []
            else:
                part.append(token)
        yield part


def _unquoted(token: str) -> str:
    if token[:1] in _QUOTES and len(token) > 1:
        return token[1:-1].replace(token[0] * 2, token[0])
    return token


def _definition(verb: str, reader: _Reader) -> Statement:
    ignores = False
    while reader.peek() in _MODIFIERS:
        ignores |= reader.next().upper() == "IGNORE"
    if reader.skip("TEMPORARY") or reader.peek() in _DEFINERS:
        return _NOTHING
    if reader.skip(*_DATABASES):
        if verb != "DROP":
            return _NOTHING
        reader.skip_existence()
        return Statement((Effect((_unquoted(reader.next()), None), Did.REPLACE),))
    if not reader.skip("TABLE", "TABLES"):
        return _NOTHING
    exists = reader.skip_existence()
    if verb == "DROP":
        return Statement(tuple(Effect(name, Did.REPLACE) for name in reader.names()))
    if verb == "ALTER":
        return Statement(tuple(_altered(reader, ignores)))
    # CREATE TABLE IF NOT EXISTS is also logged where it does nothing; where it does, there was a DROP before.
    return _NOTHING if exists else Statement((Effect(reader.table(), Did.REPLACE),))


def _renamed(reader: _Reader) -> Iterator[Effect]:
    reader.skip_existence()
    while True:
        yield Effect(reader.table(), Did.REPLACE)
        while reader.peek() not in ("TO", ""):
            reader.next()  # WAIT 5, NOWAIT
        reader.next()
        yield Effect(reader.table(), Did.REPLACE)
        if not reader.skip(","):
            return


# ── ALTER TABLE ──────────────────────────────────────────────────────────────────────────────────────────────────────

#: Parts of an ALTER TABLE that leave all rows and all columns as they are. (Keys are the catalog's business.)
_KEEPS = frozenset({
    "ALGORITHM", "AUTO_INCREMENT", "AVG_ROW_LENGTH", "CHECKSUM", "COMMENT", "COMPRESSION", "CONNECTION", "DEFAULT",
    "DELAY_KEY_WRITE", "DISABLE", "ENABLE", "ENCRYPTED", "ENCRYPTION", "ENCRYPTION_KEY_ID", "ENGINE", "FORCE",
    "INSERT_METHOD", "KEY_BLOCK_SIZE", "LOCK", "MAX_ROWS", "MIN_ROWS", "ORDER", "PACK_KEYS", "PAGE_CHECKSUM",
    "PAGE_COMPRESSED", "PAGE_COMPRESSION_LEVEL", "PARTITION", "REMOVE", "REORGANIZE", "REBUILD", "ROW_FORMAT",
    "STATS_AUTO_RECALC", "STATS_PERSISTENT", "STATS_SAMPLE_PAGES", "TABLESPACE", "TRANSACTIONAL", "VALIDATE",
    "WITHOUT", "CHARACTER", "CHARSET", "COLLATE", "NOWAIT", "WAIT", "ANALYZE", "CHECK", "OPTIMIZE", "REPAIR",
    "COALESCE", "",
})  # fmt: skip
_KEYS = frozenset({
    "INDEX", "KEY", "PRIMARY", "UNIQUE", "FULLTEXT", "SPATIAL", "FOREIGN", "CONSTRAINT", "CHECK", "PARTITION",
})  # fmt: skip


def _altered(reader: _Reader, ignores: bool) -> Iterator[Effect]:
    table = reader.table()
    if ignores:  # Rows that are in the way of a new key are dropped.
        yield Effect(table, Did.REWRITE)
    columns: list[str] = []
    for part in reader.parts():
        words = _Reader(_without_wait(part), 0, table[0])
        did = _part_did(words, columns)
        if did is not None:
            yield Effect(table, did)
        if did is Did.REPLACE:
            yield Effect(words.table(), did)
    if columns:
        yield Effect(table, Did.ALTER, tuple(columns))


def _without_wait(part: list[str]) -> list[str]:
    if part and part[0].upper() == "WAIT":
        return part[2:]
    return part[1:] if part and part[0].upper() == "NOWAIT" else part


def _part_did(words: _Reader, columns: list[str]) -> Did | None:
    """What one part of an ALTER TABLE does to the table; columns that it changes are added to `columns`."""
    verb = words.peek()
    if verb in _KEEPS:
        return None
    words.next()
    following = words.peek()
    if verb in ("DROP", "TRUNCATE", "EXCHANGE", "CONVERT", "DISCARD", "IMPORT") and following == "PARTITION":
        return Did.REWRITE
    if verb == "RENAME" and following not in ("COLUMN", "INDEX", "KEY"):
        words.skip("TO", "AS", "=")
        return Did.REPLACE
    if verb not in ("ADD", "DROP", "MODIFY", "CHANGE", "RENAME", "ALTER") or following in ("SYSTEM", "PERIOD"):
        return Did.ALTER
    if following in _KEYS:
        return None
    return _column_did(verb, words, columns)


def _column_did(verb: str, words: _Reader, columns: list[str]) -> Did | None:
    """What is done with a column. New ones change nothing, if they are behind the others."""
    words.skip("COLUMN")
    words.skip_existence()
    column = _unquoted(words.next())
    if verb in ("DROP", "MODIFY", "CHANGE", "RENAME"):  # ALTER: a default for what comes.
        columns.append(column)
    rest = {token.upper() for part in words.parts() for token in part}
    return Did.SHIFT if verb == "DROP" or rest & {"FIRST", "AFTER"} else None
