"""Files of the corpus, read: what `README.md` describes, as values.

*Not here*: what is done with them (`corpus_run`), what an answer must be (`comparison`).
"""

import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from random import Random

CORPUS = Path(__file__).parent / "corpus"
#: In the SQL of MariaDB.
CORPUS_MARIADB = Path(__file__).parent / "corpus_mariadb"
TIERS = ("incremental", "refresh", "ttl")
#: A parameter's value as a file has it: its text, NULL, or a list's.
Given = str | None | tuple[str | None, ...]
Arguments = dict[str, Given]

#: Strings, quoted names, casts and comments are passed over.
_PARAMETER = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|--[^\n]*|::|(?<!\w):([A-Za-z_]\w*)")
_PLACEHOLDER = re.compile(r"\{(\w+)\}")
#: Keys of one view that are read, where the values of its parameters have more combinations.
MOST_KEYS = 4


class CorpusError(Exception):
    """A file that does not follow the format; the text says where."""


@dataclass(frozen=True, slots=True)
class Options:
    """Permitted differences between two right answers (see README.md), and other options of a view."""

    #: Columns that ORDER BY is about where it is not total: only their order is compared.
    ties: tuple[str, ...] = ()
    #: Columns that show any one of several equal values: 1.0 or 1.00.
    any: tuple[str, ...] = ()
    #: Columns that show any one of several texts that the collation takes for one: A or a.
    alike: tuple[str, ...] = ()
    #: Columns that are lists, or texts with commas, in any order.
    bag: tuple[str, ...] = ()
    #: Only the columns' names are compared.
    shape: bool = False
    #: Also walk all pages of so many rows.
    page: int | None = None
    #: ``full``: kept whole; ``refresh``: not kept incrementally although it could be.
    keep: str | None = None


@dataclass(frozen=True, slots=True)
class CorpusView:
    """A view and the keys it is read for."""

    name: str
    sql: str
    line: int
    options: Options
    keys: tuple[Arguments, ...]
    #: What the upstream is asked: registered views that it reads are common table expressions there.
    upstream_sql: str
    #: What putting it must fail with: the problem's code and a part of its text.
    error: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Step:
    """One transaction: statements, and the part of the message it must fail with, if it must."""

    sql: str
    line: int
    error: str | None = None


@dataclass(slots=True)
class CorpusFile:
    """A whole file."""

    path: Path
    feature: str = ""
    tier: str = ""
    setup: list[Step] = field(default_factory=list)
    views: list[CorpusView] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)


def corpus_files(corpus: Path = CORPUS) -> list[Path]:
    """All files of a corpus."""
    return sorted(corpus.glob("*.test"))


def parameters_of(sql: str) -> list[str]:
    """The names of a statement's parameters."""
    return list(dict.fromkeys(found[1] for found in _PARAMETER.finditer(sql) if found[1]))


def with_values(sql: str, arguments: Arguments) -> str:
    """The statement with its parameters written in, as literals whose type the server finds out."""

    def literal(found: re.Match[str]) -> str:
        if found[1] is None:
            return found[0]
        value = arguments[found[1]]
        if not isinstance(value, tuple):
            return _literal(value)
        # = ANY(:list) has parentheses of its own, too, but takes an array.
        if re.search(r"\b(any|some|all)\s*\(\s*(cast\s*\(\s*)?$", sql[: found.start()], re.IGNORECASE):
            return _literal("{" + ",".join("NULL" if v is None else f'"{v}"' for v in value) + "}")
        return ", ".join(map(_literal, value))

    return _PARAMETER.sub(literal, sql)


def _literal(value: str | None) -> str:
    return "NULL" if value is None else "'" + value.replace("'", "''") + "'"


def read_corpus_file(path: Path) -> CorpusFile:
    """Reads a file. CorpusError if it does not follow the format."""
    reader = _Reader(path)
    reader.read(path)
    return reader.finished()


@dataclass(frozen=True, slots=True)
class _Record:
    line: int
    head: str
    body: list[str]


def _records(path: Path) -> Iterator[_Record]:
    """Paragraphs, without comments."""
    lines: list[str] = []
    start = 0
    for number, line in enumerate([*path.read_text(encoding="utf-8").splitlines(), ""], 1):
        if line.startswith("#"):
            continue
        if line.strip():
            start = start or number
            lines.append(line.rstrip())
        elif lines:
            yield _Record(start, lines[0], lines[1:])
            lines, start = [], 0


