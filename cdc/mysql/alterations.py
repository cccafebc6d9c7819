"""Effects of ALTER TABLE on tables. Pure.

MariaDB manual and MySQL manual, "ALTER TABLE": parts separated by commas, the last optionally followed by partitioning;
or one command on partitions, up to the end of the statement.

*Invariant*: a part outside these grammars raises `UnknownSyntax`.

Not here: other statements (`statements`), new keys (the catalog).
"""

from cdc.mysql.table_effects import EffectKind, TableEffect
from cdc.mysql.tokens import TokenKind, TokenReader, UnknownSyntax

#: Options of a table, with one value each, that change neither rows nor columns.
_OPTIONS = frozenset(
    {
        "ALGORITHM",
        "AUTO_INCREMENT",
        "AUTOEXTEND_SIZE",
        "AVG_ROW_LENGTH",
        "CHARSET",
        "CHECKSUM",
        "COLLATE",
        "COMMENT",
        "COMPRESSION",
        "CONNECTION",
        "DELAY_KEY_WRITE",
        "ENCRYPTED",
        "ENCRYPTION",
        "ENCRYPTION_KEY_ID",
        "ENGINE",
        "ENGINE_ATTRIBUTE",
        "INSERT_METHOD",
        "KEY_BLOCK_SIZE",
        "LOCK",
        "MAX_ROWS",
        "MIN_ROWS",
        "PACK_KEYS",
        "PAGE_CHECKSUM",
        "PAGE_COMPRESSED",
        "PAGE_COMPRESSION_LEVEL",
        "PASSWORD",
        "ROW_FORMAT",
        "SECONDARY_ENGINE",
        "SECONDARY_ENGINE_ATTRIBUTE",
        "STATS_AUTO_RECALC",
        "STATS_PERSISTENT",
        "STATS_SAMPLE_PAGES",
        "STORAGE",
        "TABLE_CHECKSUM",
        "TABLESPACE",
        "TRANSACTIONAL",
    }
)
#: Options of two words.
_LONG_OPTIONS = (("CHARACTER", "SET"), ("DATA", "DIRECTORY"), ("INDEX", "DIRECTORY"))
#: Parts that change neither rows nor columns.
_KEEPS = (
    ("FORCE",),
    ("ENABLE", "KEYS"),
    ("DISABLE", "KEYS"),
    ("WITH", "VALIDATION"),
    ("WITHOUT", "VALIDATION"),
    ("SECONDARY_LOAD",),
    ("SECONDARY_UNLOAD",),
)
#: Parts that invalidate the table's layout.
_REDEFINES = (
    ("DISCARD", "TABLESPACE"),
    ("IMPORT", "TABLESPACE"),
    ("ADD", "SYSTEM", "VERSIONING"),
    ("ADD", "PERIOD", "FOR"),
    ("DROP", "SYSTEM", "VERSIONING"),
    ("DROP", "PERIOD", "FOR"),
    ("WITH", "SYSTEM", "VERSIONING"),
    ("CONVERT", "TO", "CHARACTER", "SET"),
    ("CONVERT", "TO", "CHARSET"),
)
#: Commands on partitions: those that keep the table's rows, and those that remove or replace rows.
_KEEPING_PARTITIONS = frozenset({"ADD", "ANALYZE", "CHECK", "COALESCE", "OPTIMIZE", "REBUILD", "REORGANIZE", "REPAIR"})
_CHANGING_PARTITIONS = frozenset({"DISCARD", "DROP", "IMPORT", "TRUNCATE"})
#: Partitioning after the last part.
_PARTITIONING = (["PARTITION", "BY"], ["REMOVE", "PARTITIONING"], ["UPGRADE", "PARTITIONING"])
#: Words after ADD, DROP, RENAME and ALTER that introduce a key or constraint.
_KEYS = frozenset({"CHECK", "CONSTRAINT", "FOREIGN", "FULLTEXT", "INDEX", "KEY", "PRIMARY", "SPATIAL", "UNIQUE"})
_ACTIONS = frozenset({"CASCADE", "SET"})


def alterations(reader: TokenReader, ignores: bool) -> list[TableEffect]:
    """Parse a statement from the table's name on; `ignores`: ALTER IGNORE. Raises UnknownSyntax."""
    reader.skip_existence()
    altered = _Altered(reader.table())
    reader.skip_wait()
    if ignores:  # Rows that violate a new key are dropped.
        altered.add(EffectKind.REWRITE)
    if ";" in reader.keywords():
        raise UnknownSyntax(";")
    if reader.at_end:
        return altered.effects()
    ordered = False
    for part in reader.parts():
        if altered.takes_partitions(part):
            break  # Later commas separate partitions.
        ordered = _is_order(part.keywords(), ordered)
        if not ordered:
            altered.takes(part)
    return altered.effects()


def _is_order(words: list[str], ordered: bool) -> bool:
    """Return whether a part is ORDER BY, or a further column of it."""
    if words[:2] == ["ORDER", "BY"]:
        return True
    return ordered and (len(words) == 1 or (len(words) == 2 and words[1] in ("ASC", "DESC")))


