"""Parity: of every type and its edge values, the text is the same from the binary log and from a lookup."""

from contextlib import closing
from typing import Any

import pytest

from cdc.change import ChangedRow
from cdc.column_type import ColumnType
from cdc.mysql.charsets import KNOWN
from cdc.mysql.values import lookup_reader, undecodable
from tests.fixtures.binlogs import BinlogStream, following
from tests.fixtures.mariadb import MariaDatabase
from tests.fixtures.streams import run

pytestmark = pytest.mark.mariadb

_TEXTS = ["''", "'a'", "'  padded  '", "'ÄÖß€'", "'😀'", "'it''s \\\\ \\n'", "REPEAT('ü', 200)"]

#: Types, and values as literals; NULL is added to all.
TYPES: dict[str, list[str]] = {
    "tinyint": ["-128", "0", "127"],
    "tinyint unsigned": ["0", "128", "255"],
    "tinyint(1)": ["0", "1", "-1"],
    "tinyint unsigned zerofill": ["0", "7", "255"],
    "smallint": ["-32768", "32767"],
    "smallint unsigned": ["0", "65535"],
    "mediumint": ["-8388608", "-1", "8388607"],
    "mediumint unsigned": ["0", "16777215"],
    "int": ["-2147483648", "0", "2147483647"],
    "int unsigned": ["0", "4294967295"],
    "int(6) zerofill": ["0", "42", "123456789"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "bigint unsigned": ["0", "9223372036854775808", "18446744073709551615"],
    "year": ["0", "1901", "2024", "2155"],
    "bit(1)": ["b'0'", "b'1'"],
    "bit(12)": ["b'0'", "b'101010101010'", "b'111111111111'"],
    "bit(64)": ["0", "18446744073709551615", "9223372036854775808"],
    "decimal(1,0)": ["0", "-9", "9"],
    "decimal(10,2)": ["0", "-0.01", "0.01", "12345678.90", "-99999999.99"],
    "decimal(5,5)": ["0", "0.00001", "-0.99999"],
    "decimal(9,0)": ["999999999", "-999999999"],
    "decimal(18,9)": ["123456789.123456789", "-0.000000001", "1"],
    "decimal(65,30)": ["12345678901234567890123456789012345.123456789012345678901234567890", "-1", "0"],
    "decimal(65,0)": ["99999999999999999999999999999999999999999999999999999999999999999", "-10"],
    "decimal(12,4) unsigned zerofill": ["0", "0.5", "12.3456"],
    "float": ["0", "-0e0", "0.1", "1e6", "16777216", "123456.7", "3.4028234e38", "-1.17549435e-38", "1e-45", "1e10"],
    "float(7,2)": ["0", "1.5", "12345.67"],
    "double": ["0", "0.1", "1e15", "1e16", "1e-5", "-1.7976931348623157e308", "2.2250738585072014e-308", "1.125"],
    "double(10,3)": ["0", "1.5", "1234567.891"],
    "char(10)": ["''", "'a'", "'a   '", "'ÄÖß€😀'", "' b'"],
    "char(255)": ["''", "'x'", "REPEAT('€', 255)"],
    "varchar(10)": ["''", "'a'", "'a   '", "'😀'"],
    "varchar(300)": _TEXTS,
    "tinytext": ["''", "'ü'"],
    "text": _TEXTS,
    "mediumtext": [*_TEXTS, "REPEAT('x', 70000)"],
    "longtext": _TEXTS,
    "varchar(300) compressed": [*_TEXTS, "REPEAT('y', 300)"],
    "text compressed": [*_TEXTS, "REPEAT('y', 3000)"],
    "blob compressed": ["''", "x'00'", "REPEAT(x'0001', 3000)"],
    "binary(4)": ["''", "x'00'", "x'61'", "x'ffffffff'", "x'61000000'"],
    "binary(255)": ["''", "x'ff00'"],
    "varbinary(10)": ["''", "x'00'", "x'6100'", "x'ff'"],
    "varbinary(300)": ["''", "REPEAT(x'00ff', 150)"],
    "tinyblob": ["''", "x'00'"],
    "blob": ["''", "x'00ff'", "REPEAT(x'ff', 1000)"],
    "mediumblob": ["x'0102'", "REPEAT(x'ff', 70000)"],
    "longblob": ["x'0102'"],
    "enum('a','b','','it''s','ü,x')": ["'a'", "'b'", "''", "'it''s'", "5", "0"],
    "set('a','b','c d','ü')": ["''", "'a'", "'ü,a'", "'a,b,c d,ü'"],
    "date": ["'2024-02-29'", "'0000-00-00'", "'2024-00-10'", "'2024-02-00'", "'1000-01-01'", "'9999-12-31'"],
    "datetime": ["'2024-02-29 12:00:00'", "'0000-00-00'", "'2024-00-10 01:02:03'", "'9999-12-31 23:59:59'"],
    "datetime(1)": ["'2024-02-29 12:00:00.1'", "'0000-00-00'"],
    "datetime(3)": ["'2024-02-29 12:00:00.123'", "'2024-02-29 12:00:00'"],
    "datetime(6)": ["'2024-02-29 12:00:00.000001'", "'1000-01-01 00:00:00.999999'"],
    "timestamp NULL": ["'1970-01-01 00:00:01'", "'2038-01-19 03:14:07'", "'0000-00-00'", "'2024-02-29 12:00:00'"],
    "timestamp(2) NULL": ["'2024-02-29 12:00:00.12'", "'0000-00-00'"],
    "timestamp(5) NULL": ["'2024-02-29 12:00:00.12345'"],
    "timestamp(6) NULL": ["'2038-01-19 03:14:07.999999'"],
    "time": ["'00:00:00'", "'838:59:59'", "'-838:59:59'", "'-00:00:01'", "'12:34:56'"],
    "time(1)": ["'00:00:00.1'", "'-00:00:00.1'", "'-12:34:56.9'", "'100:00:00.5'"],
    "time(2)": ["'-00:00:01.01'", "'-01:00:00'", "'838:59:59.99'"],
    "time(3)": ["'-00:00:00.001'", "'12:00:00.120'"],
    "time(4)": ["'-23:59:59.9999'"],
    "time(6)": ["'838:59:59.999999'", "'-838:59:59.999999'", "'-00:00:00.000001'", "'-00:00:01'"],
    "json": ["'null'", '\'{"b": 1, "a": [1.50, "ü"]}\'', "'[ ]'"],
    "uuid": [
        "'123e4567-e89b-12d3-a456-426655440000'",
        "'00000000-0000-0000-0000-000000000000'",
        "'ffffffff-ffff-ffff-ffff-ffffffffffff'",
        "'01890a5d-ac96-774b-bcce-b302099a8057'",
        "'01890a5d-ac96-174b-8cce-b302099a8000'",
    ],
    "inet4": ["'0.0.0.0'", "'1.2.3.0'", "'255.255.255.255'"],
    "inet6": [
        "'::'",
        "'::1'",
        "'::ffff:1.2.3.4'",
        "'::1.2.3.4'",
        "'2001:db8::8:800:200c:417a'",
        "'1:0:2:0:0:3:0:0'",
        "'1:2:3:4:5:6:7:0'",
        "'0:1:2:3:4:5:6:7'",
        "'1:0:3:4:5:6:7:8'",
        "'fe80::'",
        "'::1:2'",
        "'::ffff:0:1'",
        "'0:0:0:0:1::'",
        "'1:0:0:2:0:0:0:3'",
        "'::1:0:0'",
        "'::ffff:ffff'",
        "'0:0:1:0:0:0:0:0'",
    ],
    "point": ["POINT(1,2)"],
    "geometry": ["ST_GeomFromText('LINESTRING(0 0,1 1)')", "ST_GeomFromText('POINT(1 2)', 4326)"],
}


def _lookup(stream: BinlogStream, table: str) -> list[ChangedRow]:
    """The rows of a table as lookups read them: text protocol, the pinned session."""
    ((name, layout),) = [(n, lay) for n, lay in stream.layouts.items() if n == stream.name(table)]
    columns = []
    for column, kind in zip(layout.columns, layout.column_types, strict=True):
        columns.append({"float": f"CAST(`{column}` AS DOUBLE)", "bit": f"`{column}` + 0"}.get(kind.name, f"`{column}`"))
    with closing(stream.database.connect(conv={})) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00', sql_mode = ''")
        cursor.execute(f"SELECT {', '.join(columns)} FROM {name} ORDER BY id")
        readers = [lookup_reader(kind) for kind in layout.column_types]
        return [
            tuple(None if v is None else read(v) for v, read in zip(row, readers, strict=True))
            for row in cursor.fetchall()
        ]


def _fill(database: MariaDatabase, definition: str, literals: list[str]) -> None:
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        # In another zone than lookups, and with dates that are none.
        cursor.execute("SET time_zone = '+05:30', sql_mode = ''")
        cursor.execute(f"CREATE TABLE t (id int PRIMARY KEY, v {definition}) ENGINE=InnoDB CHARACTER SET utf8mb4")
        values = ", ".join(f"({i}, {literal})" for i, literal in enumerate([*literals, "NULL"]))
        cursor.execute("CREATE TABLE filled LIKE t")
        cursor.execute(f"INSERT INTO filled VALUES {values}")


async def _parity(database: MariaDatabase) -> list[tuple[Any, Any]]:
    async with following(database, "t") as stream:
        database.execute("INSERT INTO t SELECT * FROM filled")
        (((removed, added)),) = await stream.changes("t")
        assert removed == []
        looked_up = _lookup(stream, "t")
        assert sorted(added, key=lambda row: int(row[0])) == looked_up
        database.execute("UPDATE t SET id = id + 1000")
        (((removed, added)),) = await stream.changes("t")
        assert sorted(removed, key=lambda row: int(row[0])) == looked_up
        assert stream.notices == []
        return looked_up


@pytest.mark.parametrize("definition", TYPES)
def test_a_value_has_one_text(mariadb: MariaDatabase, definition: str) -> None:
    """From the stream, as an old row and a new one, and from a lookup."""
    _fill(mariadb, definition, TYPES[definition])
    rows = run(_parity(mariadb))
    assert len(rows) == len(TYPES[definition]) + 1
    assert rows[-1][1] is None


@pytest.mark.parametrize(
    ("definition", "literals", "texts"),
    [
        ("float", ["0.1", "1e6", "16777217"], ["0.1", "1000000", "16777216"]),
        ("decimal(12,4) unsigned zerofill", ["0.5"], ["0.5000"]),
        ("year", ["0", "2024"], ["0", "2024"]),
        ("bit(12)", ["b'101'"], ["5"]),
        ("binary(4)", ["x'61'"], ["\\x61000000"]),
        ("set('b','a')", ["'a,b'", "''"], ["b,a", ""]),
        ("enum('x')", ["0", "'x'"], ["", "x"]),
        ("date", ["'2024-00-10'"], ["2024-00-10"]),
        ("time(2)", ["'-00:00:01.01'"], ["-00:00:01.01"]),
        ("timestamp(2) NULL", ["'2024-02-29 12:00:00.5'"], ["2024-02-29 06:30:00.50"]),
        ("char(5)", ["'a  '"], ["a"]),
        ("int(6) zerofill", ["42"], ["42"]),
    ],
)
def test_texts(mariadb: MariaDatabase, definition: str, literals: list[str], texts: list[str]) -> None:
    _fill(mariadb, definition, literals)
    assert [row[1] for row in run(_parity(mariadb))] == [*texts, None]


#: Texts of characters that a character set has, by 16, and of Unicode every 11th.
_CHARACTERS = """
SET STATEMENT sql_mode = '', group_concat_max_len = 100000 FOR INSERT INTO t
SELECT seq DIV 16, GROUP_CONCAT(c ORDER BY seq SEPARATOR ''), 1 + seq DIV 16 % 2 FROM (
    SELECT {number} AS seq, CONVERT(CHAR({number} USING utf32) USING utf8mb4) AS c FROM seq_1_to_65535) AS all_of_them
WHERE (seq < 55296 OR seq > 57343) AND CONVERT(CONVERT(c USING {charset}) USING utf8mb4) = c COLLATE utf8mb4_bin
GROUP BY seq DIV 16
"""


@pytest.mark.parametrize("charset", sorted(KNOWN - {"utf8", "gb18030"}))
def test_all_characters_of_a_character_set(mariadb: MariaDatabase, charset: str) -> None:
    """Values are those that lookups read, in UTF-8."""
    mariadb.execute(
        f"CREATE TABLE t (id int PRIMARY KEY, v varchar(200) CHARACTER SET {charset},"
        " e enum('ä', 'b') CHARACTER SET latin1)"
    )
    number = "seq * 11" if charset.startswith("utf") else "seq"

    async def check() -> None:
        async with following(mariadb, "t") as stream:
            mariadb.execute(_CHARACTERS.format(number=number, charset=charset))
            ((_, added),) = await stream.changes("t")
            assert len(added) > 5
            assert sorted(added, key=lambda row: int(row[0] or "")) == _lookup(stream, "t")

    run(check())


def test_unknown_character_sets(mariadb: MariaDatabase) -> None:
    """Character sets that are not decoded are known."""
    rows = mariadb.query("SELECT character_set_name FROM information_schema.character_sets")
    assert {name for (name,) in rows} - KNOWN == {"binary", "big5", "eucjpms", "swe7", "ujis"}
    assert undecodable(ColumnType("varchar", charset="big5")) is not None
    assert undecodable(ColumnType("varchar", charset="latin1")) is None
