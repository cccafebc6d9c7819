"""Names to columns: which tables a SELECT reads, under which names, and what to suggest for a name that is unknown."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import lru_cache

from sqlglot import exp

from dataflow.errors import InvalidQuery, Span, UnsupportedQuery
from dataflow.scalar import Scalar
from dataflow.schema import Catalog, Table, UpstreamView
from dataflow.sql.syntax.spans import span_of

_SYSTEM_COLUMNS = frozenset({"ctid", "xmin", "xmax", "cmin", "cmax", "tableoid"})


class Caseless(str):
    """A name of MariaDB or MySQL, as it is written: upper and lower case are the same.

    As a key it is found by another such name only.
    """

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, str) and self.lower() == other.lower()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self.lower())


def name_of(identifier: exp.Expr) -> str:
    """An identifier as the upstream folds it. PostgreSQL: to lower case, unless quoted."""
    text = str(identifier.this)
    if identifier.meta.get("caseless"):
        return Caseless(text)
    return text if identifier.args.get("quoted") else text.lower()


@dataclass(frozen=True, slots=True)
class NamedColumn:
    """A column that can be named: what it is of the joined row. Mostly a column of it."""

    name: str
    column: Scalar


@dataclass(frozen=True, slots=True)
class FromItem:
    """One entry of FROM under a name. `table`: its qualified name in the catalog, if it is one without an alias."""

    alias: str
    columns: tuple[NamedColumn, ...]
    table: str | None = None


#: Looks a name up in the scopes around; None if it is unknown there, too.
FindOuter = Callable[[exp.Column], Scalar | None]


@dataclass(slots=True)
class Scope:
    """Tables joined so far, whose columns lie somewhere in one row of concatenated columns."""

    sources: list[FromItem] = field(default_factory=list)
    #: What ``*`` shows and a bare name means: a column that USING merged is there once.
    star: list[NamedColumn] = field(default_factory=list)
    outer: FindOuter | None = None

    def joined(self, other: "Scope") -> "Scope":
        """Both, side by side."""
        return Scope([*self.sources, *other.sources], [*self.star, *other.star], self.outer)

    def add(self, source: FromItem, span: Span | None) -> None:
        """Appends an entry of FROM."""
        self.check(source.alias, span)
        self.sources.append(source)
        self.star += source.columns

    def check(self, alias: str, span: Span | None) -> None:
        """Refuses a name that is taken."""
        for source in self.sources:
            if source.alias == alias:
                _check_case(source.alias, alias)
        if any(s.alias == alias for s in self.sources):
            raise InvalidQuery(f'The name "{alias}" is given to two tables.', span, "Give one of them an alias.")

    def merge(self, merged: Sequence[tuple[NamedColumn, NamedColumn, NamedColumn]]) -> None:
        """USING: of each (one, left, right), the columns left and right are one, and these come first in ``*``."""
        gone = [named for _, left, right in merged for named in (left, right)]
        self.star = [one for one, _, _ in merged] + [n for n in self.star if not any(n is g for g in gone)]

    def source(self, node: exp.Expr) -> FromItem:
        """The source that a qualifier names."""
        return self._require(node, None)

    def _require(self, node: exp.Expr, schema: exp.Expr | None) -> FromItem:
        found = self._source(name_of(node), None if schema is None else name_of(schema))
        if found is None:
            hint = _suggestion(name_of(node), (s.alias for s in self.sources))
            raise InvalidQuery(f'There is no table "{name_of(node)}" in FROM.', span_of(node), hint)
        return found

    def resolve(self, node: exp.Column) -> Scalar:
        """Resolves a (qualified) name."""
        found = self.find(node)
        if found is None:
            raise self._unknown(node)
        return found

    def find(self, node: exp.Column) -> Scalar | None:
        """Resolves a name here or in an outer query; None if it is unknown."""
        if node.args.get("catalog"):
            raise UnsupportedQuery("Names with a database before the table are not read.", span_of(node))
        qualifier, db = node.args.get("table"), node.args.get("db")
        name = name_of(node.this)
        if qualifier is None:
            candidates = [c for c in self.star if c.name == name]
        else:
            source = self._source(name_of(qualifier), None if db is None else name_of(db))
            if source is None:
                return self._around(node)
            candidates = [c for c in source.columns if c.name == name]
            if not candidates:
                raise self._unknown(node)
        if len(candidates) > 1:
            raise InvalidQuery(
                f'The column name "{name}" is ambiguous.', span_of(node), "Write the table's name before it."
            )
        return candidates[0].column if candidates else self._around(node)

    def finds(self, name: str) -> bool:
        """Return whether a bare name means some column."""
        return any(c.name == name for c in self.star)

    def _around(self, node: exp.Column) -> Scalar | None:
        return None if self.outer is None else self.outer(node)

    def _source(self, alias: str, schema: str | None) -> FromItem | None:
        for source in self.sources:
            if source.alias == alias and schema in (
                None,
                None if source.table is None else schema_and_name(source.table)[0],
            ):
                _check_case(source.alias, alias)
                return source
        return None

    def _unknown(self, node: exp.Column) -> Exception:
        qualifier, name = node.args.get("table"), name_of(node.this)
        if qualifier is not None:
            self._require(qualifier, node.args.get("db"))
        if name in _SYSTEM_COLUMNS:
            return UnsupportedQuery(f"The change stream does not carry {name}.", span_of(node))
        if qualifier is None and any(s.alias == name for s in self.sources):
            return UnsupportedQuery("A whole row as one value is not kept up to date yet.", span_of(node))
        names = [c.name for s in self.sources for c in s.columns]
        return InvalidQuery(f'There is no column "{name}".', span_of(node), _suggestion(name, names))


def find_relation(catalog: Catalog, node: exp.Table) -> Table | UpstreamView | str:
    """Resolves a name in FROM by the search path: a table or view of the upstream, or else a registered view."""
    if node.args.get("catalog"):
        raise UnsupportedQuery("Tables of another database are not read.", span_of(node))
    table = name_of(node.this)
    db = node.args.get("db")
    schemas = [name_of(db)] if db is not None else list(catalog.search_path)
    by_name: dict[tuple[str, str], Table | UpstreamView] = {schema_and_name(n): t for n, t in catalog.tables.items()}
    by_name |= {schema_and_name(n): v for n, v in catalog.views.items()}
    for schema in schemas:
        found = _named(by_name, schema, table)
        if found is not None:
            return found
    if db is None and str(table) in catalog.registered:
        return str(table)
    hint = _suggestion(table, (name for schema, name in by_name if schema in schemas))
    raise InvalidQuery(f'There is no table "{table}".', span_of(node), hint)


def _named(by_name: dict[tuple[str, str], Table | UpstreamView], schema: str, name: str) -> Table | UpstreamView | None:
    """Returns the table or view of that name, preferably by an exact match."""
    exact = by_name.get((str(schema), str(name)))
    if exact is not None or not isinstance(name, Caseless):
        return exact
    for known_schema, known in by_name:
        if known_schema == schema and known == name:
            _check_case(known, name)
    return None


def _check_case(known: str, written: str) -> None:
    """Refuse names of tables and aliases that differ in case only: their equality depends on the server."""
    if str(known) != str(written):
        raise UnsupportedQuery(f'"{written}" may be another table than "{known}": that depends on the server.')


def find_table(catalog: Catalog, node: exp.Table) -> Table:
    """The base table that a name in FROM means."""
    found = find_relation(catalog, node)
    if isinstance(found, Table):
        return found
    raise InvalidQuery(f'"{name_of(node.this)}" is a view.', span_of(node))


@lru_cache(maxsize=1 << 12)
def schema_and_name(name: str) -> tuple[str, str]:
    """Schema and table of a qualified name, unquoted."""
    parts: list[str] = []
    rest = name
    while rest:
        if (mark := rest[0]) in '"`':
            end = 1
            while rest[end] != mark or rest[end : end + 2] == mark * 2:
                end += 2 if rest[end] == mark else 1
            parts.append(rest[1:end].replace(mark * 2, mark))
            rest = rest[end + 2 :]
        else:
            part, _, rest = rest.partition(".")
            parts.append(part)
    return (parts[0], parts[1]) if len(parts) > 1 else ("public", parts[0])


def _suggestion(name: str, known: Iterable[str]) -> str | None:
    close = get_close_matches(name, sorted(set(known) - {name}), n=1)
    return f'Did you mean "{close[0]}"?' if close else None
