"""Schema token, and event triggers that mark each schema-altering transaction in the stream.

*Theory*: the change stream carries rows, not DDL. The token is a hash of the catalog rows that views depend on; a row's
``xmin`` changes whenever the row does. It is read about once a second, and only shows that the catalog should be
checked. A logical message, which the triggers write in the DDL's own transaction, precedes anything that commits later
in the stream (PostgreSQL manual, "Event Triggers", "Replication Management Functions").

*Invariants*: both have false positives: a mark or a new token may mean no relevant change. Temporary objects affect
neither.

Not here: the changes (`checks.check_schema`), their consequences (`service.engine.views.repair`).
"""

from collections.abc import Iterable

from psycopg import AsyncConnection
from psycopg.errors import InsufficientPrivilege

from cdc.postgres.pgoutput import SCHEMA_MARK
from service.engine.upstream.results import Finding, SchemaToken, UpstreamError

#: First OID of user-defined objects (FirstNormalObjectId).
_USER = 16384
_LASTING = "c.relpersistence <> 't'"
_NO_TEMPORARY = (
    "{column} NOT IN (SELECT t.oid FROM pg_catalog.pg_namespace t WHERE t.nspname LIKE 'pg\\_temp%%' OR t.nspname LIKE"
    " 'pg\\_toast%%')"
)

#: Hashed columns of catalogs, and conditions on their rows. ``%(tables)s``: the followed tables, of which more is
#: hashed.
_RELATIONS = (
    ("oid, xmin", f"pg_class c WHERE oid >= {_USER} AND {_LASTING} AND relkind IN ('r', 'p', 'v', 'm', 'f')"),
    ("attrelid, attnum, xmin", "pg_attribute WHERE attrelid = ANY (%(tables)s::oid[]) AND attnum > 0"),
    ("oid, xmin", "pg_attrdef WHERE adrelid = ANY (%(tables)s::oid[])"),
    ("indexrelid, xmin", "pg_index WHERE indrelid = ANY (%(tables)s::oid[])"),
    ("oid, xmin", "pg_constraint WHERE conrelid = ANY (%(tables)s::oid[])"),
    (
        "inhrelid, inhparent, xmin",
        "pg_inherits WHERE inhparent = ANY (%(tables)s::oid[]) OR inhrelid = ANY (%(tables)s::oid[])",
    ),
    ("oid, xmin", "pg_publication"),
    ("oid, xmin", "pg_publication_rel"),
    ("oid, xmin", "pg_event_trigger"),
    ("oid, rolsuper, rolbypassrls", "pg_roles"),
    ("roleid, member, xmin", "pg_auth_members"),
    ("oid, nspname", f"pg_namespace WHERE oid >= {_USER} AND {_NO_TEMPORARY.format(column='oid')}"),
    ("xmin", "pg_database WHERE datname = pg_catalog.current_database()"),
)
_PUBLISHED_SCHEMAS = ("oid, xmin", "pg_publication_namespace")

#: Objects beside tables that a result may depend on: hashed columns, kind, name, and conditions on rows. Objects that
#: SQL uses without naming them have no name.
_CODE = (
    (
        "p.oid, p.xmin",
        "'function'",
        "CASE WHEN p.oid IN (SELECT oprcode FROM pg_catalog.pg_operator"
        " UNION ALL SELECT castfunc FROM pg_catalog.pg_cast"
        " UNION ALL SELECT unnest(ARRAY[aggtransfn, aggfinalfn]) FROM pg_catalog.pg_aggregate)"
        " THEN '' ELSE p.proname END",
        f"pg_proc p WHERE p.oid >= {_USER} AND {_NO_TEMPORARY.format(column='p.pronamespace')}",
    ),
    ("oid, xmin", "'operator'", "''", f"pg_operator WHERE oid >= {_USER}"),
    ("oid, xmin", "'cast'", "''", f"pg_cast WHERE oid >= {_USER}"),
    (
        "oid, xmin",
        "'type'",
        "typname",
        f"pg_type WHERE oid >= {_USER} AND typtype IN ('b', 'd', 'e', 'm', 'r') AND typcategory <> 'A'"
        f" AND {_NO_TEMPORARY.format(column='typnamespace')}",
    ),
    ("e.oid, e.xmin", "'type'", "t.typname", "pg_enum e JOIN pg_catalog.pg_type t ON t.oid = e.enumtypid"),
    (
        "a.attrelid, a.attnum, a.xmin",
        "'type'",
        "c.relname",
        "pg_class c JOIN pg_catalog.pg_attribute a ON a.attrelid = c.oid"
        f" WHERE c.oid >= {_USER} AND {_LASTING} AND c.relkind = 'c'",
    ),
    (
        "oid, relowner, reloptions",
        "'view'",
        "relname",
        f"pg_class c WHERE oid >= {_USER} AND {_LASTING} AND relkind = 'v'",
    ),
    ("o.oid, o.xmin", "'policy'", "c.relname", "pg_policy o JOIN pg_catalog.pg_class c ON c.oid = o.polrelid"),
    ("oid, relowner, relforcerowsecurity", "'policy'", "relname", f"pg_class c WHERE relrowsecurity AND {_LASTING}"),
    ("oid, xmin", "'collation'", "''", "pg_collation"),
    ("oid, xmin", "'text search'", "''", "pg_ts_config"),
    ("mapcfg, maptokentype, mapseqno, mapdict", "'text search'", "''", "pg_ts_config_map"),
    ("oid, xmin", "'text search'", "''", "pg_ts_dict"),
)

