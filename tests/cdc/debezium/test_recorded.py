"""Real events become the transactions that made them, with the texts that the database prints."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cdc.change import UNKNOWN, ChangedRow, CommittedTransaction, SchemaNotice, TableChange, TableLayout
from cdc.column_type import ColumnType
from cdc.debezium.assembler import DebeziumAssembler
from cdc.debezium.envelope import RecordDecoder
from cdc.debezium.modes import Modes
from cdc.mysql.position import BinlogSnapshot, position_of
from cdc.mysql.values import lookup_reader
from cdc.postgres.position import PostgresSnapshot
from tests.cdc.debezium.record import TYPES

RECORDED = Path(__file__).parent / "recorded"
LABELS = {"t_enum": ("small", "big", "a,b"), "t_set": ("x", "y", "z"), "e": ("x", "y"), "st": ("a", "b", "c")}


def table(**kinds: ColumnType) -> TableLayout:
    return TableLayout(tuple(kinds), column_types=tuple(kinds.values()))


INT4, TEXT = ColumnType("int4"), ColumnType("text")
POSTGRES = {
    "shop.types": table(
        id=ColumnType("int8"),
        n=ColumnType("numeric", precision=12, scale=2),
        nbig=ColumnType("numeric"),
        d=ColumnType("float8"),
        r=ColumnType("float4"),
        u=ColumnType("uuid"),
        j=ColumnType("json"),
        jb=ColumnType("jsonb"),
        ts=ColumnType("timestamptz", precision=6),
        tsn=ColumnType("timestamp", precision=6),
        dt=ColumnType("date"),
        tm=ColumnType("time", precision=6),
        tmz=ColumnType("timetz", precision=6),
        iv=ColumnType("interval", precision=6),
        ia=ColumnType("_int4", element=INT4),
        ta=ColumnType("_text", element=TEXT),
        na=ColumnType("_numeric", element=ColumnType("numeric")),
        b=ColumnType("bool"),
        by=ColumnType("bytea"),
        s=INT4,
        m=ColumnType("money"),
        ip=ColumnType("inet"),
        mo=ColumnType("mood", labels=("sad", "happy")),
        rng=ColumnType("int4range"),
    ),
    "shop.docs": table(id=INT4, title=TEXT, body=TEXT),
    "shop.nopk": table(a=INT4, b=TEXT),
    "shop.defident": table(id=INT4, a=TEXT, b=TEXT),
}
INT, VARCHAR = ColumnType("int"), ColumnType("varchar", charset="utf8mb4")
MYSQL = {
    "d.types": table(
        id=ColumnType("bigint"),
        n=ColumnType("decimal", precision=12, scale=2),
        d=ColumnType("double"),
        r=ColumnType("float"),
        j=ColumnType("longtext", charset="utf8mb4"),
        ts=ColumnType("timestamp", precision=6),
        dt=ColumnType("datetime", precision=6),
        da=ColumnType("date"),
        tm=ColumnType("time", precision=3),
        y=ColumnType("year"),
        b=ColumnType("bit", length=3),
        by1=ColumnType("varbinary", length=16),
        e=ColumnType("enum", labels=("x", "y")),
        st=ColumnType("set", labels=("a", "b", "c")),
        bu=ColumnType("bigint", unsigned=True),
        bo=ColumnType("tinyint"),
        tx=ColumnType("text", charset="utf8mb4"),
    ),
    "d.docs": table(id=INT, title=VARCHAR),
    "d.nopk": table(a=INT, b=VARCHAR),
}


def lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (RECORDED / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


def read(
    name: str, layouts: dict[str, TableLayout], snapshot: PostgresSnapshot | BinlogSnapshot, modes: Modes
) -> tuple[list[CommittedTransaction], list[SchemaNotice]]:
    """All transactions of a recording, snapshots left out."""
    assembler = DebeziumAssembler(snapshot, modes)
    reader = RecordDecoder(assembler.database)
    new, _ = assembler.follow(layouts)
    assembler.reading(new, 0, 0.0)
    taken: list[CommittedTransaction] = []
    for offset, line in enumerate(lines(name)):
        if "topic" not in line or (line["value"] or {}).get("op") == "r":
            continue
        key, value = (None if line[part] is None else json.dumps(line[part]).encode() for part in ("key", "value"))
        event = reader.read(line["topic"], 0, offset, key, value)
        if event is not None:
            assembler.add(event, offset, 0.0)
        taken += assembler.take(1000)
    assembler.settle()
    return taken + assembler.take(1000), assembler.take_notices()


# ── PostgreSQL ───────────────────────────────────────────────────────────────────────────────────────────────────────

ROW: ChangedRow = (
    "1",
    "12.50",
    "123456789012345678901234567890.123456789",
    "1.5",
    "2.25",
    "123e4567-e89b-12d3-a456-426655440000",
    '{"a": 1}',
    '{"b": [1, 2]}',
    "2026-01-02 01:04:05.678901+00",
    "2026-01-02 03:04:05.678901",
    "2026-01-02",
    "03:04:05.678",
    None,
    "1 mon 2 days 03:04:05",
    "{1,2,NULL}",
    '{x,"y z",NULL}',
    "{1.5,2.25}",
    "t",
    "\\xdeadbeef",
    "7",
    "$12.34",
    "10.0.0.1",
    "happy",
    "[1,5)",
)


def changed(row: ChangedRow, **columns: str | None) -> ChangedRow:
    names = POSTGRES["shop.types"].columns
    return tuple(columns.get(name, value) for name, value in zip(names, row, strict=True))


def test_postgres_with_full_identity() -> None:
    """Modes that say everything: rows as PostgreSQL prints them, key changes whole; a time's zone is not told."""
    snapshot = PostgresSnapshot(2113, 2113)
    taken, notices = read("postgres-full-string", POSTGRES, snapshot, Modes(binary="hex"))
    second = changed(ROW, n="13.00", d="NaN", ts="infinity")
    types = [t.tables["shop.types"] for t in taken if "shop.types" in t.tables]
    assert types == [
        TableChange([], [ROW]),
        TableChange([ROW], [second]),
        TableChange([second], [changed(second, id="2")]),
        TableChange([changed(second, id="2")], []),
    ]
    (notice,) = notices
    assert notice.columns == ("tmz",)
    assert "time with time zone" in notice.reason


