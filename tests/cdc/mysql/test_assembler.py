"""The assembler on bytes: a recorded file of MariaDB's log, and MySQL's events as its documentation has them."""

import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from struct import pack, unpack_from
from typing import Any

import pytest

from cdc.change import CommittedTransaction, StreamLost, TableChange, TableLayout
from cdc.column_type import ColumnType
from cdc.gtid import parse_gtid
from cdc.mysql import events
from cdc.mysql.assembler import BinlogAssembler, MalformedLog
from cdc.mysql.position import position_of

RECORDED = Path(__file__).parents[1] / "recorded" / "mariadb-binlog.bin"
TEXT = ColumnType("varchar", length=20, charset="utf8mb4")
ITEMS = TableLayout(
    ("id", "name", "price", "kind"),
    column_types=(
        ColumnType("int"),
        TEXT,
        ColumnType("decimal", precision=10, scale=2),
        ColumnType("enum", labels=("a", "b"), charset="utf8mb4"),
    ),
    since=position_of("binlog.000001", 996),
)
PLAIN = TableLayout(("id",), column_types=(ColumnType("int"),), since=ITEMS.since)
UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


def recorded() -> list[bytes]:
    """The file's events."""
    data = RECORDED.read_bytes()
    found, at = [], 4
    while at < len(data):
        size = unpack_from("<I", data, at + 9)[0]
        found.append(data[at : at + size])
        at += size
    return found


def feed(assembler: BinlogAssembler, log: list[bytes]) -> list[CommittedTransaction]:
    """The transactions of some events."""
    found = (assembler.feed(event, 0, len(event)) for event in log)
    return [transaction for transaction in found if transaction is not None]


def following(layouts: dict[str, TableLayout], **options: Any) -> BinlogAssembler:
    """An assembler at the log's beginning."""
    assembler = BinlogAssembler("binlog.000001", 4, **{"max_transaction_rows": 1000, **options})
    assembler.follow(layouts)
    return assembler


def changes(transactions: list[CommittedTransaction], table: str) -> list[TableChange]:
    """Return the changes of a table."""
    return [t.tables[table] for t in transactions if table in t.tables]


def test_a_recorded_log() -> None:
    """Every kind of transaction that a server of MariaDB writes."""
    assembler = following({"shop.items": ITEMS, "shop.plain": PLAIN})
    found = feed(assembler, recorded())
    b, bigger = ("2", "B", None, None), ("1", "ä", "2.50", "a")
    assert changes(found, "shop.items") == [
        TableChange([], [("1", "ä", "1.50", "a"), ("2", None, None, None)]),
        TableChange([("1", "ä", "1.50", "a")], [bigger]),
        TableChange([("2", None, None, None)], [b]),
        TableChange([], [("4", "d", "4.00", "b")]),
        TableChange([], [("6", "f", "6.00", "b")]),
        TableChange([bigger], []),
        TableChange([], [("9", "z" * 20, "9.00", "a")]),
        TableChange(truncated=True),
        TableChange([], [("10", "k", "10.00", None)]),
    ]
    assert changes(found, "shop.plain") == [TableChange([], [("7",)]), TableChange([], [("8",)])]
    # The prepared transaction counts where it is committed.
    assert [list(t.tables) for t in found][4:7] == [["shop.plain"], ["shop.plain"], ["shop.items"]]
    assert [(notice.table, notice.columns) for notice in assembler.take_notices()] == [
        ("shop.items", ("kind",)),
        ("shop.items", ()),
    ]
    ends = [t.end for t in found]
    assert ends == sorted(set(ends)) == [t.id for t in found]
    assert assembler.position == position_of("binlog.000002", 4)


def test_rows_above_the_limit() -> None:
    """Only the tables are named, for that transaction."""
    found = feed(following({"shop.items": ITEMS}, max_transaction_rows=1), recorded())
    assert changes(found, "shop.items")[0] == TableChange(overflow=True)
    assert changes(found, "shop.items")[3].added == [("4", "d", "4.00", "b")]


def test_a_new_connection_anywhere() -> None:
    """Events of the open transaction come again; each transaction is delivered once."""
    log = recorded()
    whole = feed(following({"shop.items": ITEMS, "shop.plain": PLAIN}), log)
    for cut in range(2, len(log) - 1):
        assembler = following({"shop.items": ITEMS, "shop.plain": PLAIN})
        found = feed(assembler, log[:cut])
        assembler.reconnected()
        later = [e for e in log[1:] if unpack_from("<I", e, 13)[0] > assembler.offset]
        found += feed(assembler, [_made_up(log[0]), *later])
        assert found == whole


