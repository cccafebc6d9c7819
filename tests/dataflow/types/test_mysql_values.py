"""Values of MariaDB's own types against the server: every type, every pair of awkward values."""

from dataclasses import replace
from itertools import product

import pytest

from dataflow.collations import Collation
from dataflow.functions.comparison import comparison_forms
from dataflow.schema import SqlType
from dataflow.types import labels
from dataflow.types.addresses import INET4, INET6
from dataflow.types.documents import MARIADB_DOCUMENT, MARIADB_JSON, MYSQL_JSON
from dataflow.types.integers import UINT8
from dataflow.types.mysql_dates import DATE, DATETIME, TIME, TIMESTAMP
from dataflow.types.scalars import MYSQL_UUID
from tests.fixtures.mariadb import MariaDatabase

#: As a case-insensitive collation compares letters, spaces and commas.
LETTERS = {c: (c.upper().encode()[0] + 1).to_bytes(2, "big") for c in map(chr, range(32, 127))}
CI = Collation("latin1_general_ci", {ord(c): w for c, w in LETTERS.items()}, pad_space=True)


def base(name: str, sql: str, **other: object) -> SqlType:
    return replace(SqlType(name, sql), **other)  # type: ignore[arg-type]


_LABELS = ("zeta", "alpha", "Mid", "b")
ENUM = SqlType(
    labels.ENUM, "enum('zeta','alpha','Mid','b')", kind="enum", labels=_LABELS, collation=CI.name, weights=CI
)
SET = base(labels.SET, "set('zeta','alpha','Mid','b')", labels=_LABELS, collation=CI.name, weights=CI)

#: Literals of each type, in several spellings.
VALUES: dict[SqlType, tuple[str, ...]] = {
    base("int2", "year"): ("1901", "2024", "2155"),
    base(UINT8, "bigint unsigned"): ("0", "1", "10", "9", "9223372036854775808", "18446744073709551615"),
    base("numeric", "decimal(20,4)"): ("0", "-0.0001", "1.5", "1.50", "-1.5", "9999999999999999.9999", "1e3"),
    base(DATE, "date"): ("0000-00-00", "2024-00-00", "2024-01-00", "2024-02-29", "2024-03-01", "9999-12-31"),
    base(DATETIME, "datetime"): (
        "0000-00-00",
        "2024-02-29",
        "2024-02-29 00:00:01",
        "2024-02-29T10:00",
        "9999-12-31 23:59:59",
        "0001-01-01",
    ),
    base(DATETIME, "datetime(3)"): (
        "0000-00-00 00:00:00",
        "2024-02-29 00:00:00.1",
        "2024-02-29 00:00:00.099",
        "2024-02-29 00:00:00.100",
        "2024-02-29",
        "9999-12-31 23:59:59.999",
    ),
    base(TIMESTAMP, "timestamp(6)"): (
        "1970-01-01 00:00:01",
        "2024-02-29 10:00:00.5",
        "2024-02-29 10:00:00.50",
        "2038-01-19 03:14:07.999999",
    ),
    base(TIME, "time"): ("00:00:00", "-00:00:01", "00:00:01", "10:00", "-838:59:59", "838:59:59", "100:00:00"),
    base(TIME, "time(3)"): ("00:00:00", "-0:00:00.5", "-0:00:00.25", "00:00:00.250", "838:59:59.999"),
    ENUM: ("", "zeta", "ALPHA", "Mid", "b", "mid "),
    SET: ("", "zeta", "alpha", "zeta,alpha", "alpha,Mid,b", "MID", "zeta,b", "b"),
    base(INET4, "inet4"): ("0.0.0.0", "9.255.1.1", "10.0.0.1", "192.0.2.1", "255.255.255.255"),
    base(INET6, "inet6"): (
        "::",
        "::1",
        "::ffff:1.2.3.4",
        "::1.2.3.4",
        "FE80::1",
        "1:0:0:2:0:0:0:3",
        "1:2:3:4:5:6:7:0",
        "0:0:1::",
        "2001:0db8:0000::1",
    ),
    base(MARIADB_JSON, "longtext COLLATE utf8mb4_nopad_bin"): ('{"a": 1}', '{"a":1}', "[]", "[] ", '"\u00e9"', "null"),
    base(MYSQL_UUID, "uuid"): (
        "00000000-0000-0000-0000-000000000000",
        "6BA7B810-9dad-11d1-80b4-00c04fd430c8",
        "018f0000-0000-7000-8000-000000000000",
        "ffffffffffffffffffffffffffffffff",
    ),
    base("bytea", "varbinary(10)"): (r"\x", r"\x00", r"\x0001", r"\x01", r"\xff", r"\xFF00", r"\x20"),
}
TYPES = pytest.mark.parametrize("sql_type", VALUES, ids=lambda t: t.sql)


