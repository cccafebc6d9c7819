"""Effects of the binary log's statements on tables. Pure.

Changes of rows are logged as rows. Statements define tables, end transactions, or change rows in sessions that have set
another ``binlog_format``.

*Invariant*: a statement that this grammar does not cover may have changed anything in any table
(`EffectKind.UNKNOWN`); it never counts as one without effects.

Not here: the parts of ALTER TABLE (`alterations`), the consequences (`assembler`, `bindings`).
"""

from dataclasses import dataclass

from cdc.mysql.alterations import alterations
from cdc.mysql.events import QueryEvent
from cdc.mysql.table_effects import EVERY_TABLE, EffectKind, TableEffect
from cdc.mysql.tokens import TokenReader, UnknownSyntax, tokens_of


@dataclass(frozen=True, slots=True)
class BinlogStatement:
    """A statement of the log; with `changes_rows` it changed rows that are not in the log."""

    effects: tuple[TableEffect, ...] = ()
    changes_rows: bool = False


_NOTHING = BinlogStatement()
_ROWS = BinlogStatement(changes_rows=True)
_ANYTHING = BinlogStatement((TableEffect(EVERY_TABLE, EffectKind.UNKNOWN),))

#: First words of statements without effects on rows.
_HARMLESS = frozenset(
    {
        "",
        "ANALYZE",
        "BEGIN",
        "BINLOG",
        "CHECK",
        "COMMIT",
        "FLUSH",
        "GRANT",
        "INSTALL",
        "KILL",
        "OPTIMIZE",
        "PURGE",
        "RELEASE",
        "REPAIR",
        "RESET",
        "REVOKE",
        "ROLLBACK",
        "SAVEPOINT",
        "SET",
        "SHUTDOWN",
        "START",
        "STOP",
        "UNINSTALL",
        "UNLOCK",
        "USE",
        "XA",
    }
)
#: First words of statements that may change rows, directly or by routines.
_CHANGES = frozenset(
    {
        "(",
        "CALL",
        "DELETE",
        "DO",
        "EXECUTE",
        "HANDLER",
        "INSERT",
        "LOAD",
        "REPLACE",
        "SELECT",
        "TABLE",
        "UPDATE",
        "VALUES",
        "WITH",
    }
)
#: Options before the kind of object in definitions of views and routines.
_DEFINERS = frozenset({"DEFINER", "ALGORITHM", "SQL"})
#: Kinds of objects whose definition has no effect on rows, and words before INDEX.
_OTHER_KINDS = frozenset(
    {
        "AGGREGATE",
        "EVENT",
        "FULLTEXT",
        "FUNCTION",
        "INDEX",
        "INSTANCE",
        "LIBRARY",
        "LOGFILE",
        "PACKAGE",
        "PREPARE",
        "PROCEDURE",
        "RESOURCE",
        "ROLE",
        "SERVER",
        "SPATIAL",
        "TABLESPACE",
        "TRIGGER",
        "UNDO",
        "UNIQUE",
        "USER",
        "VECTOR",
        "VIEW",
    }
)


def statement_of(query: QueryEvent) -> BinlogStatement:
    """Parse a statement into its effects."""
    try:
        return _statement(TokenReader(tokens_of(query.text, query.sql_mode), query.database))
    except UnknownSyntax:
        return _ANYTHING


def _statement(reader: TokenReader) -> BinlogStatement:
    if reader.skip_phrase("SET", "STATEMENT"):  # MariaDB: SET STATEMENT name = value, … FOR statement
        reader.skip_to("FOR")
        if reader.at_end:
            raise UnknownSyntax("SET STATEMENT")
    first = "" if reader.at_end else reader.next().keyword
    match first:
        case "CREATE":
            return _created(reader)
        case "DROP":
            return _dropped(reader)
        case "ALTER":
            return _altered(reader)
        case "TRUNCATE":
            return _truncated(reader)
        case "RENAME":
            return _renamed(reader)
        case _:
            pass
    if first in _HARMLESS:
        return _NOTHING
    if first in _CHANGES:
        return _ROWS
    raise UnknownSyntax(first)


