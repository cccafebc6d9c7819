"""Description of a SQL text by PostgreSQL without running it: its parameters, columns and dependencies.

*Theory*: preparing a statement analyzes and rewrites it, and the server locks every relation in it, also through views,
until the transaction ends. Its list of locks therefore shows the relations that the text reads, whatever the syntax;
functions are judged by name, all overloads together.

Not here: which rows of the tables matter (`dataflow.sql.reads`), the resulting tier (`service.engine.views.planner`).
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from psycopg import AsyncConnection
from psycopg.errors import error_from_result
from psycopg.pq import DiagnosticField, ExecStatus
from psycopg.pq.abc import PGresult

from cdc.postgres.names import qualified_name
from dataflow.errors import InvalidQuery, Span
from dataflow.plan.refresh import RefreshParameter
from dataflow.schema import SqlType
from dataflow.sql.reads import SqlWords, words_of
from dataflow.sql.statement import Rendered, Statement
from service.engine.databases.postgres.catalog import load_types
from service.engine.databases.postgres.lookups import columns_of
from service.engine.databases.postgres.statements import fetch
from service.engine.databases.postgres.volatility import Function, side_effect, time_dependence, why_volatile
from service.engine.upstream.results import Described
from service.ground.long_texts import beside

#: Untyped parameters: indeterminate_datatype, ambiguous_parameter.
_UNTYPED = frozenset({"42P18", "42P08"})
_TEXT_OID = 25

_LOCKED = """
SELECT array_agg(DISTINCT relation::int8) FROM pg_catalog.pg_lock_status()
WHERE locktype = 'relation' AND pid = pg_catalog.pg_backend_pid()
"""
_RELATIONS = """
SELECT c.relrowsecurity, n.nspname, c.relname, c.relkind::text,
       CASE WHEN c.relkind = 'v' AND n.nspname NOT IN ('pg_catalog', 'information_schema')
            THEN pg_catalog.pg_get_viewdef(c.oid) END
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE c.oid = ANY(%s::oid[])
"""
#: Functions by name, and user-defined ones that ``row.name`` may call: those with one row as argument.
_FUNCTIONS = """
SELECT p.proname, n.nspname = 'pg_catalog', p.provolatile::text, l.lanname, p.prokind::text
FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace
     JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE p.proname = ANY(%s)
   OR (p.proname = ANY(%s) AND p.pronargs = 1 AND n.nspname <> 'pg_catalog'
       AND EXISTS (SELECT FROM pg_catalog.pg_type t WHERE t.oid = p.proargtypes[0] AND t.typtype = 'c'))
"""
#: User-defined operators (or of extensions) whose functions may depend on more than their arguments.
_OPERATORS = """
SELECT DISTINCT o.oprname FROM pg_catalog.pg_operator o
     JOIN pg_catalog.pg_proc p ON p.oid = o.oprcode JOIN pg_catalog.pg_language l ON l.oid = p.prolang
WHERE o.oprnamespace <> 'pg_catalog'::regnamespace AND (p.provolatile <> 'i' OR l.lanname NOT IN ('c', 'internal'))
"""
#: Types of user-defined casts (or of extensions) with such functions; NULL for PostgreSQL's own types.
_CASTS = """
SELECT CASE WHEN s.typnamespace <> 'pg_catalog'::regnamespace THEN s.typname END,
       CASE WHEN t.typnamespace <> 'pg_catalog'::regnamespace THEN t.typname END,
       pg_catalog.format_type(s.oid, NULL), pg_catalog.format_type(t.oid, NULL)
FROM pg_catalog.pg_cast c
     JOIN pg_catalog.pg_proc p ON p.oid = c.castfunc JOIN pg_catalog.pg_language l ON l.oid = p.prolang
     JOIN pg_catalog.pg_type s ON s.oid = c.castsource JOIN pg_catalog.pg_type t ON t.oid = c.casttarget
WHERE p.pronamespace <> 'pg_catalog'::regnamespace AND (p.provolatile <> 'i' OR l.lanname NOT IN ('c', 'internal'))
"""
#: Types of relations' columns, arrays by their elements.
_COLUMN_TYPES = """
SELECT DISTINCT coalesce(e.typname, t.typname)
FROM pg_catalog.pg_attribute a JOIN pg_catalog.pg_type t ON t.oid = a.atttypid
     LEFT JOIN pg_catalog.pg_type e ON e.oid = t.typelem