def _made_up(description: bytes) -> bytes:
    """The file's first event, as the server sends it to who begins in the middle."""
    return description[:13] + bytes(4) + description[17:]


def test_another_file_of_the_same_name() -> None:
    """A file is identified by its creation time."""
    log = recorded()
    assembler = following({})
    feed(assembler, log[:8])
    assembler.reconnected()
    with pytest.raises(StreamLost, match="another file") as raised:
        feed(assembler, [pack("<I", 1) + _made_up(log[0])[4:]])
    assert raised.value.retryable


def test_a_connection_that_breaks_between_two_files() -> None:
    """The next file's first event has a time of its own: it is not compared with the file before."""
    log = recorded()
    assembler = following({})
    feed(assembler, log)
    assert (assembler.file, assembler.offset) == ("binlog.000002", 4)
    assembler.reconnected()
    description = pack("<I", unpack_from("<I", log[0])[0] + 1) + log[0][4:]
    feed(assembler, [description])
    assert assembler.file == "binlog.000002"
    # From then on the new file's time counts.
    assembler.reconnected()
    with pytest.raises(StreamLost, match=r"binlog\.000002 of the binary log was replaced by another file"):
        feed(assembler, [_made_up(log[0])])


def test_malformed_events() -> None:
    """Whatever the bytes are, they are either understood or said not to be."""
    log = recorded()
    chance = random.Random(7)
    for number, event in enumerate(log):
        for _ in range(15):
            broken = bytearray(event)
            for _ in range(chance.randint(1, 3)):
                broken[chance.randrange(19, len(broken))] = chance.randrange(256)
            broken = broken[: chance.randint(19, len(broken))]
            broken[9:13] = pack("<I", len(broken))
            assembler = following({"shop.items": ITEMS, "shop.plain": PLAIN})
            feed(assembler, log[:number])
            with suppress(MalformedLog, StreamLost):
                assembler.feed(bytes(broken), 0, len(broken))


# ── MySQL ────────────────────────────────────────────────────────────────────────────────────────────────────────────


class MySqlLog:
    """Events of MySQL 8, one behind the other."""

    def __init__(self) -> None:
        self.offset = 4
        self.events: list[bytes] = []

    def add(self, kind: int, body: bytes, flags: int = 0) -> None:
        """One event, without a checksum."""
        self.offset += 19 + len(body)
        self.events.append(pack("<IBIIIH", 1_700_000_000, kind, 1, 19 + len(body), self.offset, flags) + body)

    def gtid(self, number: int) -> None:
        self.add(events.GTID, b"\0" + bytes.fromhex(UUID.replace("-", "")) + pack("<Q", number) + b"\2" + bytes(16))

    def query(self, text: str, database: str = "shop", sql_mode: int = 0, collation: int = 45) -> None:
        status = pack("<BI", 0, 1) + pack("<BQ", 1, sql_mode) + b"\x06\x03std" + pack("<BHHH", 4, collation, 8, 8)
        head = pack("<IIBHH", 1, 0, len(database), 0, len(status)) + status + database.encode() + b"\0"
        self.add(events.QUERY, head + text.encode())

    def table_map(self, table: str = "plain", metadata: bytes = b"") -> None:
        names = bytes([4]) + b"shop\0" + bytes([len(table)]) + table.encode() + b"\0"
        self.add(events.TABLE_MAP, pack("<IHH", 7, 0, 1) + names + b"\x01\x03\x00\x01" + metadata)

    def rows(self, kind: int, *numbers: int, mask: bytes = b"\xff") -> None:
        masks = mask * (2 if kind in (events.UPDATE_ROWS_V2, events.PARTIAL_UPDATE_ROWS) else 1)
        body = b"".join(b"\x00" + pack("<i", n) for n in numbers)
        self.add(kind, pack("<IHHH", 7, 0, 1, 2) + b"\x01" + masks + body)

    def xid(self) -> None:
        self.add(events.XID, pack("<Q", 5))

    def transactions(self, **options: Any) -> Iterator[CommittedTransaction]:
        self.assembler = following({"shop.plain": replace(PLAIN, since=0)}, mariadb=False, **options)
        yield from feed(self.assembler, self.events)


def test_transactions_of_mysql() -> None:
    """They are their global ids; the second version of row events."""
    log = MySqlLog()
    log.gtid(7)
    log.query("BEGIN")
    log.table_map()
    log.rows(events.WRITE_ROWS_V2, 1, -2)
    log.rows(events.UPDATE_ROWS_V2, -2, 3)
    log.rows(events.DELETE_ROWS_V2, 9)
    log.xid()
    end = log.offset
    log.gtid(8)
    log.query("TRUNCATE TABLE plain")
    last = log.offset
    log.add(events.HEARTBEAT_V2, b"")
    found = list(log.transactions())
    assert found == [
        CommittedTransaction(
            parse_gtid(f"{UUID}:7"),
            position_of("binlog.000001", end),
            {"shop.plain": TableChange([("9",)], [("1",), ("3",)])},
        ),
        CommittedTransaction(
            parse_gtid(f"{UUID}:8"),
            position_of("binlog.000001", last),
            {"shop.plain": TableChange(truncated=True)},
        ),
    ]