def test_postgres_transactions() -> None:
    """Ids, ends and order are the transactions'; rows that come and go in one cancel out; TRUNCATE is of two tables."""
    taken, _ = read("postgres-full-string", POSTGRES, PostgresSnapshot(2120, 2120), Modes(binary="hex"))
    assert taken == [
        CommittedTransaction(2121, 223762424, {"shop.defident": TableChange([], [("1", "a", "z")])}),
        CommittedTransaction(
            2123,
            223769176,
            {"shop.docs": TableChange(truncated=True), "shop.defident": TableChange(truncated=True)},
        ),
        CommittedTransaction(2124, 223769288, {"shop.nopk": TableChange([], [("100", "lat")])}),
        CommittedTransaction(2125, 223769400, {"shop.nopk": TableChange([], [("101", "lat")])}),
    ]


def test_a_large_value_that_was_not_sent_is_the_old_one() -> None:
    """TOAST."""
    taken, _ = read("postgres-full-string", POSTGRES, PostgresSnapshot(2118, 2118), Modes())
    change = taken[0].tables["shop.docs"]
    assert change.added[0][1] == "only title"
    assert change.added[0][2] == change.removed[0][2] != "__debezium_unavailable_value"


def test_default_identity_never_makes_whole_rows() -> None:
    """Updates without the old row, and deletes with its key only, overflow where the catalog says FULL."""
    modes = Modes(time_precision="adaptive", binary="bytes")
    taken, notices = read("postgres-default", POSTGRES, PostgresSnapshot(2067, 2067), modes)
    by_xid = {t.id: t.tables for t in taken}
    inserted = by_xid[2067]["shop.types"]
    assert inserted == TableChange([], [changed(ROW, iv=None, nbig=None, na=None)])
    for xid in (2068, 2069, 2070):
        assert by_xid[xid] == {"shop.types": TableChange(overflow=True)}
    assert by_xid[2073] == {"shop.docs": TableChange(overflow=True)}
    reasons = [n.reason for n in notices if n.table == "shop.docs"]
    assert reasons
    assert "another replica identity" in reasons[0]
    assert any("interval.handling.mode=string" in n.reason for n in notices if n.table == "shop.types")