WHERE a.attrelid = ANY(%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
"""


async def describe(connection: AsyncConnection, statement: Statement) -> Described:
    """Describes a statement in a transaction that changes nothing. Raises `InvalidQuery` with the server's message,
    psycopg.Error."""
    async with connection.transaction(force_rollback=True):
        await connection.execute("SET TRANSACTION READ ONLY")
        result = await _described(connection, statement)
        # Read the locks before other queries add theirs.
        locked = (await _all(connection, _LOCKED))[0][0] or []
        relations = await _all(connection, _RELATIONS, locked)
        columns = columns_of(result)
        parameters = [result.param_type(i) for i in range(result.nparams)]
        types = await load_types(connection, {*parameters, *(oid for _, oid in columns)})
        texts = [statement.sql, *(definition for *_, definition in relations if definition is not None)]
        volatile = await _volatile(connection, texts, locked)
        volatile = _foreign_relation(relations) or volatile
    output = tuple((name, types[oid]) for name, oid in columns)
    casts = {name: types[oid] for name, oid in zip(statement.names, parameters, strict=True)}
    if not output:
        raise InvalidQuery("A view is a SELECT: this statement gives no columns.")
    return Described(
        _parameters(statement, casts),
        output,
        columns,
        statement.numbered({name: sql_type.sql for name, sql_type in casts.items()}).text,
        frozenset(qualified_name(schema, name) for _, schema, name, kind, _ in relations if kind in "rpf"),
        tuple(texts[1:]),
        volatile,
    )


def _parameters(statement: Statement, types: Mapping[str, SqlType]) -> tuple[RefreshParameter, ...]:
    """Marks array parameters that can be passed as a list of their elements."""
    parameters = []
    for name in statement.names:
        sql_type = types[name]
        element = sql_type.element if sql_type.kind == "array" else None
        parameters.append(RefreshParameter(name, element or sql_type, element is not None))
    return tuple(parameters)


# --- types ----------------------------------------------------------------------------------------------------------


async def _described(connection: AsyncConnection, statement: Statement) -> PGresult:
    """Describes the statement with numbered parameters."""
    await connection.execute("SAVEPOINT upquery")
    rendered = statement.numbered()
    result = await _prepare(connection, rendered)
    if _state(result) in _UNTYPED:
        oids = await _inferred(connection, statement)
        result = await _prepare(connection, rendered, [oids[name] for name in statement.names])
    if result.status != ExecStatus.COMMAND_OK:
        raise _rejected(result, rendered, statement)
    return await _description(connection)


async def _prepare(connection: AsyncConnection, rendered: Rendered, oids: Sequence[int] = ()) -> PGresult:
    connection.pgconn.send_prepare(b"", rendered.text.encode(), oids or None)
    result = await fetch(connection.pgconn)
    if result.status != ExecStatus.COMMAND_OK:
        await connection.execute("ROLLBACK TO SAVEPOINT upquery")
    return result


async def _description(connection: AsyncConnection) -> PGresult:
    connection.pgconn.send_describe_prepared(b"")
    result = await fetch(connection.pgconn)
    if result.status != ExecStatus.COMMAND_OK:
        raise error_from_result(result)
    return result


async def _inferred(connection: AsyncConnection, statement: Statement) -> dict[str, int]:
    """Infers types of parameters in untyped places (``:p IS NULL``) from their other places."""
    rendered = statement.apart()
    oids = [0] * len(statement.occurrences)
    for _ in statement.occurrences:
        result = await _prepare(connection, rendered, oids)
        if result.status == ExecStatus.COMMAND_OK:
            break
        unknown = re.search(r"\$(\d+)", _field(result, DiagnosticField.MESSAGE_PRIMARY))
        if _state(result) not in _UNTYPED or unknown is None:
            raise _rejected(result, rendered, statement)
        oids[int(unknown[1]) - 1] = _TEXT_OID
    else:
        raise _untyped(statement.occurrences[0].name, statement.occurrences[0].span)
    result = await _description(connection)
    found: dict[str, int] = {}
    for number, occurrence in enumerate(statement.occurrences):
        if not oids[number]:
            found.setdefault(occurrence.name, result.param_type(number))
    for occurrence in statement.occurrences:
        if occurrence.name not in found:
            raise _untyped(occurrence.name, occurrence.span)
    return found


def _untyped(name: str, span: Span) -> InvalidQuery:
    return InvalidQuery(f"The type of the parameter :{name} cannot be inferred.", span, f"Cast it: :{name}::int8.")


def _rejected(result: PGresult, rendered: Rendered, statement: Statement) -> InvalidQuery:
    """Converts the server's error, with its place in the user's SQL."""
    message = _field(result, DiagnosticField.MESSAGE_PRIMARY)
    hint = _field(result, DiagnosticField.MESSAGE_HINT) or _field(result, DiagnosticField.MESSAGE_DETAIL) or None
    position = _field(result, DiagnosticField.STATEMENT_POSITION)
    span = None
    if position:
        start = min(rendered.original(int(position) - 1), max(len(statement.sql) - 1, 0))
        word = re.match(r"\w+|.", statement.sql[start:], re.DOTALL)
        span = Span(start, start + len(word[0] if word else ""))
    if _state(result) in _UNTYPED:
        number = re.search(r"\$(\d+)", message)
        if number is not None and int(number[1]) <= len(statement.names):
            name = statement.names[int(number[1]) - 1]
            return _untyped(name, next(o.span for o in statement.occurrences if o.name == name))
    return InvalidQuery(f"The database rejects the query: {message}.", span, hint)


def _state(result: PGresult) -> str:
    return _field(result, DiagnosticField.SQLSTATE)


def _field(result: PGresult, field: DiagnosticField) -> str:
    return (result.error_field(field) or b"").decode()


# --- what it depends on ---------------------------------------------------------------------------------------------


def _foreign_relation(relations: Iterable[tuple]) -> str | None:  # type: ignore[type-arg]
    """Returns why the change stream cannot carry a relation that is read, by its kind."""
    views = any(kind == "v" for _, _, _, kind, _ in relations)
    for secured, schema, name, kind, _ in relations:
        if schema in ("pg_catalog", "information_schema", "pg_toast"):
            return f"{schema}.{name} is a system catalog: the change stream does not carry it."
        if kind == "m":
            return f"{qualified_name(schema, name)} is a materialized view: the change stream does not carry it."
        if secured and views:
            # Policies determine the rows visible to the view's owner, and may depend on anything.
            return f"{qualified_name(schema, name)} has row-level security and is read through a view."
        if kind == "S":
            return f"{qualified_name(schema, name)} is a sequence: the change stream does not carry it."
    return None


async def _volatile(connection: AsyncConnection, texts: Sequence[str], relations: Sequence[int]) -> str | None:
    """Returns why the texts, which read these relations, depend on more than table contents. Raises InvalidQuery if
    they call functions with side effects."""
    words = [await beside(text, words_of, text) for text in texts]
    called = frozenset[str]().union(*(w.called for w in words))
    names = frozenset[str]().union(*(w.names for w in words))
    functions = [Function(*row) for row in await _all(connection, _FUNCTIONS, list(called), list(names))]
    refused = side_effect(functions)
    if refused is not None:
        raise InvalidQuery(f"A view cannot call {refused}, which is VOLATILE: it may have side effects.")
    reason = next((found for w in words if (found := time_dependence(w)) is not None), None)
    reason = reason or why_volatile(functions) or _own_operator(words, await _all(connection, _OPERATORS))
    if reason is None and (casts := await _all(connection, _CASTS)):
        reason = _own_cast(casts, names.union(*await _all(connection, _COLUMN_TYPES, relations)))
    return reason


def _own_operator(words: Sequence[SqlWords], operators: Iterable[tuple]) -> str | None:  # type: ignore[type-arg]
    for (name,) in operators:
        if any(name in w.rest.replace(" ", "") for w in words):
            return f"The operator {name} of this database may depend on more than its operands."
    return None


def _own_cast(casts: Iterable[tuple], types: frozenset[str]) -> str | None:  # type: ignore[type-arg]
    """Returns why a user-defined cast may be volatile. `types`: words of the texts, and types of the columns that they
    may read. A cast may be implicit, so either of its types indicates it; one between PostgreSQL's own types can occur
    anywhere."""
    for source, target, *shown in casts:
        own = {name for name in (source, target) if name is not None}
        if not own or own & types:
            return f"The cast from {shown[0]} to {shown[1]} of this database may depend on more than its operand."
    return None


async def _all(connection: AsyncConnection, query: str, *parameters: object) -> list[tuple]:  # type: ignore[type-arg]
    return await (await connection.execute(query.encode(), list(parameters) or None)).fetchall()
