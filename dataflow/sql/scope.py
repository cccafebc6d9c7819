"""Names to columns: which tables a SELECT reads, under which names, and what to suggest for a name that is unknown."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from sqlglot import exp

from dataflow.errors import InvalidQuery, Span, UnsupportedQuery
from dataflow.plan.nodes import Relation, column_types
from dataflow.scalar import ColumnRef
from dataflow.schema import Catalog, SqlType, Table
from dataflow.sql.spans import span_of

_SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


def name_of(identifier: exp.Expr) -> str:
    """An identifier as PostgreSQL folds it: to lower case, unless quoted."""
    text = str(identifier.this)
    return text if identifier.args.get("quoted") else text.lower()


@dataclass(frozen=True, slots=True)
class Named:
    """A column that can be named: its place in the joined row."""

    name: str
    column: ColumnRef


@dataclass(frozen=True, slots=True)
class Source:
    """One entry of FROM: a relation under a name."""

    alias: str
    relation: Relation
    columns: tuple[Named, ...]


@dataclass(slots=True)
class Scope:
    """The sources joined so far, as one row of concatenated columns.

    Maintains: `width` is the sum of the relations' widths.
    """

    sources: list[Source] = field(default_factory=list)
    width: int = 0
    #: Columns that USING merged into another one: not found by their bare name.
    merged: set[int] = field(default_factory=set)
    #: What ``*`` shows, in order.
    star: list[Named] = field(default_factory=list)

    def add(
        self, alias: str, relation: Relation, columns: Iterable[tuple[str, int, SqlType]], span: Span | None
    ) -> Source:
        """Appends a relation whose named columns are (name, place, type)."""
        if any(s.alias == alias for s in self.sources):
            raise InvalidQuery(f'The name "{alias}" is given to two tables.', span, "Give one of them an alias.")
        named = tuple(Named(name, ColumnRef(self.width + place, sql_type)) for name, place, sql_type in columns)
        source = Source(alias, relation, named)
        self.sources.append(source)
        self.star += named
        self.width += len(column_types(relation))
        return source

    def copy(self) -> "Scope":
        """The scope as it is now."""
        return Scope(list(self.sources), self.width, set(self.merged), list(self.star))

    def merge(self, pairs: Sequence[tuple[ColumnRef, ColumnRef]]) -> None:
        """USING: each right column is one with its left one, and these come first in ``*``."""
        order = [left.index for left, _ in pairs]
        self.merged |= {right.index for _, right in pairs}
        shown = [c for c in self.star if c.column.index not in self.merged]
        self.star = sorted(shown, key=lambda c: order.index(c.column.index) if c.column.index in order else len(order))

    def source(self, node: exp.Expr) -> Source:
        """The source that a qualifier names."""
        alias = name_of(node)
        for source in self.sources:
            if source.alias == alias:
                return source
        hint = _suggestion(alias, (s.alias for s in self.sources))
        raise InvalidQuery(f'There is no table "{alias}" in FROM.', span_of(node), hint)

    def visible(self, source: Source) -> list[Named]:
        """The columns that ``*`` shows of a source."""
        return [c for c in source.columns if c.column.index not in self.merged]

    def resolve(self, node: exp.Column) -> ColumnRef:
        """The column that a (qualified) name means."""
        if node.args.get("db") or node.args.get("catalog"):
            raise UnsupportedQuery("Names with a schema before the table are not read; use the alias.", span_of(node))
        qualifier = node.args.get("table")
        name = name_of(node.this)
        if qualifier is not None:
            candidates = [c for c in self.source(qualifier).columns if c.name == name]
        else:
            candidates = [c for s in self.sources for c in self.visible(s) if c.name == name]
        if len(candidates) == 1:
            return candidates[0].column
        if candidates:
            raise InvalidQuery(
                f'The column name "{name}" is ambiguous.', span_of(node), "Write the table's name before it."
            )
        raise self._unknown(node, name, qualifier is None)

    def finds(self, name: str) -> bool:
        """Whether a bare name means some column."""
        return any(c.name == name for s in self.sources for c in self.visible(s))

    def _unknown(self, node: exp.Column, name: str, bare: bool) -> Exception:
        if name in _SYSTEM_COLUMNS:
            return UnsupportedQuery(f"The change stream does not carry {name}.", span_of(node))
        if bare and any(s.alias == name for s in self.sources):
            return UnsupportedQuery("A whole row as one value is not kept up to date yet.", span_of(node))
        names = [c.name for s in self.sources for c in s.columns]
        return InvalidQuery(f'There is no column "{name}".', span_of(node), _suggestion(name, names))


def find_table(catalog: Catalog, node: exp.Table) -> Table:
    """The base table that a name in FROM means, by the search path."""
    if node.args.get("catalog"):
        raise UnsupportedQuery("Tables of another database are not read.", span_of(node))
    table = name_of(node.this)
    db = node.args.get("db")
    schemas = [name_of(db)] if db is not None else list(catalog.search_path)
    by_name = {_parts(name): found for name, found in catalog.tables.items()}
    for schema in schemas:
        found = by_name.get((schema, table))
        if found is not None:
            return found
    hint = _suggestion(table, (name for schema, name in by_name if schema in schemas))
    raise InvalidQuery(f'There is no table "{table}".', span_of(node), hint)


def _parts(name: str) -> tuple[str, str]:
    """Schema and table of a qualified name, unquoted."""
    parts: list[str] = []
    rest = name
    while rest:
        if rest[0] == '"':
            end = 1
            while rest[end] != '"' or rest[end : end + 2] == '""':
                end += 2 if rest[end] == '"' else 1
            parts.append(rest[1:end].replace('""', '"'))
            rest = rest[end + 2 :]
        else:
            part, _, rest = rest.partition(".")
            parts.append(part)
    return (parts[0], parts[1]) if len(parts) > 1 else ("public", parts[0])


def _suggestion(name: str, known: Iterable[str]) -> str | None:
    close = get_close_matches(name, sorted(set(known)), n=1)
    return f'Did you mean "{close[0]}"?' if close else None