def column(sql_type: SqlType) -> str:
    collation = " CHARACTER SET latin1 COLLATE latin1_general_ci" if sql_type.weights else ""
    return f"v {sql_type.sql}{collation}"


def literal(sql_type: SqlType, text: str) -> str:
    return f"x'{text[2:]}'" if sql_type.name == "bytea" else f"'{text}'"


@pytest.fixture
def printed(mariadb: MariaDatabase, sql_type: SqlType) -> list[str]:
    """The type's values as the server prints them."""
    time_zone, lax = "SET time_zone = '+00:00'", "SET sql_mode = ''"
    with mariadb.connect(init_command=time_zone) as connection, connection.cursor() as cursor:
        cursor.execute(lax)
        cursor.execute(f"CREATE TABLE v (n int AUTO_INCREMENT PRIMARY KEY, {column(sql_type)})")
        for text in VALUES[sql_type]:
            cursor.execute(f"INSERT INTO v (v) VALUES ({literal(sql_type, text)})")
        shown = "CONCAT('\\\\x', LOWER(HEX(v)))" if sql_type.name == "bytea" else "CONCAT(v)"
        cursor.execute(f"SELECT {shown} FROM v ORDER BY n")
        texts = [text for (text,) in cursor.fetchall()]
    return [str(int(text)) for text in texts] if sql_type.sql == "year" else texts


@TYPES
def test_values_compare_as_the_server_says(mariadb: MariaDatabase, sql_type: SqlType, printed: list[str]) -> None:
    form = sql_type.normal_form or str
    answers = mariadb.query("SELECT a.v = b.v, a.v < b.v FROM v a CROSS JOIN v b ORDER BY a.n, b.n")
    assert sql_type.comparable
    less_form = None if sql_type.name == MYSQL_UUID else sql_type.compared_form
    for (a, b), (equal, less) in zip(product(printed, printed), answers, strict=True):
        assert (form(a) == form(b)) == equal, (a, b)
        assert not sql_type.one_text or not equal or a == b
        if less_form is not None:
            assert (less_form(a) < less_form(b)) == less, (a, b)
            one, other = (f or str for f in comparison_forms("<", sql_type, sql_type))
            assert (one(a) < other(b)) == less, (a, b)


@TYPES
def test_order_forms_sort_as_the_server_does(mariadb: MariaDatabase, sql_type: SqlType, printed: list[str]) -> None:
    if not sql_type.orderable:
        pytest.skip("not orderable")
    order, back = sql_type.order_form, sql_type.order_text
    by_server = [printed[n - 1] for (n,) in mariadb.query("SELECT n FROM v ORDER BY v, n")]
    assert [order(text) for text in by_server] == sorted(order(text) for text in printed)
    for a, b in product(printed, printed):
        assert order(a) == order(b) or not order(b).startswith(order(a))
    for text in printed:
        found, length = back(order(text) + b"\1more")
        assert (order(found), length) == (order(text), len(order(text)))


@TYPES
def test_parameters_are_what_the_server_prints(sql_type: SqlType, printed: list[str]) -> None:
    form = sql_type.normal_form or str
    for given, text in zip(VALUES[sql_type], printed, strict=True):
        assert form(sql_type.parse(given)) == form(text), given


@TYPES
def test_normal_forms_are_literals_of_the_same_value(
    mariadb: MariaDatabase, sql_type: SqlType, printed: list[str]
) -> None:
    form = sql_type.normal_form or str
    for n, text in enumerate(printed, 1):
        assert mariadb.query(f"SELECT v = {literal(sql_type, form(text))} FROM v WHERE n = {n}") == [(1,)], text


