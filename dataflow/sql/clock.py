"""Texts of PostgreSQL's SQL that may read ``now`` or ``today`` from data: where text becomes a date or time.

*Theory*: the input functions of dates and times (and of ranges, arrays and rows of them) take words for the current
time. Constants are looked at by their words (`service.engine.databases.postgres.volatility`); here it is text that is
not known before the query is run: columns, parameters, documents, and what is computed of them. In doubt it is text.

Not here: functions that read the clock by themselves.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from sqlglot import exp
from sqlglot.errors import ParseError, TokenError

from dataflow.errors import InvalidQuery, UnsupportedQuery
from dataflow.schema import Catalog, SqlType
from dataflow.sql.dialects import dialect_of
from dataflow.sql.expressions.scope import name_of
from dataflow.sql.reads import words_of
from dataflow.sql.syntax.parse import parameter_name, tree_of

_TIMES = frozenset({"date", "time", "timetz", "timestamp", "timestamptz", "timestampntz"})
_RANGES = frozenset(
    f"{name}{kind}" for name in ("date", "ts", "tstz", "timestamp", "timestamptz") for kind in ("range", "multirange")
)
_MOMENTS = _TIMES | _RANGES
#: Types of PostgreSQL and its extensions that the parser takes for a user's, and which have no times in them.
_TIMELESS = frozenset(
    {
        "bit",
        "box",
        "bpchar",
        "cidr",
        "circle",
        "citext",
        "geography",
        "geometry",
        "hstore",
        "jsonpath",
        "line",
        "lseg",
        "ltree",
        "macaddr",
        "name",
        "oid",
        "path",
        "pg_lsn",
        "point",
        "polygon",
        "tsquery",
        "tsvector",
        "varbit",
    }
)
_TEXTS = frozenset({"bpchar", "char", "citext", "name", "nchar", "text", "unknown", "userdefined", "varchar"})
#: They read a row of a type that is declared elsewhere.
_POPULATING = frozenset(
    f"{kind}_populate_{rows}" for kind in ("json", "jsonb") for rows in ("record", "recordset", "record_valid")
)
#: Calls that give what one of their arguments is.
_PASSING = (
    exp.Paren,
    exp.Coalesce,
    exp.Nullif,
    exp.Greatest,
    exp.Least,
    exp.Max,
    exp.Min,
    exp.Case,
    exp.If,
    exp.Window,
    exp.Filter,
    exp.Bracket,
    exp.Array,
    exp.Subquery,
    exp.Any,
    exp.All,
    exp.Order,
    exp.Ordered,
    exp.Distinct,
    exp.Collate,
)
_NO_TEXT = (
    exp.Literal,
    exp.Null,
    exp.Boolean,
    exp.Interval,
    exp.Add,
    exp.Sub,
    exp.Mul,
    exp.Div,
    exp.Neg,
    exp.Extract,
    exp.AtTimeZone,
    exp.TimestampTrunc,
    exp.DateTrunc,
    exp.CurrentDate,
    exp.CurrentTimestamp,
    exp.Predicate,
    exp.Count,
    exp.UnixToTime,
    exp.GenerateSeries,
    exp.StrToTime,
    exp.StrToDate,
)
_NO_TEXT_NAMES = frozenset(
    {
        "date_trunc",
        "date_bin",
        "make_date",
        "make_time",
        "make_timestamp",
        "make_timestamptz",
        "to_timestamp",
        "to_date",
        "timezone",
        "generate_series",
        "lower_inf",
        "date_add",
        "date_subtract",
    }
)


def clock_read(
    texts: Iterable[str], tables: Iterable[str], catalog: Catalog, parameters: Mapping[str, SqlType]
) -> str | None:
    """Why one of the texts, which read these tables, may read the clock."""
    if not dialect_of(catalog.dialect).moments:
        return None
    types: dict[str, list[SqlType]] = {}
    for name in tables:
        for column in catalog.tables[name].columns if name in catalog.tables else ():
            types.setdefault(column.name, []).append(column.type)
    enums = {t.name.rpartition(".")[2] for found in types.values() for t in found if t.kind == "enum"}
    return next((found for text in texts if (found := _read(text, types, parameters, enums, catalog.dialect))), None)


def _read(
    text: str, types: Mapping[str, list[SqlType]], parameters: Mapping[str, SqlType], enums: set[str], dialect: str
) -> str | None:
    try:
        words = words_of(text, dialect)
        called = words.called & _POPULATING
        if called:
            return f"{min(called).upper()} may read the current time from a document."
        tree = tree_of(text, dialect_of(dialect).grammar)
    except (ParseError, TokenError, InvalidQuery, UnsupportedQuery, RecursionError):
        return "It may read the current time from text." if words_of(text, dialect).names & _MOMENTS else None
    operands = _Text(tree, types, parameters)
    found = next((name for node in tree.walk() if (name := _converted(node, operands, enums))), None)
    return f"Text that is read as {found} may be the current time ('now', 'today')." if found else None


def _converted(node: exp.Expr, operands: "_Text", enums: set[str]) -> str | None:
    """The type of dates or times that a node may read text as."""
    if isinstance(node, exp.DataType):
        parent: Any = node.parent
        inner = isinstance(parent, exp.DataType)
        cast = isinstance(parent, exp.Cast) and not operands.is_text(parent.this)
        return None if inner or cast or not _has_moments(node, enums) else node.sql("postgres").lower()
    name = _name(node)
    if not isinstance(node, exp.Func) or name not in _TIMES:
        return None
    arguments = node.expressions if isinstance(node, exp.Anonymous) else [node.this]
    return name if len(arguments) == 1 and operands.is_text(arguments[0]) else None


def _name(node: Any) -> str:
    return str(node.name if isinstance(node, exp.Anonymous) else node.key).lower()


def _has_moments(node: exp.DataType, enums: set[str]) -> bool:
    if node.this == exp.DType.USERDEFINED:
        kind = node.args.get("kind")
        name = str(kind if isinstance(kind, str) else kind.name if kind is not None else "").rpartition(".")[2].lower()
        return name not in _TIMELESS and name not in enums
    inner = [part for part in node.expressions if isinstance(part, exp.DataType)]
    name = str(node.this.value if isinstance(node.this, exp.DType) else node.this).lower()
    return name in _MOMENTS or any(_has_moments(part, enums) for part in inner)


class _Text:
    """Which expressions may be text. *State*: types of the tables' columns by name, of the parameters; what is named in
    SELECT and FROM, and which of these names are being looked at."""

    def __init__(self, tree: exp.Expr, columns: Mapping[str, list[SqlType]], parameters: Mapping[str, SqlType]) -> None:
        self._columns = columns
        self._parameters = parameters
        self._named: dict[str, list[Any]] = {}
        self._asked: set[str] = set()
        for alias in tree.find_all(exp.Alias):
            self._named.setdefault(str(alias.alias), []).append(alias.this)
        for names in tree.find_all(exp.TableAlias):
            for column in names.columns:
                self._named.setdefault(str(column.name), []).append(names.parent.this if names.parent else None)

    def is_text(self, node: Any) -> bool:
        """Return whether an expression may be text that is not in the SQL."""
        if not isinstance(node, exp.Expr):
            return True
        if isinstance(node, exp.Column):
            return not isinstance(node.this, exp.Identifier) or self._is_text_name(name_of(node.this))
        if isinstance(node, exp.Placeholder):
            given = self._parameters.get(parameter_name(node))
            return given is None or _is_text_type(given)
        if isinstance(node, exp.Cast):
            target = next(iter(d for d in node.to.find_all(exp.DataType) if not d.expressions), node.to)
            is_text = str(getattr(target.this, "value", target.this)).lower() in _TEXTS
            return is_text and not self._is_time(node.this)
        if isinstance(node, exp.Select):
            return any(map(self.is_text, node.expressions))
        if isinstance(node, exp.Alias):
            return self.is_text(node.this)
        if isinstance(node, exp.Case):
            values = [branch.args["true"] for branch in node.args["ifs"]] + [node.args.get("default")]
            return any(self.is_text(value) for value in values if value is not None)
        if isinstance(node, _PASSING):
            parts = [node.this, *node.expressions] if isinstance(node.this, exp.Expr) else node.expressions
            return any(map(self.is_text, parts))
        if isinstance(node, exp.DPipe):
            return True
        return not (isinstance(node, _NO_TEXT) or _name(node) in _NO_TEXT_NAMES | _TIMES)

    def _is_text_name(self, name: str) -> bool:
        found, named = self._columns.get(name), self._named.get(name)
        if found is None and named is None:
            return True
        if any(map(_is_text_type, found or ())):
            return True
        if name in self._asked:
            return False
        self._asked.add(name)
        is_text = any(map(self.is_text, named or ()))
        self._asked.discard(name)
        return is_text

    def _is_time(self, node: Any) -> bool:
        """Return whether an expression is a column whose text is a date or time."""
        found = self._columns.get(name_of(node.this)) if isinstance(node, exp.Column) else None
        return bool(found) and all(t.kind == "base" and t.name in _TIMES for t in found or ())


def _is_text_type(sql_type: SqlType) -> bool:
    if sql_type.kind == "array" and sql_type.element is not None:
        return _is_text_type(sql_type.element)
    return sql_type.kind not in ("enum",) and (sql_type.kind != "base" or sql_type.name in _TEXTS)
