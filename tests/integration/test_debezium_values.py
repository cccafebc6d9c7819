"""Every type of PostgreSQL by Debezium itself: each value is PostgreSQL's own text, or its column is named as not told.

In four configurations: all settings of the connector default, the same with schemas in the events, all that is possible
as text, and what docs/kafka.md says.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from cdc.change import UNKNOWN, CommittedTransaction, SchemaNotice
from cdc.debezium.options import DebeziumOptions
from cdc.debezium.stream import DebeziumStream
from cdc.postgres.position import PostgresSnapshot
from cdc.postgres.session import session_sql
from service.engine.databases.postgres.catalog import load_layouts
from tests.fixtures.debezium import EXACT_POSTGRES, debezium_of_postgres
from tests.fixtures.kafka import KafkaBroker
from tests.fixtures.postgres import Database
from tests.fixtures.streams import TRANSACTION_ROWS

pytestmark = [pytest.mark.kafka, pytest.mark.postgres]

#: Column, type, and values besides NULL.
TYPES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("t_bool", "bool", ("true", "false")),
    ("t_int2", "int2", ("-32768", "32767")),
    ("t_int4", "int4", ("-2147483648", "2147483647")),
    ("t_int8", "int8", ("-9223372036854775808", "9223372036854775807")),
    ("t_oid", "oid", ("0", "4294967295")),
    ("t_float4", "float4", ("0.1", "16777217", "1e6", "123456", "1e-5", "-0", "3.4028235e38", "1e-45", "'Infinity'")),
    (
        "t_float8",
        "float8",
        (
            "0.1",
            "1e15",
            "1e14",
            "123456789012345678",
            "1e-5",
            "0.0001",
            "-0",
            "5e-324",
            "'-Infinity'",
            "'NaN'",
            "1.7976931348623157e308",
            "0.30000000000000004",
        ),
    ),
    ("t_numeric", "numeric", ("0", "0.0000000001", "-12345678901234567890.1230", "1e30", "'NaN'", "100")),
    ("t_numeric2", "numeric(12,2)", ("0", "-0.01", "9999999999.99", "1250", "'NaN'")),
    ("t_numeric0", "numeric(10,0)", ("0", "-5", "1250", "1234567890", "'NaN'")),
    ("t_numeric_", "numeric(5,-2)", ("12345", "-100")),
    ("t_money", "money", ("0", "-1234567.89", "0.05")),
    ("t_text", "text", ("''", "'a'", "E'\\n\\t\"'", "'äß€😀'", "repeat('x', 9000)")),
    ("t_varchar", "varchar(10)", ("'ab  '",)),
    ("t_bpchar", "char(5)", ("'ab'",)),
    ("t_char", '"char"', ("'x'",)),
    ("t_name", "name", ("'n'",)),
    ("t_bytea", "bytea", ("''", "'\\xdeadbeef'", "'\\x00'", "'\\xffeedd'")),
    ("t_uuid", "uuid", ("'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'")),
    ("t_json", "json", ('\'{"b": 1,  "a": [1, 2.50]}\'', "' 1 '")),
    ("t_jsonb", "jsonb", ('\'{"b": 1,  "a": [1, 2.50]}\'', "'null'")),
    (
        "t_date",
        "date",
        ("'2024-02-29'", "'0001-01-01'", "'0044-03-15 BC'", "'infinity'", "'-infinity'", "'12345-06-07'"),
    ),
    ("t_time", "time", ("'00:00'", "'23:59:59.999999'", "'24:00'", "'03:04:05.6'")),
    ("t_time3", "time(3)", ("'03:04:05.678'",)),
    ("t_timetz", "timetz", ("'03:04:05+02'",)),
    (
        "t_stamp",
        "timestamp",
        (
            "'2024-02-29 12:34:56.789012'",
            "'1969-12-31 23:59:59.999999'",
            "'infinity'",
            "'-infinity'",
            "'0001-01-01'",
            "'0044-03-15 12:00 BC'",
            "'12345-06-07 01:02:03'",
        ),
    ),
    ("t_stamp3", "timestamp(3)", ("'2024-02-29 12:34:56.789'", "'1900-01-01 00:00:00.001'")),
    ("t_stamp0", "timestamp(0)", ("'2024-02-29 12:34:56'",)),
    (
        "t_stamptz",
        "timestamptz",
        (
            "'2024-02-29 12:34:56.789012+02'",
            "'1969-12-31 23:59:59.5Z'",
            "'infinity'",
            "'-infinity'",
            "'0044-03-15 12:00Z BC'",
            "'12345-06-07 01:02:03Z'",
            "'1883-01-01Z'",
        ),
    ),
    (
        "t_interval",
        "interval",
        (
            "'0'",
            "'1 year 2 months 3 days 04:05:06.789'",
            "'-1 month 3 days -04:05:06'",
            "'-1.5 s'",
            "'40 hours'",
            "'1 day -1 year'",
            "'-0.000001 s'",
        ),
    ),
    ("t_bit1", "bit(1)", ("B'0'", "B'1'")),
    ("t_bit", "bit(10)", ("B'0000000001'", "B'1010101010'")),
    ("t_varbit", "varbit(10)", ("B'001'",)),
    ("t_inet", "inet", ("'10.0.0.1'", "'10.0.0.0/8'", "'::1'")),
    ("t_cidr", "cidr", ("'10.0.0.0/8'",)),
    ("t_macaddr", "macaddr", ("'08:00:2b:01:02:03'",)),
    ("t_enum", "mood", ("'happy'", "'a,b'")),
    ("t_domain", "positive", ("7",)),
    ("t_int4range", "int4range", ("'[1,5)'", "'empty'")),
    ("t_tsrange", "tsrange", ("'[2024-01-01,2024-01-02 03:04:05)'",)),
    ("t_tstzrange", "tstzrange", ("'[2024-01-01Z,2024-01-02 03:04:05Z)'",)),
    ("t_tsvector", "tsvector", ("'a b'",)),
    ("t_point", "point", ("'(1,2)'",)),
    ("t_int4s", "int4[]", ("'{}'", "'{1,NULL,-3}'", "'{{1,2},{3,4}}'")),
    ("t_texts", "text[]", ('\'{a,"b c",NULL,"NULL","","q\\"x\\\\y"}\'',)),
    ("t_numerics", "numeric[]", ("'{1.5,2.25}'",)),
    ("t_numerics2", "numeric(6,2)[]", ("'{1.5,2.25}'",)),
    ("t_bools", "bool[]", ("'{t,f}'",)),
    ("t_float8s", "float8[]", ("'{1e20,0.5}'",)),
    ("t_uuids", "uuid[]", ("'{123e4567-e89b-12d3-a456-426655440000}'",)),
    ("t_stamps", "timestamp[]", ("'{2024-02-29 12:34:56.789012}'",)),
    ("t_stamptzs", "timestamptz[]", ("'{2024-02-29 12:34:56.789012Z}'",)),
    ("t_dates", "date[]", ("'{2024-02-29}'",)),
    ("t_enums", "mood[]", ("'{happy,\"a,b\"}'",)),
)
ROWS = max(len(values) for _, _, values in TYPES)
#: What is never told.
NEVER = {"t_timetz", "t_varbit", "t_point", "t_name", "t_numeric_"}
#: What a configuration does not tell besides: times at midnight, arrays of several dimensions.
NOT_BY = {"texts": {"t_time", "t_int4s"}, "documented": {"t_int4s"}}


def create(database: Database) -> None:
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in TYPES)
    database.execute(
        "CREATE TYPE mood AS ENUM ('happy', 'a,b')",
        "CREATE DOMAIN positive AS int4 CHECK (value > 0)",
        f"CREATE TABLE kinds (id int4 PRIMARY KEY, {columns})",
        "ALTER TABLE kinds REPLICA IDENTITY FULL",
    )


def change(database: Database) -> list[tuple[str | None, ...]]:
    """A row of every value, changed and changed back; rows as PostgreSQL prints them."""
    for number in range(ROWS):
        values = [values[number] if number < len(values) else "NULL" for _, _, values in TYPES]
        database.execute(f"INSERT INTO kinds VALUES ({number}, {', '.join(values)})")
    database.execute("UPDATE kinds SET t_int2 = 5 WHERE id = 0", "DELETE FROM kinds WHERE id = 1")
    with psycopg.connect(database.url, autocommit=True) as connection:
        connection.execute(session_sql().encode())
        result = connection.execute("SELECT * FROM kinds ORDER BY id").pgresult
    assert result is not None
    fields = range(result.nfields)
    values = ([result.get_value(row, i) for i in fields] for row in range(result.ntuples))
    return [tuple(None if v is None else v.decode() for v in row) for row in values]


HASHES = "(SELECT string_agg(md5(i::text), '') FROM generate_series(1, 100) i)"
DIGITS = "(SELECT string_agg((i * 7919)::text, '') FROM generate_series(1000, 2000) i)::numeric"
#: Values by type that are stored out of line.
LARGE = {
    **dict.fromkeys(("text", "varchar", "char(3200)", "citext", "d_text"), HASHES),
    **dict.fromkeys(("json", "jsonb"), f"to_json({HASHES})"),
    "bytea": f"{HASHES}::bytea",
    "tsvector": "(SELECT to_tsvector('simple', string_agg(md5(i::text), ' ')) FROM generate_series(1, 100) i)",
    "numeric": DIGITS,
    "numrange": f"numrange(0, {DIGITS})",
    "varbit": "(SELECT string_agg(i::bit(32)::text, '') FROM generate_series(1, 900) i)::varbit",
    "hstore": f"hstore('a', {HASHES})",
    **{
        kind: f"(SELECT array_agg({element}) FROM generate_series(1, 900) i)"
        for kind, element in {
            **dict.fromkeys(("text[]", "varchar[]", "d_texts"), "md5(i::text)"),
            **dict.fromkeys(("int2[]", "int4[]", "int8[]", "numeric[]", "float8[]"), "i"),
            "uuid[]": "md5(i::text)::uuid",
            "date[]": "date '2020-01-01' + i",
            **dict.fromkeys(("timestamp[]", "timestamptz[]"), "timestamp '2020-01-01' + i * interval '1 day'"),
            "json[]": "to_json(i)",
            "jsonb[]": "to_jsonb(i)",
            "bytea[]": "md5(i::text)::bytea",
        }.items()
    },
    "bool[]": "(SELECT array_agg(i % 2 = 0) FROM generate_series(1, 5000) i)",
}
#: Types whose placeholder the connector may send in a form that is not recognized.
UNSUPPORTED_LARGE = {"hstore"}


def create_large(database: Database) -> list[str]:
    """Create the table; return the names of its large columns."""
    names = [f"c{number}" for number in range(len(LARGE))]
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, LARGE, strict=True))
    database.execute(
        "CREATE EXTENSION citext",
        "CREATE EXTENSION hstore",
        "CREATE DOMAIN d_text AS text",
        "CREATE DOMAIN d_texts AS text[]",
        f"CREATE TABLE large (id int4 PRIMARY KEY, n int4, {columns})",
        *(f"ALTER TABLE large ALTER {name} SET STORAGE EXTERNAL" for name in names),
    )
    return names


async def stream(
    options: DebeziumOptions,
    database: Database,
    table: str,
    number: int,
    change: Callable[[], list[tuple[str | None, ...]]],
) -> tuple[list[CommittedTransaction], list[SchemaNotice], list[tuple[str | None, ...]]]:
    """Return the stream's first transactions after a change, its notices, and the result of the change."""
    async with await psycopg.AsyncConnection.connect(database.url, autocommit=True) as connection:
        layouts = await load_layouts(connection, [table], with_column_types=True)
        horizon = await (await connection.execute("SELECT pg_snapshot_xmax(pg_current_snapshot())::text")).fetchone()
    assert horizon is not None
    first = int(horizon[0])

    async def snapshot() -> PostgresSnapshot:
        return PostgresSnapshot(first, first, horizon=first)

    source = DebeziumStream(options, lambda: layouts, snapshot, TRANSACTION_ROWS)
    taken: list[CommittedTransaction] = []
    notices: list[SchemaNotice] = []
    try:
        await source.start()
        rows = await asyncio.to_thread(change)
        async with asyncio.timeout(60):
            while len(taken) < number:
                batch = await source.next_batch()
                taken += batch.transactions
                notices += batch.schema
    finally:
        await source.close()
    return taken, notices, rows


