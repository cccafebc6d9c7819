"""Records what Debezium's MariaDB connector says of every type: ``python -m tests.cdc.debezium.record``.

Run anew after a new version in tests/fixtures/jvm/pom.xml; the difference of the files is what the version changed.
Each file is one JSON object a line: {topic, partition, key, value}, after a line {"rows": …} with the rows as the
server's own text protocol prints them.
"""

import json
import tempfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.fixtures.debezium import EXACT_MARIADB, Debezium, debezium_of_mariadb, records
from tests.fixtures.kafka import KafkaBroker, start_kafka
from tests.fixtures.mariadb import MariaDatabase, start_mariadb
from tests.fixtures.service import until

RECORDED = Path(__file__).parent / "recorded"
FILES: dict[str, dict[str, str]] = {
    "mariadb-default": {},
    "mariadb-exact": EXACT_MARIADB,
    "mariadb-isostring": {"time.precision.mode": "isostring", "bigint.unsigned.handling.mode": "long"},
    "mariadb-connect-time": {"time.precision.mode": "connect"},
}

#: Column, type, and values besides NULL. Not inet4 and inet6: Debezium 3.5 does not parse statements that name them.
TYPES: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("t_bool", "boolean", ("0", "1", "2")),
    ("t_tiny", "tinyint", ("-128", "127")),
    ("t_utiny", "tinyint unsigned", ("0", "255")),
    ("t_small", "smallint", ("-32768", "32767")),
    ("t_usmall", "smallint unsigned", ("65535",)),
    ("t_medium", "mediumint", ("-8388608", "8388607")),
    ("t_umedium", "mediumint unsigned", ("16777215",)),
    ("t_int", "int", ("-2147483648", "2147483647")),
    ("t_uint", "int unsigned", ("4294967295",)),
    ("t_zero", "int(8) zerofill", ("42",)),
    ("t_big", "bigint", ("-9223372036854775808", "9223372036854775807")),
    ("t_ubig", "bigint unsigned", ("0", "9223372036854775808", "18446744073709551615")),
    ("t_dec", "decimal(10,2)", ("0", "-0.01", "99999999.99")),
    ("t_dec65", "decimal(65,30)", (f"-{'9' * 35}.{'9' * 30}", "1e-30")),
    ("t_dec0", "decimal(5,0) unsigned", ("12345",)),
    ("t_float", "float", ("0.1", "16777217", "-3.4028234e38", "1e-45")),
    ("t_double", "double", ("0.1", "1e23", "-1.7976931348623157e308", "5e-324")),
    ("t_bit1", "bit(1)", ("0", "1")),
    ("t_bit8", "bit(8)", ("5", "255")),
    ("t_bit64", "bit(64)", ("1", "18446744073709551615")),
    ("t_char", "char(5)", ("'ab'", "'ab  '", "''")),
    ("t_varchar", "varchar(40)", ("'ab  '", "'äß€😀'", "'a''b\\\\\"'", "''")),
    ("t_latin", "varchar(20) character set latin1", ("'äß€'",)),
    ("t_bin_text", "varchar(20) collate utf8mb4_bin", ("'Ä'",)),
    ("t_text", "longtext", ("repeat('x', 300)", "'\\n\\t\\0'")),
    ("t_binary", "binary(4)", ("x'00'", "x'ff00'", "x'deadbeef'")),
    ("t_varbinary", "varbinary(20)", ("x'00ff00'", "''")),
    ("t_blob", "blob", ("x'c328'", "x'00'")),
    ("t_enum", "enum('small','big','a,b')", ("'small'", "'a,b'", "0")),
    ("t_set", "set('x','y','z')", ("''", "'z,x'", "'x,y,z'")),
    ("t_date", "date", ("'1000-01-01'", "'9999-12-31'", "'0000-00-00'", "'2024-02-00'", "'0001-01-01'")),
    ("t_datetime", "datetime", ("'2024-02-29 12:34:56'", "'0000-00-00 00:00:00'", "'0001-01-01 00:00:00'")),
    ("t_datetime3", "datetime(3)", ("'2024-02-29 12:34:56.789'", "'9999-12-31 23:59:59.999'")),
    ("t_datetime6", "datetime(6)", ("'1969-12-31 23:59:59.999999'", "'2024-01-01 00:00:00.100000'")),
    ("t_stamp", "timestamp null", ("'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00 00:00:00'")),
    ("t_stamp6", "timestamp(6) null", ("'2024-02-29 12:34:56.000001'",)),
    ("t_time", "time", ("'00:00:00'", "'-838:59:59'", "'838:59:59'", "'23:59:59'")),
    ("t_time3", "time(3)", ("'-00:00:00.001'", "'25:00:00.5'")),
    ("t_time6", "time(6)", ("'-838:59:59.000001'", "'23:59:59.999999'", "'-00:00:00.000001'")),
    ("t_year", "year", ("1901", "2155", "0")),
    ("t_json", "json", ('\'{"b": [1, 2.50, null], "a": "ä"}\'', "' 1 '", "'null'")),
    ("t_uuid", "uuid", ("'123e4567-e89b-12d3-a456-426655440000'", "'00000000-0000-0000-0000-000000000000'")),
    ("t_point", "point", ("POINT(1, -2.5)",)),
    ("t_geometry", "geometry", ("ST_GeomFromText('POLYGON((0 0,1 0,1 1,0 0))', 4326)",)),
)
CHANGES = (
    "UPDATE kinds SET t_int = 1 WHERE id = 1",
    "UPDATE kinds SET id = 1000 WHERE id = 1",
    "DELETE FROM kinds WHERE id = 2",
    "ALTER TABLE small ADD COLUMN c varchar(10) DEFAULT 'new'",
    "INSERT INTO small VALUES (2, 'y', 'z')",
    "START TRANSACTION; INSERT INTO small VALUES (3, 'a', 'b'); UPDATE small SET b = 'c' WHERE a = 2; COMMIT",
    "TRUNCATE TABLE small",
    "CREATE TABLE keyless (v int)",
    "INSERT INTO keyless VALUES (7), (7)",
    "DELETE FROM keyless LIMIT 1",
    "RENAME TABLE small TO smaller",
    "INSERT INTO smaller VALUES (9, 'n', NULL)",
)