def test_default_identity() -> None:
    """Old rows have the key; a large value that was not sent is unknown; a key change is a delete and an insert."""
    modes = Modes(time_precision="adaptive", binary="bytes")
    layouts = {name: replace(layout, key=(0,)) for name, layout in POSTGRES.items() if name != "shop.nopk"}
    taken, notices = read("postgres-default", layouts, PostgresSnapshot(2067, 2067), modes)
    assert not [n for n in notices if not n.columns]
    types = [t.tables["shop.types"] for t in taken if "shop.types" in t.tables]
    assert [(len(c.added), len(c.partial)) for c in types] == [(1, 0), (0, 1), (1, 1), (0, 1)]
    rest = (UNKNOWN,) * (len(ROW) - 1)
    ((before, after),) = types[1].partial
    assert before == ("1", *rest)
    assert after is not None
    assert after[:2] == ("1", "13.00")
    assert types[2].partial == [(("1", *rest), None)]
    assert types[2].added[0][0] == "2"
    assert types[3].partial == [(("2", *rest), None)]
    docs = [image for t in taken if "shop.docs" in t.tables for image in t.tables["shop.docs"].partial]
    assert any(after is not None and after[2] is UNKNOWN for _, after in docs), docs
    assert "__debezium_unavailable_value" not in str(taken)


def test_units_that_are_not_stated_are_refused() -> None:
    """A column whose form is not known is left out, with the setting that would tell."""
    _, notices = read("postgres-default", POSTGRES, PostgresSnapshot(2067, 2067), Modes())
    last = [n for n in notices if n.table == "shop.types" and n.columns][-1]
    assert last.unreadable
    assert {"tsn", "tm"} <= set(last.columns)
    assert "cdc.kafka.time_precision_mode" in last.reason


# ── MariaDB, MySQL ───────────────────────────────────────────────────────────────────────────────────────────────────


def test_mysql_connector() -> None:
    """File and offset are the transactions' names; TRUNCATE is in none, and comes at its place."""
    modes = Modes(time_precision="adaptive_time_microseconds", binary="bytes")
    taken, notices = read("mysql-connector-on-mariadb", MYSQL, BinlogSnapshot(position_of("b.6", 3442)), modes)
    assert not notices
    first = (
        "1",
        "12.50",
        "1.5",
        "2.25",
        '{"a": 1}',
        "2026-01-02 03:04:05.678901",
        "2026-01-02 03:04:05.678901",
        "2026-01-02",
        "03:04:05.678",
        "2026",
        "5",
        "\\xdeadbeef",
        "y",
        "a,c",
        "18446744073709551615",
        "1",
        "text",
    )
    assert taken[0] == CommittedTransaction(
        position_of("b.6", 3870), position_of("b.6", 3870), {"d.types": TableChange([], [first])}
    )
    told = [(t.end & 0xFFFFFF, *t.tables) for t in taken]
    assert told == [
        (3870, "d.types"),
        (4278, "d.types"),
        (4777, "d.types"),
        (5272, "d.types"),
        (5769, "d.docs"),
        (6002, "d.nopk"),
        (6218, "d.nopk"),
        (6437, "d.nopk"),
        (6550, "d.docs"),
        (6944, "d.nopk"),
    ]
    assert taken[4].tables["d.docs"] == TableChange([], [("3", "b"), ("2", "z")])
    assert taken[8].tables["d.docs"] == TableChange(truncated=True)