@pytest.mark.parametrize("setup", ["default", "schemas", "texts", "documented"])
def test_every_type_of_postgres(
    kafka_broker: KafkaBroker, database: Database, topic_prefix: str, tmp_path: Path, setup: str
) -> None:
    """Inserts, an update and a delete: whatever is told is exact, and what is not told is said."""
    create(database)
    properties = {
        "texts": EXACT_POSTGRES,
        "documented": {"decimal.handling.mode": "string", "interval.handling.mode": "string"},
    }.get(setup, {})
    connector = debezium_of_postgres(
        tmp_path, kafka_broker, database, topic_prefix, properties, schemas=setup == "schemas"
    )
    kafka_broker.create_topics({f"{topic_prefix}.transaction": 1, f"{topic_prefix}.public.kinds": 2})
    connector.start()
    stated = {
        "default": {
            "time_precision_mode": "adaptive",
            "binary_handling_mode": "bytes",
            "decimal_handling_mode": "precise",
        },
        "schemas": {},
        "texts": {"time_precision_mode": "isostring", "binary_handling_mode": "hex", "decimal_handling_mode": "string"},
        "documented": {
            "time_precision_mode": "adaptive",
            "binary_handling_mode": "bytes",
            "decimal_handling_mode": "string",
        },
    }[setup]
    try:
        options = DebeziumOptions(kafka_broker.bootstrap, topic_prefix, **stated)  # type: ignore[arg-type]
        taken, notices, rows = asyncio.run(
            stream(options, database, "public.kinds", ROWS + 2, lambda: change(database))
        )
    finally:
        connector.kill()
    names = ("id", *(name for name, _, _ in TYPES))
    untold = {column for notice in notices for column in notice.columns}
    known: dict[str | None, dict[str, str | None]] = {}
    for t in taken:
        told = t.tables["public.kinds"]
        assert not told.overflow
        for row in told.removed:
            before = known.pop(row[0])
            assert {**before, **dict.fromkeys(untold)} == {
                **dict(zip(names, row, strict=True)),
                **dict.fromkeys(untold),
            }
        known |= {row[0]: dict(zip(names, row, strict=True)) for row in told.added}
    wrong = [
        (name, text, known[row[0]][name])
        for row in rows
        for name, text in zip(names, row, strict=True)
        if name not in untold and known[row[0]][name] != text
    ]
    assert not wrong
    assert untold >= NEVER
    if setup in NOT_BY:
        assert untold == NEVER | NOT_BY[setup]