_TRIGGERS = ("upquery_ddl_end", "upquery_ddl_drop", "upquery_ddl_rewrite")

#: True if the triggers fire regardless of ``session_replication_role``.
_MARKED = (
    f"SELECT count(*) = {len(_TRIGGERS)} FROM pg_catalog.pg_event_trigger WHERE evtenabled = 'A' AND evtname IN"
    f" {_TRIGGERS}"
)

#: Statements that create the triggers and a function of its own schema. It runs as its owner, since not every role may
#: write logical messages. A CREATE or DROP without reported commands did nothing, or is reported by ``sql_drop``. A
#: rewrite for reason 1 makes a table unlogged or logged: changes made while it was unlogged are in no log.
MARKING = (
    "CREATE SCHEMA IF NOT EXISTS upquery",
    "DROP FUNCTION IF EXISTS upquery.mark_ddl() CASCADE",
    f"""CREATE FUNCTION upquery.mark_ddl() RETURNS event_trigger LANGUAGE plpgsql SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $mark$
DECLARE
  told text := '';
  named int;
  lasting int;
BEGIN
  IF tg_event = 'table_rewrite' THEN
    IF pg_event_trigger_table_rewrite_reason() & 1 = 0 THEN RETURN; END IF;
    told := pg_event_trigger_table_rewrite_oid()::text;
  ELSIF tg_event = 'sql_drop' THEN
    IF NOT EXISTS (SELECT FROM pg_event_trigger_dropped_objects() WHERE NOT is_temporary) THEN RETURN; END IF;
  ELSE
    SELECT count(*), count(*) FILTER (WHERE schema_name IS DISTINCT FROM 'pg_temp') INTO named, lasting
    FROM pg_event_trigger_ddl_commands();
    IF tg_tag IN ('COMMENT', 'REINDEX', 'REFRESH MATERIALIZED VIEW') THEN RETURN; END IF;
    IF lasting = 0 AND (named > 0 OR tg_tag LIKE 'CREATE %' OR tg_tag LIKE 'DROP %') THEN RETURN; END IF;
  END IF;
  PERFORM pg_logical_emit_message(true, '{SCHEMA_MARK}', told);
END $mark$""",
    *(
        statement
        for trigger, event in zip(_TRIGGERS, ("ddl_command_end", "sql_drop", "table_rewrite"), strict=True)
        for statement in (
            f"CREATE EVENT TRIGGER {trigger} ON {event} EXECUTE FUNCTION upquery.mark_ddl()",
            f"ALTER EVENT TRIGGER {trigger} ENABLE ALWAYS",
        )
    ),
)


async def read_token(connection: AsyncConnection, tables: Iterable[int], *, streamed: bool) -> SchemaToken:
    """Reads the current token. `tables`: OIDs of the followed tables. Not `streamed`: marks do not reach this
    stream."""
    published = (_PUBLISHED_SCHEMAS,) if connection.info.server_version >= 150000 else ()
    parts = (*_RELATIONS, *published, *((columns, rows) for columns, _, _, rows in _CODE))
    hashed = " UNION ALL ".join(
        f"SELECT {_hash(n, columns)} FROM pg_catalog.{rows}" for n, (columns, rows) in enumerate(parts)
    )
    query = f"SELECT (SELECT pg_catalog.bit_xor(q.h) FROM ({hashed}) q (h)), ({_MARKED})"
    row = await (await connection.execute(query.encode(), {"tables": list(tables)})).fetchone()
    assert row is not None
    return SchemaToken(str(row[0]), bool(row[1]) and streamed)


async def load_code(connection: AsyncConnection) -> dict[tuple[str, str], str]:
    """Reads a hash of each object in `_CODE`, by kind and name."""
    parts = (
        f"SELECT {kind}, {name}::text, {_hash(number, columns)} FROM pg_catalog.{rows}"
        for number, (columns, kind, name, rows) in enumerate(_CODE)
    )
    rows = " UNION ALL ".join(parts).replace("%%", "%")
    query = f"SELECT kind, name, pg_catalog.bit_xor(h)::text FROM ({rows}) q (kind, name, h) GROUP BY 1, 2"
    found = await connection.execute(query.encode())
    return {(kind, name): mark for kind, name, mark in await found.fetchall()}


def _hash(number: int, columns: str) -> str:
    return f"pg_catalog.hash_record_extended(ROW({number}, {columns}), 0)"


async def check_marks(connection: AsyncConnection) -> list[Finding]:
    """Returns findings if schema-altering transactions are not marked in the stream."""
    row = await (await connection.execute(_MARKED.encode())).fetchone()
    if row is not None and row[0]:
        return []
    return [
        Finding(
            "schema_changes",
            "Schema changes are detected within one heartbeat: until then, answers at later versions "
            "may use the old schema. With event triggers they are detected exactly.",
            "As a superuser: upquery doctor --fix, or run:\n" + "\n".join(f"{s};" for s in MARKING),
            fatal=False,
        )
    ]


async def make_marks(connection: AsyncConnection) -> None:
    """Creates the event triggers, all or none. Raises UpstreamError for a role without the right."""
    try:
        async with connection.transaction():
            for statement in MARKING:
                await connection.execute(statement.encode())
    except InsufficientPrivilege as error:
        detail = f"The role may not make event triggers: {error.diag.message_primary}."
        raise UpstreamError("denied", detail, "A superuser must run the statements above.") from None