def test_xa_of_mysql() -> None:
    """The group begins with XA START; the id is that of the commit."""
    log = MySqlLog()
    log.gtid(1)
    log.query("XA START X'61',X'62',1")
    log.table_map()
    log.rows(events.WRITE_ROWS_V2, 1)
    log.query("XA END X'61',X'62',1")
    log.add(events.XA_PREPARE, pack("<BIII", 0, 1, 1, 1) + b"ab")
    log.gtid(2)
    log.query("XA COMMIT X'61',X'62',1")
    (only,) = log.transactions()
    assert (only.id, only.tables) == (parse_gtid(f"{UUID}:2"), {"shop.plain": TableChange([], [("1",)])})


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("MERGE TABLE a INTO b", {}),
        ("CREATE CATALOG c", {"database": "elsewhere"}),
        ("DROP TABLE `größe`", {"collation": 8}),
        ("TRUNCATE 大小", {"collation": 28}),
        ("TRUNCATE 'plain'", {}),
        ('TRUNCATE "plain', {"sql_mode": 4}),
        ("DROP DATABASE SHOP", {}),
    ],
)
def test_statements_that_may_concern_any_table(text: str, settings: dict[str, Any]) -> None:
    """Every followed table is followed anew."""
    log = MySqlLog()
    log.gtid(1)
    log.query(text, **settings)
    assert list(log.transactions(charsets={8: "latin1", 28: "gbk", 45: "utf8mb4"}, fold_names=True)) == []
    assert [(n.table, n.columns) for n in log.assembler.take_notices()] == [("shop.plain", ())]


@pytest.mark.parametrize(
    ("text", "settings"),
    [
        ("ALTER TABLE plain COMMENT 'a\\'", {"sql_mode": 1 << 20}),
        ("ALTER TABLE größe DROP a", {}),
        ("ALTER TABLE plain COMMENT 'größe'", {"collation": 8}),
    ],
)
def test_statements_that_concern_none(text: str, settings: dict[str, Any]) -> None:
    """The mode and the character set that a statement has are its client's."""
    log = MySqlLog()
    log.gtid(1)
    log.query(text, **settings)
    assert list(log.transactions(charsets={8: "latin1", 45: "utf8mb4"})) == []
    assert log.assembler.take_notices() == []


def test_images_that_identify_no_row() -> None:
    """A table without a key, and a part of a document: any row may have changed."""
    for kind, mask in ((events.WRITE_ROWS_V2, b"\x00"), (events.PARTIAL_UPDATE_ROWS, b"\xff")):
        log = MySqlLog()
        log.gtid(1)
        log.query("BEGIN")
        log.table_map()
        log.rows(kind, 1, mask=mask)
        log.xid()
        (only,) = log.transactions()
        assert only.tables == {"shop.plain": TableChange(overflow=True)}
        assert log.assembler.take_notices() == []


@pytest.mark.parametrize(
    ("kind", "retryable"),
    [(events.TRANSACTION_PAYLOAD, False), (events.INCIDENT, True), (events.GTID_TAGGED, False), (99, False)],
)
def test_events_that_are_refused(kind: int, retryable: bool) -> None:
    """The log does not say what happened, or not to us."""
    log = MySqlLog()
    log.add(kind, b"")
    with pytest.raises(StreamLost) as raised:
        list(log.transactions())
    assert raised.value.retryable is retryable


def test_an_unknown_event_that_may_be_ignored() -> None:
    """Its header says so."""
    log = MySqlLog()
    log.add(99, b"", flags=events.MAY_BE_IGNORED)
    assert list(log.transactions()) == []
    assert log.assembler.position == position_of("binlog.000001", log.offset)


def test_offsets_beyond_four_gigabytes() -> None:
    """An event says the lower half of where it ends."""
    log = MySqlLog()
    log.offset = (1 << 32) - 100
    log.add(events.STOP, bytes(20))
    first = log.offset
    log.offset = 30
    log.add(events.STOP, b"")
    assembler = BinlogAssembler("binlog.000001", (1 << 32) - 100, 1000)
    feed(assembler, log.events)
    assert first < 1 << 32
    assert assembler.offset == (1 << 32) + 49