@pytest.mark.parametrize(
    ("sql_type", "text"),
    [
        (base(UINT8, "bigint unsigned"), "-1"),
        (base(UINT8, "bigint unsigned"), "18446744073709551616"),
        (base("int2", "year"), "24"),
        (base("numeric", "decimal(10,2)"), "NaN"),
        (base("float8", "double"), "Infinity"),
        (base("float4", "float"), "nan"),
        (base(DATE, "date"), "2023-02-29"),
        (base(DATE, "date"), "2024-13-01"),
        (base(DATE, "date"), "24-01-01"),
        (base(DATETIME, "datetime"), "2024-01-01 24:00:00"),
        (base(DATETIME, "datetime"), "2024-01-01T10:00:00Z"),
        (base(TIMESTAMP, "timestamp"), "2024-01-01 10:00:00-0800"),
        (base(TIMESTAMP, "timestamp"), "2024-01-01T00:30:00+01:00"),
        (base(TIME, "time"), "839:00:00"),
        (base(TIME, "time"), "10"),
        (ENUM, "none"),
        (SET, "alpha,zeta"),
        (SET, "alpha,alpha"),
        (SET, "none"),
        (SET, ","),
        (base(INET4, "inet4"), "1.2.3"),
        (base(INET6, "inet6"), "fe80::1%eth0"),
        (base(INET6, "inet6"), "1.2.3.4"),
        (base(MYSQL_UUID, "uuid"), "1234"),
    ],
)
def test_ill_typed_parameters_are_refused(sql_type: SqlType, text: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        sql_type.parse(text)


@pytest.mark.parametrize(
    ("sql_type", "text", "expected"),
    [
        (base(TIMESTAMP, "timestamp(3)"), "2024-01-01T00:30:00.5Z", "2024-01-01 00:30:00.500"),
        (base(DATETIME, "datetime"), "2024-01-01 00:30:00.500", "2024-01-01 00:30:00.5"),
        (base(TIME, "time(2)"), "-1:00", "-01:00:00.00"),
        (base(TIME, "time"), "-0:00:00", "00:00:00"),
        (ENUM, "ZETA", "zeta"),
        (SET, "ZETA,mid ", "zeta,Mid"),
        (base("text", "text", collation=CI.name, weights=CI), "As Is ", "As Is "),
    ],
)
def test_parameters_in_other_spellings(sql_type: SqlType, text: str, expected: str) -> None:
    assert sql_type.parse(text) == expected


def test_text_of_other_character_sets_is_refused() -> None:
    one_byte = Collation("latin1_x", {ord(" "): b"\1", ord("é"): b"\2"}, pad_space=True, unit_bytes=1)
    first_plane = Collation.binary("utf8mb3_bin", pad_space=True)
    for weights, good, bad in ((one_byte, "é", "ł"), (first_plane, "ł日", "😀")):
        text = base("varchar", "varchar", collation=weights.name, weights=weights)
        assert text.parse(good) == good
        with pytest.raises(ValueError, match=f"character set {weights.charset} is expected"):
            text.parse(bad)


def test_families() -> None:
    text = base("text", "text", collation=CI.name, weights=CI)
    assert text.family == replace(text, name="varchar", sql="varchar").family
    assert text.family != base("text", "text").family
    assert base(UINT8, "bigint unsigned").family == base("int2", "tinyint").family
    assert base(DATETIME, "datetime").family == base(DATETIME, "datetime(3)").family
    assert SET.family != replace(SET, sql="set('zeta')", labels=("zeta",)).family


def test_what_is_not_known_is_not_guessed() -> None:
    unknown = base("text", "text", collation="nondeterministic")
    assert not unknown.comparable
    assert not unknown.orderable
    assert not base(MYSQL_UUID, "uuid").orderable
    # The empty text may be the label, or no label.
    assert not replace(ENUM, labels=("", "a")).orderable
    assert not SqlType(MYSQL_JSON, "json", "other").comparable
    assert not SqlType(MARIADB_DOCUMENT, "json").comparable
    with pytest.raises(ValueError, match="not known"):
        _ = replace(ENUM, weights=None, collation="nondeterministic").compared_form
