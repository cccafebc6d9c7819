"""Statements that MySQL 8 runs around a snapshot, and the snapshot computed from the answers (recorded ones: there is
no MySQL here)."""

from cdc.gtid import parse_gtid
from cdc.mysql.position import position_of
from service.engine.databases.mysql.bracketed_snapshot import BracketQuestion
from service.engine.databases.mysql.connect import Flavour
from service.engine.databases.mysql.packets import Cell, ServerReply

UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"
OTHER = "3e11fa47-71ca-11e1-9e33-c80aa9429563"
OLD, NEW = Flavour("mysql", (8, 0, 36)), Flavour("mysql", (8, 4, 0))


def reply(*cells: Cell) -> ServerReply:
    return ServerReply([cells] if cells else [])


def test_a_lookup() -> None:
    question = BracketQuestion(OLD, compared=False)
    assert question.statements(["SELECT 1"]) == [
        "SELECT @@GLOBAL.gtid_executed",
        "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY",
        "SHOW MASTER STATUS",
        "SELECT 1",
        "SHOW MASTER STATUS",
        "COMMIT",
    ]
    executed = reply(f"{UUID}:1-5,\n{OTHER}:7")
    rows = reply("1")
    end, later = reply("binlog.000003", "900", "", "", ""), reply("binlog.000003", "950", "", "", "")
    found, snapshot, bound = question.answer([executed, reply(), end, rows, later, reply()])
    assert found == [rows]
    assert bound == position_of("binlog.000003", 950)
    assert snapshot.position == position_of("binlog.000003", 900)
    before, unsure = position_of("binlog.000003", 500), position_of("binlog.000003", 900)
    assert snapshot.sees(parse_gtid(f"{UUID}:5"), before)
    assert snapshot.sees(parse_gtid(f"{OTHER}:7"), before)
    assert not snapshot.sees(parse_gtid(f"{UUID}:6"), unsure)
    assert snapshot.unsure(parse_gtid(f"{UUID}:6"), unsure)
    assert not snapshot.unsure(parse_gtid(f"{UUID}:8"), unsure + 1)


def test_a_heartbeat() -> None:
    """Later snapshots cover it once they see all that had begun."""
    question = BracketQuestion(NEW, compared=True)
    assert question.statements([])[2:5] == [
        "SHOW BINARY LOG STATUS",
        "SELECT @@GLOBAL.gtid_owned",
        "SELECT @@GLOBAL.gtid_executed",
    ]
    end = reply("binlog.000003", "900", "", "", "")
    owned, executed = reply(f"{UUID}:7#12"), reply(f"{UUID}:1-6")
    found, early, _ = question.answer([reply(f"{UUID}:1-5"), reply(), end, owned, executed, end, reply()])
    assert found == []
    answers = [end, reply(""), reply(f"{UUID}:1-7"), end, reply()]
    _, later, _ = question.answer([reply(f"{UUID}:1-7"), reply(), *answers])
    assert later.covers(early)
    _, between, _ = question.answer([reply(f"{UUID}:1-6"), reply(), *answers])
    assert not between.covers(early)