def _created(reader: TokenReader) -> BinlogStatement:
    replaces = reader.skip_phrase("OR", "REPLACE")
    if reader.skip("TEMPORARY"):
        return _NOTHING
    if reader.peek() in _DEFINERS or reader.peek() == "VIEW":
        return _defined(reader)
    reader.skip("ONLINE", "OFFLINE")
    if reader.skip("DATABASE", "SCHEMA"):
        reader.skip_existence()
        return BinlogStatement((TableEffect((reader.name(), None), EffectKind.REPLACE),)) if replaces else _NOTHING
    if replaces and any(word in reader.keywords()[:2] for word in ("INDEX", "KEY")):
        return _index(reader)
    # Sequences share the names of tables, and may replace one.
    if not reader.skip("TABLE", "SEQUENCE"):
        return _of_other_kind(reader)
    # CREATE TABLE IF NOT EXISTS is also logged without an effect; a table that it creates was dropped before.
    return _NOTHING if reader.skip_existence() else BinlogStatement((TableEffect(reader.table(), EffectKind.REPLACE),))


def _defined(reader: TokenReader) -> BinlogStatement:
    """Read the definition of a view, routine, trigger or event, from its options on."""
    while reader.peek() not in _OTHER_KINDS:
        reader.next()
    if not reader.skip("VIEW"):
        return _NOTHING
    # IF NOT EXISTS: as for tables.
    return _NOTHING if reader.skip_existence() else BinlogStatement((TableEffect(reader.table(), EffectKind.VIEW),))


def _index(reader: TokenReader) -> BinlogStatement:
    """Read the name of an index that is dropped or replaced."""
    reader.skip("UNIQUE", "FULLTEXT", "SPATIAL", "VECTOR")
    reader.skip("INDEX", "KEY")
    reader.skip_existence()
    name = reader.name()
    reader.skip_to("ON")
    return BinlogStatement((TableEffect(reader.table(), EffectKind.UNIQUE, (name,)),))


def _dropped(reader: TokenReader) -> BinlogStatement:
    if reader.skip("TEMPORARY"):
        return _NOTHING
    reader.skip("ONLINE", "OFFLINE")
    if reader.skip("DATABASE", "SCHEMA"):
        reader.skip_existence()
        effects = [TableEffect((reader.name(), None), EffectKind.REPLACE)]
    elif reader.skip("TABLE", "TABLES", "SEQUENCE"):
        reader.skip_existence()
        effects = [TableEffect(table, EffectKind.REPLACE) for table in reader.tables()]
        reader.skip_wait()
        reader.skip("RESTRICT", "CASCADE")
    elif reader.skip("VIEW"):
        reader.skip_existence()
        effects = [TableEffect(view, EffectKind.VIEW) for view in reader.tables()]
        reader.skip("RESTRICT", "CASCADE")
    elif reader.peek() == "INDEX":
        return _index(reader)
    else:
        return _of_other_kind(reader)
    reader.require_end()
    return BinlogStatement(tuple(effects))


def _altered(reader: TokenReader) -> BinlogStatement:
    if reader.peek() in _DEFINERS or reader.peek() == "VIEW":
        return _defined(reader)
    reader.skip("ONLINE", "OFFLINE")
    ignores = reader.skip("IGNORE")
    if reader.skip("TABLE"):
        return BinlogStatement(tuple(alterations(reader, ignores)))
    if reader.skip("DATABASE", "SCHEMA"):
        # UPGRADE DATA DIRECTORY NAME renames the database; all other forms concern later tables.
        if "UPGRADE" in reader.keywords():
            raise UnknownSyntax("UPGRADE")
        return _NOTHING
    return _NOTHING if reader.skip("SEQUENCE") else _of_other_kind(reader)


def _of_other_kind(reader: TokenReader) -> BinlogStatement:
    if reader.peek() not in _OTHER_KINDS:
        raise UnknownSyntax(reader.peek())
    return _NOTHING


def _truncated(reader: TokenReader) -> BinlogStatement:
    reader.skip("TABLE")
    table = reader.table()
    reader.skip_wait()
    reader.require_end()
    return BinlogStatement((TableEffect(table, EffectKind.TRUNCATE),))


def _renamed(reader: TokenReader) -> BinlogStatement:
    if reader.skip("USER"):
        return _NOTHING
    if not reader.skip("TABLE", "TABLES"):
        raise UnknownSyntax(reader.peek())
    reader.skip_existence()
    effects: list[TableEffect] = []
    while not effects or reader.skip(","):
        effects.append(TableEffect(reader.table(), EffectKind.REPLACE))
        reader.skip_wait()
        reader.require("TO")
        effects.append(TableEffect(reader.table(), EffectKind.REPLACE))
    reader.require_end()
    return BinlogStatement(tuple(effects))