def create(database: MariaDatabase) -> None:
    """The tables."""
    columns = ", ".join(f"{name} {kind}" for name, kind, _ in TYPES)
    database.execute(
        f"CREATE TABLE kinds (id int PRIMARY KEY, {columns}) ENGINE=InnoDB",
        "CREATE TABLE small (a int PRIMARY KEY, b varchar(10))",
    )


def change(database: MariaDatabase) -> list[list[Any]]:
    """A row of every value, then changes of other kinds. The rows of `kinds` in between, as the server prints them."""
    from pymysql.constants import CLIENT

    with (
        closing(database.connect(client_flag=CLIENT.MULTI_STATEMENTS, conv={}, use_unicode=False)) as connection,
        connection.cursor() as cursor,
    ):
        cursor.execute("SET sql_mode = '', time_zone = '+00:00'")
        for number in range(max(len(values) for _, _, values in TYPES)):
            values = [values[number] if number < len(values) else "NULL" for _, _, values in TYPES]
            cursor.execute(f"INSERT INTO kinds VALUES ({number}, {', '.join(values)})")
        cursor.execute("SELECT * FROM kinds ORDER BY id")
        rows = [[None if v is None else _printable(v) for v in row] for row in cursor.fetchall()]
        cursor.execute("INSERT INTO small VALUES (1, 'x')")
        for statement in CHANGES:
            cursor.execute(statement)
            while cursor.nextset():
                pass
        cursor.execute("INSERT INTO keyless VALUES (42)")
    return rows


def _printable(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return "\\x" + value.hex()


def record(name: str, broker: KafkaBroker, database: MariaDatabase, connector: Debezium) -> None:
    """All that the connector says."""
    connector.start()
    rows = change(database)
    last = f"{connector.prefix}.{database.name}.keyless"
    until(lambda: last in topics(broker, connector))
    until(lambda: any((r["value"] or {}).get("after") == {"v": 42} for r in records(broker, last)))
    connector.stop()
    found = records(broker, *sorted(topics(broker, connector)))
    lines = [{"rows": [dict(zip(["id", *(n for n, _, _ in TYPES)], row, strict=True)) for row in rows]}, *found]
    text = "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines)
    (RECORDED / f"{name}.jsonl").write_text(text, encoding="utf-8")


def topics(broker: KafkaBroker, connector: Debezium) -> set[str]:
    """The connector's topics, without the connector's own notes."""
    admin = broker.admin()
    try:
        names = set(admin.list_topics())
    finally:
        admin.close()
    prefix = connector.prefix
    return {n for n in names if n == prefix or (n.startswith(f"{prefix}.") and not n.endswith("history"))}


def main() -> None:
    """All files."""
    server, broker = start_mariadb(), start_kafka()
    try:
        with tempfile.TemporaryDirectory() as directory:
            for name, properties in FILES.items():
                database = MariaDatabase(name.replace("-", "_"), "", server)
                with closing(server.connect()) as connection:
                    connection.cursor().execute(f"CREATE DATABASE {database.name}")
                create(database)
                connector = debezium_of_mariadb(Path(directory) / name, broker, database, name, properties)
                try:
                    record(name, broker, database, connector)
                finally:
                    connector.kill()
    finally:
        broker.discard()
        server.discard()


if __name__ == "__main__":
    main()