@pytest.mark.parametrize("setup", ["default", "texts"])
def test_large_values_that_are_not_sent(
    kafka_broker: KafkaBroker, database: Database, topic_prefix: str, tmp_path: Path, setup: str
) -> None:
    """With the replica identity of new tables they are unknown, or their column is named as not told."""
    names = create_large(database)
    properties = EXACT_POSTGRES if setup == "texts" else {}
    connector = debezium_of_postgres(tmp_path, kafka_broker, database, topic_prefix, properties)
    kafka_broker.create_topics({f"{topic_prefix}.transaction": 1, f"{topic_prefix}.public.large": 1})
    connector.start()
    stated = {
        "time_precision_mode": "isostring" if setup == "texts" else "adaptive",
        "binary_handling_mode": "hex" if setup == "texts" else "bytes",
        "decimal_handling_mode": "string" if setup == "texts" else "precise",
    }

    def change() -> list[tuple[str | None, ...]]:
        database.execute(f"INSERT INTO large VALUES (1, 1, {', '.join(LARGE.values())})", "UPDATE large SET n = 2")
        return []

    try:
        options = DebeziumOptions(kafka_broker.bootstrap, topic_prefix, **stated)  # type: ignore[arg-type]
        taken, notices, _ = asyncio.run(stream(options, database, "public.large", 2, change))
    finally:
        connector.kill()
    untold = {column for notice in notices for column in notice.columns}
    inserted, updated = (t.tables["public.large"] for t in taken)
    ((before, after),) = updated.partial
    assert before == ("1", *[UNKNOWN] * (len(names) + 1))
    assert after is not None
    assert after[:2] == ("1", "2")
    sent = {kind: value for name, kind, value in zip(names, LARGE, after[2:], strict=True) if name not in untold}
    assert not {kind: value for kind, value in sent.items() if value is not UNKNOWN}
    assert sent.keys() >= {"text", "varchar", "citext", "json", "jsonb", "bytea", "text[]", "int4[]", "uuid[]"}
    assert not sent.keys() & UNSUPPORTED_LARGE
    ((_, _, *values),) = inserted.added
    assert all(value for name, value in zip(names, values, strict=True) if name not in untold)
