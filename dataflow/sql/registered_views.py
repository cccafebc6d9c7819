"""Registered views that a SQL text names, put in as the SELECTs that they stand for: the upstream does not know them.

Not here: plans over registered views (`sources`), which share their nodes.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.schema import Catalog, UpstreamView
from dataflow.sql.dialects import dialect_of
from dataflow.sql.expressions.scope import find_relation, name_of, schema_and_name
from dataflow.sql.reads import words_of
from dataflow.sql.syntax.parse import tree_of


@dataclass(frozen=True, slots=True)
class Expanded:
    """A text that the upstream understands, and the registered views that are in it."""

    sql: str
    views: frozenset[str] = frozenset()

    def placed(self, error: InvalidQuery) -> InvalidQuery:
        """An error in the text, as one in the user's: without a place if that is another text."""
        return InvalidQuery(error.reason, None, error.hint) if self.views else error


def expanded(sql: str, catalog: Catalog) -> Expanded:
    """The text with the registered views that it names, also indirectly. UnsupportedQuery if they name each other."""
    if not catalog.registered:
        return Expanded(sql)
    return _expanded(sql, catalog, ())


def upstream_views(sql: str, catalog: Catalog) -> frozenset[tuple[str, str]]:
    """Names and definitions of the upstream's views that a text may read: those whose name is one of its words, and
    those whose name is one of theirs."""
    by_word: dict[str, list[UpstreamView]] = {}
    word_of = dialect_of(catalog.dialect).word
    for view in catalog.views.values():
        by_word.setdefault(word_of(schema_and_name(view.name)[1]), []).append(view)
    found: dict[str, str] = {}
    texts = [sql] if by_word else []
    while texts:
        for word in words_of(texts.pop(), catalog.dialect).names & by_word.keys():
            for view in by_word[word]:
                if view.name not in found:
                    found[view.name] = view.sql
                    texts.append(view.sql)
    return frozenset(found.items())


def _expanded(sql: str, catalog: Catalog, inside: tuple[str, ...]) -> Expanded:
    dialect = dialect_of(catalog.dialect)
    try:
        if not _may_name_any(sql, catalog):
            return Expanded(sql)
        tree = tree_of(sql, dialect.grammar)
    except (ParseError, TokenError, InvalidQuery, UnsupportedQuery, RecursionError):
        return Expanded(sql)
    parts: list[str] = []
    views: set[str] = set()
    at = 0
    for name, start, end, aliased in sorted(_mentions(tree, catalog), key=lambda found: found[1]):
        if name in inside:
            raise UnsupportedQuery(f"The registered view {name} reads itself.")
        found = _expanded(catalog.registered[name], catalog, (*inside, name))
        views |= {name, *found.views}
        text = found.sql.rstrip().rstrip(";")
        parts += [sql[at:start], f"({text}\n)", "" if aliased else f" AS {dialect.quote(name)}"]
        at = end
    return Expanded("".join([*parts, sql[at:]]), frozenset(views))


def _may_name_any(sql: str, catalog: Catalog) -> bool:
    """Return whether a registered view's name is among the words: a text is parsed for the names that it says only if
    so."""
    words = words_of(sql, catalog.dialect).names
    return not words.isdisjoint(map(dialect_of(catalog.dialect).word, catalog.registered))


def _mentions(tree: exp.Expr, catalog: Catalog) -> Iterator[tuple[str, int, int, bool]]:
    """Name, place, and whether it has another name there."""
    ctes = {name_of(cte.args["alias"].this) for cte in tree.find_all(exp.CTE)}
    for table in tree.find_all(exp.Table):
        if not isinstance(table.this, exp.Identifier) or table.args.get("db"):
            continue
        name = name_of(table.this)
        if str(name) in catalog.registered and name not in ctes and isinstance(find_relation(catalog, table), str):
            meta = table.this.meta
            yield str(name), meta["start"], meta["end"] + 1, table.args.get("alias") is not None