def kind_of(name: str, declared: str) -> ColumnType:
    """The type of a column of the recorded table `kinds`."""
    word, _, rest = declared.replace(" null", "").partition("(")
    numbers = [int(n) for n in rest.partition(")")[0].split(",") if n.isdecimal()]
    word = {"boolean": "tinyint", "json": "longtext"}.get(word, word).partition(" ")[0]
    timed = word in ("datetime", "timestamp", "time")
    return ColumnType(
        word,
        length=numbers[0] if numbers and not timed and word != "decimal" else 0,
        precision=numbers[0] if numbers and (timed or word == "decimal") else 0,
        scale=numbers[1] if len(numbers) > 1 and word == "decimal" else 0,
        unsigned="unsigned" in declared,
        labels=LABELS.get(name, ()),
        charset="utf8mb4" if word in ("char", "varchar", "longtext") else "",
    )


KINDS = {name: kind_of(name, declared) for name, declared, _ in TYPES}
#: Values that no connector carries (docs/kafka.md), by the server's text.
NOT_TOLD = {
    "t_date": {"0000-00-00", "2024-02-00"},
    "t_datetime": {"0000-00-00 00:00:00"},
}
#: The server's own texts of floats have six digits; lookups ask for doubles.
SHORTENED = {"16777200", "-3.40282e+38"}
ADJUSTED = {"t_date": {"0001-01-01"}, "t_datetime": {"0001-01-01 00:00:00"}}


def printed(rows: list[dict[str, str | None]]) -> Iterator[tuple[str, str, str | None]]:
    """Row, column and text of what the server printed."""
    for row in rows:
        for name, value in row.items():
            if name != "id":
                data = None if value is None else bytes.fromhex(value[2:]) if value[:2] == "\\x" else value.encode()
                yield row["id"] or "", name, None if data is None else lookup_text(name, data)


def lookup_text(name: str, data: bytes) -> str:
    """Return the column as a lookup selects it: bits as numbers, floats with all digits."""
    kind = KINDS[name]
    if kind.name == "bit":
        return str(int.from_bytes(data, "big"))
    return lookup_reader(kind)(data)


@pytest.mark.parametrize("name", ["mariadb-default", "mariadb-exact", "mariadb-isostring", "mariadb-connect-time"])
def test_every_type_of_mariadb(name: str) -> None:
    """Each value is the text of a lookup, or its column is named as one that is not told; no third."""
    mode = {"mariadb-isostring": "isostring", "mariadb-connect-time": "connect"}.get(name, "adaptive_time_microseconds")
    database = name.replace("-", "_")
    layouts = {f"{database}.kinds": table(id=INT, **KINDS)}
    first, *_ = lines(name)
    binary = "hex" if name == "mariadb-exact" else "bytes"
    for modes in (Modes(time_precision=mode, binary=binary), Modes(binary=binary)):
        taken, notices = read(name, layouts, BinlogSnapshot(0), modes)
        untold = {column for notice in notices for column in notice.columns}
        rows = {}
        for t in taken:
            change = t.tables.get(f"{database}.kinds")
            if change is not None and not change.removed:
                rows |= {row[0]: dict(zip(("id", *KINDS), row, strict=True)) for row in change.added}
        wrong = []
        for row, column, text in printed(first["rows"]):
            if column in untold or (column == "t_float" and text in SHORTENED):
                continue
            if text in NOT_TOLD.get(column, ()) or (name != "mariadb-exact" and text in ADJUSTED.get(column, ())):
                continue
            if rows[row][column] != text:
                wrong.append((row, column, text, rows[row][column]))
        assert not wrong
        if name == "mariadb-exact" and modes.time_precision:
            assert untold == {"t_uuid"}