class _Altered:
    """A table while its ALTER TABLE is parsed.

    *State*: `_effects` in their order, as keys; `_columns`, dropped or with another type; `_keys`, dropped.
    """

    def __init__(self, table: tuple[str, str]) -> None:
        self._table = table
        self._effects: dict[TableEffect, None] = {}
        self._columns: dict[str, None] = {}
        self._keys: dict[str, None] = {}

    def add(self, kind: EffectKind, table: tuple[str, str] | None = None) -> None:
        """Add an effect on another table, or by default on the altered one."""
        self._effects[TableEffect(table or self._table, kind)] = None

    def effects(self) -> list[TableEffect]:
        named = ((EffectKind.ALTER, self._columns), (EffectKind.UNIQUE, self._keys))
        return [*self._effects, *(TableEffect(self._table, kind, tuple(names)) for kind, names in named if names)]

    # ── Partitions ───────────────────────────────────────────────────────────────────────────────────────────────────

    def takes_partitions(self, words: TokenReader) -> bool:
        """Parse a command on partitions; return False if the part is none."""
        if words.skip_phrase("CONVERT", "TABLE"):
            self.add(EffectKind.REPLACE, words.table())
            words.require("TO", "PARTITION")
            self.add(EffectKind.REWRITE)
        elif words.skip_phrase("CONVERT", "PARTITION"):
            words.name()
            words.require("TO", "TABLE")
            self._exchanged(EffectKind.REPLACE, words)
        elif words.skip_phrase("EXCHANGE", "PARTITION"):
            words.name()
            words.require("WITH", "TABLE")
            self._exchanged(EffectKind.REWRITE, words)
        elif any(words.skip_phrase(verb, "PARTITION") for verb in _CHANGING_PARTITIONS):
            self.add(EffectKind.REWRITE)
        else:
            return any(words.skip_phrase(verb, "PARTITION") for verb in _KEEPING_PARTITIONS)
        return True

    def _exchanged(self, kind: EffectKind, words: TokenReader) -> None:
        """Parse the exchange of a partition with another table."""
        self.add(EffectKind.REWRITE)
        self.add(kind, words.table())
        if words.skip("WITH", "WITHOUT"):
            words.require("VALIDATION")
        words.require_end()

    # ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def takes(self, words: TokenReader) -> None:
        if any(words.skip_phrase(*phrase) for phrase in _REDEFINES):
            self.add(EffectKind.ALTER)
        elif words.skip("RENAME"):
            self._renamed(words)
        elif words.skip("ADD"):
            self._added(words)
        elif words.skip("DROP"):
            self._dropped(words)
        elif words.skip("MODIFY", "CHANGE"):
            self._redefined(words)
        elif words.skip("ALTER"):
            self._defaulted(words)
        elif any(words.skip_phrase(*phrase) for phrase in _KEEPS):
            _require_partitioning(words)
        else:
            self._options(words)

    def _renamed(self, words: TokenReader) -> None:
        if words.skip("INDEX", "KEY"):
            self._keys[words.name()] = None
            return
        if words.peek() == "COLUMN":
            self._column(words)
            words.require("TO")
            words.name()
        else:
            words.skip("TO", "AS", "=")
            self.add(EffectKind.REPLACE)
            self.add(EffectKind.REPLACE, words.table())
        _require_partitioning(words)

    def _added(self, words: TokenReader) -> None:
        if words.peek() not in _KEYS:
            self._placed(words)
        elif "PRIMARY" in words.keywords():  # Without strict mode NULLs in it are replaced.
            self.add(EffectKind.REWRITE)
        self._referenced(words)

    def _dropped(self, words: TokenReader) -> None:
        if words.skip_phrase("PRIMARY", "KEY"):
            self._keys["PRIMARY"] = None
        elif words.skip("INDEX", "KEY", "CONSTRAINT"):
            words.skip_existence()
            self._keys[words.name()] = None
        elif words.peek() not in _KEYS:
            self._column(words)
            self.add(EffectKind.SHIFT)
            words.skip("RESTRICT", "CASCADE")
            _require_partitioning(words)

    def _redefined(self, words: TokenReader) -> None:
        """Parse a column's new definition; it also changes columns that are generated from it."""
        self._column(words)
        self.add(EffectKind.REWRITE)
        self._placed(words)
        self._referenced(words)

    def _defaulted(self, words: TokenReader) -> None:
        """Parse ALTER COLUMN; defaults concern later rows only."""
        if words.peek() in _KEYS:
            return
        words.skip("COLUMN")
        words.skip_existence()
        column = words.name()
        if words.keywords()[:2] not in (["SET", "DEFAULT"], ["DROP", "DEFAULT"]):
            self._columns[column] = None

    def _column(self, words: TokenReader) -> None:
        """Note a column that is dropped or has another type."""
        words.skip("COLUMN")
        words.skip_existence()
        self._columns[words.name()] = None

    def _placed(self, words: TokenReader) -> None:
        """Note a column with an explicit place; by default it is the last one."""
        if not {"FIRST", "AFTER"}.isdisjoint(words.keywords()):
            self.add(EffectKind.SHIFT)

    def _referenced(self, words: TokenReader) -> None:
        """Note a foreign key with actions: the rows that it changes are not in the log."""
        found = words.keywords()
        if "REFERENCES" in found and not _ACTIONS.isdisjoint(found[found.index("REFERENCES") :]):
            self.add(EffectKind.ALTER)

    def _options(self, words: TokenReader) -> None:
        """Parse options of the table, which may be separated by commas."""
        while not words.at_end and not _is_partitioning(words):
            words.skip("DEFAULT")
            long = any(words.skip_phrase(*option) for option in _LONG_OPTIONS)
            known = long or words.peek() in _OPTIONS
            engine = words.peek() == "ENGINE"
            if not long:
                words.name()
            if not words.skip("=") and not known:
                raise UnknownSyntax("an option without a value")
            value = words.next()
            if value.kind is TokenKind.SIGN:
                raise UnknownSyntax(value.text)
            if not known or (engine and value.text.upper() != "INNODB"):
                self.add(EffectKind.ALTER)


def _is_partitioning(words: TokenReader) -> bool:
    return words.keywords()[:2] in _PARTITIONING


def _require_partitioning(words: TokenReader) -> None:
    """Raise UnknownSyntax if anything but partitioning is left."""
    if not words.at_end and not _is_partitioning(words):
        raise UnknownSyntax(words.peek())