class _Reader:
    """Reads one file and what it includes."""

    def __init__(self, path: Path) -> None:
        self._file = CorpusFile(path)
        self._values: dict[str, list[Given]] = {}
        self._queries: dict[str, list[list[Arguments]]] = {}
        self._drafts: list[CorpusView] = []
        self._path = path

    def read(self, path: Path) -> None:
        self._path = path
        for record in _records(path):
            word, _, rest = record.head.partition(" ")
            action = getattr(self, f"_on_{word}", None)
            if action is None:
                raise self._error(record, f"{word!r} is no directive")
            action(record, rest.strip())
            self._path = path

    def finished(self) -> CorpusFile:
        """The file; every query must name a view, every parameter have values."""
        if self._file.tier not in TIERS or not self._file.feature:
            raise CorpusError(f"{self._file.path.name}: 'feature' and 'tier' are missing")
        for draft in self._drafts:
            keys, upstream_sql = tuple(self._keys(draft)), self._upstream_sql(draft)
            self._file.views.append(replace(draft, keys=keys, upstream_sql=upstream_sql))
        names = [view.name for view in self._file.views]
        if repeated := {name for name in names if names.count(name) > 1}:
            raise CorpusError(f"{self._file.path.name}: names are given twice: {sorted(repeated)}")
        return self._file

    def _error(self, record: _Record, why: str) -> CorpusError:
        return CorpusError(f"{self._path.name}:{record.line}: {why}")

    def _on_feature(self, record: _Record, rest: str) -> None:
        self._file.feature = rest
        for line in record.body:
            word, _, value = line.partition(" ")
            if word == "tier":
                self._file.tier = value.strip()
            elif word == "values":
                name, *values = shlex.split(value)
                self._values[name] = [_given(v) for v in values]
            else:
                raise self._error(record, f"{word!r} is not known in a header")

    def _on_include(self, record: _Record, rest: str) -> None:
        included = self._file.path.parent / rest
        included = included if included.exists() else CORPUS / rest
        if not included.exists():
            raise self._error(record, f"there is no {rest}")
        self.read(included)

    def _on_statement(self, record: _Record, rest: str) -> None:
        kind, _, text = rest.partition(" ")
        if kind not in ("ok", "error"):
            raise self._error(record, "a statement is 'ok' or 'error'")
        step = Step("\n".join(record.body), record.line, text if kind == "error" else None)
        (self._file.steps if self._drafts else self._file.setup).append(step)

    def _on_view(self, record: _Record, rest: str) -> None:
        head, _, error = rest.partition(" error ")
        name, *options = shlex.split(head)
        code, _, text = error.partition(" ")
        variants = list(self._variants(record))
        for i, sql in enumerate(variants, 1):
            self._draft(record, name if len(variants) == 1 else f"{name}_{i}", sql, options, (code, text))

    def _on_views(self, record: _Record, rest: str) -> None:
        stem = re.sub(r"\W", "_", self._path.stem)
        for i, sql in enumerate(self._variants(record, by_line=True), 1):
            self._draft(record, f"{stem}_{record.line}_{i}", sql, shlex.split(rest), ("", ""))

    def _draft(self, record: _Record, name: str, sql: str, options: list[str], error: tuple[str, str]) -> None:
        self._drafts.append(
            CorpusView(name, sql, record.line, self._options(record, options), (), sql, error if error[0] else None)
        )

    def _on_query(self, record: _Record, rest: str) -> None:
        name, *pairs = shlex.split(rest)
        choices = []
        for pair in pairs:
            key, equals, values = pair.partition("=")
            if not equals:
                raise self._error(record, f"{pair!r} is not key=value")
            choices.append([(key, _given(value)) for value in values.split("|")])
        self._queries.setdefault(name, []).append([dict(combination) for combination in product(*choices)])

    def _variants(self, record: _Record, by_line: bool = False) -> Iterator[str]:
        """The statements of a record: every combination of its ``each`` lines' alternatives."""
        choices: list[list[tuple[str, str]]] = []
        sql: list[str] = []
        for line in record.body:
            if line.startswith("each "):
                name, _, alternatives = line.removeprefix("each ").partition(" = ")
                choices.append([(name.strip(), text.strip()) for text in alternatives.split(" ; ")])
            elif by_line and sql and line[0].isspace():
                sql[-1] += "\n" + line
            else:
                sql.append(line)
        for text in sql if by_line else ["\n".join(sql)]:
            used = set(_PLACEHOLDER.findall(text))
            for combination in product(*(choice for choice in choices if choice[0][0] in used)):
                filled = text
                for name, value in combination:
                    filled = filled.replace("{" + name + "}", value)
                yield filled

    def _options(self, record: _Record, words: list[str]) -> Options:
        lists: dict[str, tuple[str, ...]] = {}
        page, shape, keep = None, False, None
        for word in words:
            name, _, value = word.partition("=")
            if name == "shape":
                shape = True
            elif name == "page":
                page = int(value)
            elif name == "keep" and value in ("full", "refresh"):
                keep = value
            elif name in ("ties", "any", "alike", "bag"):
                lists[name] = tuple(value.split(","))
            else:
                raise self._error(record, f"{word!r} is no option of a view")
        return Options(**lists, shape=shape, page=page, keep=keep)

    def _upstream_sql(self, draft: CorpusView) -> str:
        words = set(re.findall(r"\w+", draft.sql))
        parts = [f"{view.name} AS ({view.sql})" for view in self._file.views if view.name in words and not view.error]
        return f"WITH {', '.join(parts)} {draft.sql}" if parts else draft.sql

    def _keys(self, draft: CorpusView) -> list[Arguments]:
        """The keys that ``query`` records name, else some combinations of the header's values."""
        if draft.error is not None:
            return []
        base = re.sub(r"_\d+$", "", draft.name)
        for name in (draft.name, base):
            if name in self._queries:
                return [arguments for record in self._queries[name] for arguments in record]
        names = parameters_of(draft.sql)
        if missing := [name for name in names if name not in self._values]:
            raise CorpusError(f"{self._file.path.name}:{draft.line}: no values for {missing} of {draft.name}")
        every = [dict(zip(names, values, strict=True)) for values in product(*(self._values[name] for name in names))]
        return every if len(every) <= MOST_KEYS else Random(draft.sql).sample(every, MOST_KEYS)


def _given(text: str) -> Given:
    if text == "null":
        return None
    if text.startswith("[") and text.endswith("]"):
        return tuple(None if v == "null" else v for v in text[1:-1].split(","))
    return text
