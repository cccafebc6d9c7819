"""The effects of ALTER TABLE on the rows of tables. Pure.

MariaDB manual and MySQL manual, "ALTER TABLE": parts separated by commas, of which the last may end with partitioning;
or one command about partitions, which goes to the end of the statement.

*Invariant*: a part that is not in these grammars raises `UnknownSyntax`.

Not here: other statements (`statements`). Keys are the catalog's business.
"""

from cdc.mysql.table_effects import EffectKind, TableEffect
from cdc.mysql.tokens import TokenKind, TokenReader, UnknownSyntax

#: Options of a table that leave all rows and all columns as they are; each has one value.
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
#: Parts that leave all rows and all columns as they are.
_KEEPS = (
    ("FORCE",),
    ("ENABLE", "KEYS"),
    ("DISABLE", "KEYS"),
    ("WITH", "VALIDATION"),
    ("WITHOUT", "VALIDATION"),
    ("SECONDARY_LOAD",),
    ("SECONDARY_UNLOAD",),
)
#: Parts after which the table is another one.
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
#: Commands about partitions: those that move rows among them, and those that remove or replace rows.
_KEEPING_PARTITIONS = frozenset({"ADD", "ANALYZE", "CHECK", "COALESCE", "OPTIMIZE", "REBUILD", "REORGANIZE", "REPAIR"})
_CHANGING_PARTITIONS = frozenset({"DISCARD", "DROP", "IMPORT", "TRUNCATE"})
#: Partitioning behind the last part.
_PARTITIONING = (["PARTITION", "BY"], ["REMOVE", "PARTITIONING"], ["UPGRADE", "PARTITIONING"])
#: Words behind ADD, DROP, RENAME and ALTER that are followed by a key or a constraint.
_KEYS = frozenset({"CHECK", "CONSTRAINT", "FOREIGN", "FULLTEXT", "INDEX", "KEY", "PRIMARY", "SPATIAL", "UNIQUE"})
_ACTIONS = frozenset({"CASCADE", "SET"})


def alterations(reader: TokenReader, ignores: bool) -> list[TableEffect]:
    """The effects of a statement, from the table's name on; `ignores`: ALTER IGNORE. Raises UnknownSyntax."""
    reader.skip_existence()
    altered = _Altered(reader.table())
    reader.skip_wait()
    if ignores:  # Rows that are in the way of a new key are dropped.
        altered.add(EffectKind.REWRITE)
    if ";" in reader.keywords():
        raise UnknownSyntax(";")
    if reader.at_end:
        return altered.effects()
    ordered = False
    for part in reader.parts():
        if altered.takes_partitions(part):
            break  # The commas behind are between partitions.
        ordered = _is_order(part.keywords(), ordered)
        if not ordered:
            altered.takes(part)
    return altered.effects()


def _is_order(words: list[str], ordered: bool) -> bool:
    """Whether a part is ORDER BY, or one more column of it, which has commas between its columns."""
    if words[:2] == ["ORDER", "BY"]:
        return True
    return ordered and (len(words) == 1 or (len(words) == 2 and words[1] in ("ASC", "DESC")))


class _Altered:
    """A table while its ALTER TABLE is read.

    *State*: `_effects` in their order, as keys; `_columns`, those that are gone or of another kind; `_keys`, those that
    are gone.
    """

    def __init__(self, table: tuple[str, str]) -> None:
        self._table = table
        self._effects: dict[TableEffect, None] = {}
        self._columns: dict[str, None] = {}
        self._keys: dict[str, None] = {}

    def add(self, kind: EffectKind, table: tuple[str, str] | None = None) -> None:
        """Add an effect, on the table itself unless another one is named."""
        self._effects[TableEffect(table or self._table, kind)] = None

    def effects(self) -> list[TableEffect]:
        """All effects."""
        named = ((EffectKind.ALTER, self._columns), (EffectKind.UNIQUE, self._keys))
        return [*self._effects, *(TableEffect(self._table, kind, tuple(names)) for kind, names in named if names)]

    # ── Partitions ───────────────────────────────────────────────────────────────────────────────────────────────────

    def takes_partitions(self, words: TokenReader) -> bool:
        """A command about partitions; False if it is none."""
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
        """A partition's rows are another table's."""
        self.add(EffectKind.REWRITE)
        self.add(kind, words.table())
        if words.skip("WITH", "WITHOUT"):
            words.require("VALIDATION")
        words.require_end()

    # ── Parts ────────────────────────────────────────────────────────────────────────────────────────────────────────

    def takes(self, words: TokenReader) -> None:
        """A part."""
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
        elif "PRIMARY" in words.keywords():  # Without strict mode NULLs in it become other values.
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
        """Stored columns that are generated from this one have other values, too."""
        self._column(words)
        self.add(EffectKind.REWRITE)
        self._placed(words)
        self._referenced(words)

    def _defaulted(self, words: TokenReader) -> None:
        """A default is for later rows."""
        if words.peek() in _KEYS:
            return
        words.skip("COLUMN")
        words.skip_existence()
        column = words.name()
        if words.keywords()[:2] not in (["SET", "DEFAULT"], ["DROP", "DEFAULT"]):
            self._columns[column] = None

    def _column(self, words: TokenReader) -> None:
        """A column is gone or of another kind."""
        words.skip("COLUMN")
        words.skip_existence()
        self._columns[words.name()] = None

    def _placed(self, words: TokenReader) -> None:
        """A column is behind all others, unless it is said where."""
        if not {"FIRST", "AFTER"}.isdisjoint(words.keywords()):
            self.add(EffectKind.SHIFT)

    def _referenced(self, words: TokenReader) -> None:
        """Rows that a foreign key changes are not in the log: such a table is not followed."""
        found = words.keywords()
        if "REFERENCES" in found and not _ACTIONS.isdisjoint(found[found.index("REFERENCES") :]):
            self.add(EffectKind.ALTER)

    def _options(self, words: TokenReader) -> None:
        """Options of the table, with or without commas between them."""
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
    """Nothing is left but partitioning. Raises UnknownSyntax."""
    if not words.at_end and not _is_partitioning(words):
        raise UnknownSyntax(words.peek())
