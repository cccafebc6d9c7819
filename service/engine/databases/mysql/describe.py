"""Description of a SQL text by MariaDB or MySQL without running it.

*Theory*: a prepared statement is analyzed by the server, which returns its columns. These servers do not report the
tables read, so they are taken from the text's own references and from the definitions of referenced views, which
qualify all names. Types of parameters also come from the text.

*Invariants*: a reference that is not known to be a table, or a text that cannot be parsed, makes the result volatile.

Not here: which rows of the tables matter (`dataflow.sql.reads`), the resulting tier (`service.engine.views.planner`).
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from cdc.mysql.names import qualified_name
from dataflow.errors import InvalidQuery, Span, UnsupportedQuery
from dataflow.plan.refresh import RefreshParameter
from dataflow.schema import SqlType
from dataflow.sql.mysql.mentions import Mentions, ParameterColumn, ParameterUse, mentions_of
from dataflow.sql.reads import words_of
from dataflow.sql.statement import Statement
from dataflow.sql.templates import template
from dataflow.types.documents import MYSQL_JSON
from dataflow.types.integers import UINT8
from dataflow.types.mysql_dates import DATE, DATETIME, TIME, TIMESTAMP
from service.engine.databases.mysql import row_decoder
from service.engine.databases.mysql.catalog import SYSTEM_SCHEMAS, load_columns
from service.engine.databases.mysql.packets import ColumnInfo
from service.engine.databases.mysql.sql_text import named
from service.engine.databases.mysql.types import sql_type
from service.engine.databases.mysql.volatility import why_volatile
from service.engine.databases.mysql.wire import ServerError, Wire
from service.engine.upstream.results import Described
from service.ground.long_texts import beside

TEXT = SqlType("text", "text", collation="nondeterministic")
_INT8 = SqlType("int8", "bigint")
_NUMERIC = SqlType("numeric", "decimal(65,30)")
_INTEGERS = {1: "tinyint", 2: "smallint", 3: "int", 8: "bigint", 9: "mediumint", 13: "year"}
_NAMES = {"tinyint": "int2", "smallint": "int2", "int": "int4", "bigint": "int8", "mediumint": "int4", "year": "int2"}
_WIDER = {"int2": "int4", "int4": "int8", "int8": UINT8}
_TIMES = {
    10: (DATE, "date"),
    14: (DATE, "date"),
    11: (TIME, "time"),
    12: (DATETIME, "datetime"),
    7: (TIMESTAMP, "timestamp"),
}
_NO_FRACTION = (0, 31)
#: Maximum nesting of views.
_MAX_DEPTH = 32
_RELATIONS = "SELECT table_schema, table_name, table_type FROM information_schema.tables WHERE {}"
_DEFINITIONS = "SELECT table_schema, table_name, view_definition FROM information_schema.views WHERE {}"
#: Part of an error message that names the cause.
_QUOTED = re.compile(r"'([^']+)'")
_SYNTAX = 1064


async def describe(wire: Wire, statement: Statement, dialect: str) -> Described:
    """Describes a statement by preparing it. Raises `InvalidQuery` with the server's message, ServerError,
    ConnectionBroken."""
    mentions = await beside(statement.sql, _mentions, statement.sql)
    try:
        prepared = await wire.prepare(_with_questions(statement))
    except ServerError as error:
        raise _rejected(error, statement) from None
    if not prepared.columns or (mentions is not None and not mentions.is_query):
        raise InvalidQuery("A view is a SELECT: this statement gives no columns.")
    session = await wire.query("SELECT DATABASE(), @@lower_case_table_names")
    reading = _Reading(wire, dialect, str(session.rows[0][0]), fold=session.rows[0][1] != "0")
    await reading.text(statement.sql, mentions)
    columns = await load_columns(wire, reading.tables | reading.views_read, dialect)
    known = {
        (schema, table, row.name.lower()): sql_type(row, {})
        for (schema, table), rows in columns.items()
        for row in rows
    }
    types = _parameter_types(statement, mentions, known, reading)
    return Described(
        tuple(RefreshParameter(name, types[name], name in statement.lists) for name in statement.names),
        tuple((info.name, output_type(info, known)) for info in prepared.columns),
        row_decoder.answer_columns(prepared.columns),
        template(statement, types),
        frozenset(qualified_name(schema, name) for schema, name in reading.tables),
        tuple(reading.views),
        reading.volatile,
    )


def _mentions(sql: str) -> Mentions | None:
    """Returns the references of a text; None if it cannot be parsed."""
    try:
        return mentions_of(sql)
    except (UnsupportedQuery, InvalidQuery):
        return None


def _with_questions(statement: Statement) -> str:
    """Returns the statement as it is prepared; one value stands for a list."""
    parts: list[str] = []
    at = 0
    for occurrence in statement.occurrences:
        parts += [statement.sql[at : occurrence.span.start], f"{occurrence.listed} (?)" if occurrence.listed else "?"]
        at = occurrence.span.end
    return "".join([*parts, statement.sql[at : statement.end]])


def _rejected(error: ServerError, statement: Statement) -> InvalidQuery:
    """Converts the server's error, with its place in the user's SQL if the message contains it."""
    found = _QUOTED.search(error.message)
    span = None
    if found is not None:
        word = found[1].split("\n")[0] if error.number == _SYNTAX else found[1].rpartition(".")[2]
        word = word.partition("?")[0].rstrip() or word
        match = re.search(rf"(?<!\w){re.escape(word)}", statement.sql, re.IGNORECASE)
        if match is not None:
            first = re.match(r"\w+|.", statement.sql[match.start() :], re.DOTALL)
            end = match.end() if error.number != _SYNTAX else match.start() + len(first[0] if first else "")
            span = Span(match.start(), end)
    message = error.message.rstrip(".")
    if error.number == _SYNTAX:
        message = "syntax error" + (f" near '{found[1][:40]}'" if found is not None else "")
    return InvalidQuery(f"The database rejects the query: {message}.", span)


# --- what it reads --------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Reading:
    """Resolves references through views.

    *State*: `tables`, base tables that are read; `views`, definitions of the views that are read; `volatile`, the first
    reason.
    """

    wire: Wire
    dialect: str
    database: str
    fold: bool
    tables: set[tuple[str, str]] = field(default_factory=set)
    views_read: set[tuple[str, str]] = field(default_factory=set)
    views: list[str] = field(default_factory=list)
    volatile: str | None = None

    async def text(self, sql: str, mentions: Mentions | None, depth: int = 0) -> None:
        """Records the tables and other dependencies of a text."""
        if mentions is None or depth > _MAX_DEPTH:
            self._note("The tables that the statement reads are unknown: its syntax is not supported.")
            return
        try:
            self._note(why_volatile(await beside(sql, words_of, sql, self.dialect), mentions.defined))
        except (InvalidQuery, UnsupportedQuery) as error:
            self._note(error.reason)
        wanted = {self.resolved(mention) for mention in mentions.tables}
        for schema, name in sorted(wanted):
            if schema.lower() in SYSTEM_SCHEMAS:
                self._note(f"{schema}.{name} is a system table: the change stream does not carry it.")
        wanted = {(schema, name) for schema, name in wanted if schema.lower() not in SYSTEM_SCHEMAS}
        found = await self._relations(wanted)
        for schema, name in sorted(wanted - found.keys()):
            if name.lower() not in mentions.defined and name.lower() != "dual":
                self._note(f"{qualified_name(schema, name)} is not a table that the user can read.")
        for (schema, name), (kind, definition) in sorted(found.items()):
            if kind == "VIEW":
                await self._view((schema, name), definition, depth)
            else:
                self.tables.add((schema, name))

    def resolved(self, mention: tuple[str, str]) -> tuple[str, str]:
        """Returns database and name as the server stores them."""
        schema, name = mention[0] or self.database, mention[1]
        return (schema.lower(), name.lower()) if self.fold else (schema, name)

    async def _view(self, view: tuple[str, str], definition: str, depth: int) -> None:
        if view in self.views_read:
            return
        self.views_read.add(view)
        if not definition:
            self._note(f"The definition of the view {qualified_name(*view)} is not readable (GRANT SHOW VIEW).")
            return
        self.views.append(definition)
        await self.text(definition, _mentions(definition), depth + 1)

    async def _relations(self, wanted: Iterable[tuple[str, str]]) -> dict[tuple[str, str], tuple[str, str]]:
        among = named(wanted)
        relations, views = await self.wire.query_all([_RELATIONS.format(among), _DEFINITIONS.format(among)])
        definitions = {
            (schema, name): text.decode() if isinstance(text, bytes) else text or ""
            for schema, name, text in views.rows
        }
        return {
            self.resolved((str(schema), str(name))): (str(kind), definitions.get((schema, name), ""))
            for schema, name, kind in relations.rows
        }

    def _note(self, reason: str | None) -> None:
        if self.volatile is None:
            self.volatile = reason


# --- types ----------------------------------------------------------------------------------------------------------

_Known = Mapping[tuple[str, str, str], SqlType]


def _parameter_types(
    statement: Statement, mentions: Mentions | None, known: _Known, reading: _Reading
) -> dict[str, SqlType]:
    """Infers types of parameters from the expressions that they are compared with; otherwise text, which these servers
    compare with any type."""
    found: dict[str, SqlType] = {}
    for name in statement.names:
        places = mentions.parameters.get(name, ()) if mentions is not None else ()
        types = [t for place in places if (t := _beside(place, mentions, known, reading)) is not None]
        found[name] = types[0] if types else TEXT
    return found


def _beside(
    place: ParameterUse | ParameterColumn, mentions: Mentions | None, known: _Known, reading: _Reading
) -> SqlType | None:
    if place is ParameterUse.COUNT:
        return _INT8
    if place is ParameterUse.NUMBER:
        return _NUMERIC
    if place is ParameterUse.TEXT or mentions is None:
        return TEXT
    column = place.column.lower()
    tables = {reading.resolved(t) for alias, t in mentions.aliases if not place.table or place.table == alias}
    types = {known[*table, column] for table in tables if (*table, column) in known}
    if len(types) != 1:
        return None
    (only,) = types
    # A parameter has no labels of its own, and compares like the other operand.
    return TEXT if only.kind != "base" or only.labels else only


def output_type(info: ColumnInfo, known: _Known) -> SqlType:
    """Returns the type of the table column that a result column comes from, if the server reports it; otherwise the
    type shown by the result."""
    column = known.get((info.schema, info.table, info.source.lower()))
    if column is not None:
        return column
    if info.kind in _INTEGERS:
        return _integer(info)
    if info.kind in _TIMES:
        name, written = _TIMES[info.kind]
        return SqlType(name, written if info.decimals in _NO_FRACTION else f"{written}({info.decimals})")
    match info.kind:
        case row_decoder.DECIMAL | 0:
            precision = max(1, info.length - (info.decimals > 0) - (not info.unsigned))
            return SqlType("numeric", f"decimal({precision},{info.decimals})")
        case row_decoder.FLOAT:
            return SqlType("float4", "float")
        case row_decoder.DOUBLE:
            return SqlType("float8", "double")
        case row_decoder.BIT:
            return SqlType(UINT8, f"bit({info.length})")
        case row_decoder.JSON:
            return SqlType(MYSQL_JSON, "json", "other")
        case _:
            return SqlType("bytea", "varbinary") if info.is_bytes else TEXT


def _integer(info: ColumnInfo) -> SqlType:
    written = _INTEGERS[info.kind]
    found = SqlType(_NAMES[written], written)
    if info.unsigned and written not in ("tinyint", "mediumint", "year"):
        found = replace(found, name=_WIDER[found.name], sql=f"{written} unsigned")
    return found
