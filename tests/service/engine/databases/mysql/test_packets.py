"""Replies of a server, however their bytes arrive."""

import pytest

from service.engine.databases.mysql.packets import COMMAND_QUERY, ProtocolError, Replies, ServerReply, command


def packet(payload: bytes, number: int = 1) -> bytes:
    return len(payload).to_bytes(3, "little") + bytes((number,)) + payload


def text(value: bytes) -> bytes:
    return bytes((len(value),)) + value


def definition(name: bytes, kind: int = 253, collation: int = 45, flags: int = 0) -> bytes:
    texts = b"".join(map(text, (b"def", b"shop", b"alias", b"items", name, b"own")))
    numbers = collation.to_bytes(2, "little") + (200).to_bytes(4, "little") + bytes((kind,))
    return packet(texts + b"\x0c" + numbers + flags.to_bytes(2, "little") + b"\x00\x00\x00")


def mark(status: int = 2) -> bytes:
    return packet(b"\xfe\x00\x00" + status.to_bytes(2, "little"))


OK = packet(b"\x00\x01\xfc\xe8\x03\x02\x00\x00\x00")
ERROR = packet(b"\xff\x28\x04#42000You have an error")


def result(*rows: bytes, status: int = 2) -> bytes:
    columns = packet(b"\x02") + definition(b"a") + definition(b"b", 252, 63)
    return columns + mark() + b"".join(map(packet, rows)) + mark(status)


ROW = text("žluť".encode()) + text(b"\x00\xff")


def read(data: bytes, expected: int, size: int = 1 << 20) -> list[ServerReply]:
    """The replies in `data`, which arrives in pieces of `size`."""
    replies = Replies(expected)
    for start in range(0, len(data), size):
        assert not replies.done
        replies.feed(data[start : start + size])
    assert replies.done
    return replies.replies


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 64, 1 << 20])
def test_replies_in_pieces(size: int) -> None:
    """Answers, errors and results come one after another, wherever they are cut."""
    ok, error, found, empty = read(OK + ERROR + result(ROW, b"\xfb\x00") + result(), 4, size)
    assert (ok.rows, ok.error) == ([], None)
    assert error.error is not None
    assert (error.error.number, error.error.state, error.error.message) == (1064, "42000", "You have an error")
    assert found.rows == [("žluť", b"\x00\xff"), (None, b"")]
    assert [(c.name, c.table, c.source, c.is_bytes) for c in found.columns] == [
        ("a", "items", "own", False),
        ("b", "items", "own", True),
    ]
    assert empty.rows == []


def test_long_values() -> None:
    """Lengths of two, three and eight bytes; a row in several packets."""
    long, longer = b"x" * 300, b"y" * 70_000
    row = b"\xfc" + (300).to_bytes(2, "little") + long + b"\xfd" + (70_000).to_bytes(3, "little") + longer
    (found,) = read(result(row), 1, 4096)
    assert found.rows == [(long.decode(), longer)]
    huge = b"z" * (0xFFFFFF + 5)
    payload = text(b"a") + b"\xfe" + len(huge).to_bytes(8, "little") + huge
    parts = packet(payload[:0xFFFFFF]) + packet(payload[0xFFFFFF:])
    columns = packet(b"\x02") + definition(b"a") + definition(b"b", 252, 63) + mark()
    (found,) = read(columns + parts + mark(), 1, 1 << 16)
    assert found.rows == [("a", huge)]


def test_an_error_among_rows() -> None:
    """A statement that runs out of time while it answers has no rows."""
    columns = packet(b"\x02") + definition(b"a") + definition(b"b") + mark()
    found, ok = read(columns + packet(text(b"1") + text(b"2")) + ERROR + OK, 2)
    assert found.error is not None
    assert (found.rows, ok.error) == ([], None)


def test_several_results_of_one_statement() -> None:
    """The first one counts."""
    first, second = read(result(ROW, status=2 | 8) + result(ROW, ROW, status=8) + OK + OK, 2)
    assert (len(first.rows), len(second.rows)) == (1, 0)


def test_the_transaction_s_state_is_the_last_reply_s() -> None:
    replies = Replies(2)
    replies.feed(result(status=3))
    assert not replies.done
    replies.feed(OK)
    assert not replies.in_transaction


def test_prepared() -> None:
    """Parameters and columns of a prepared statement."""
    start = packet(b"\x00\x07\x00\x00\x00\x01\x00\x02\x00\x00\x00\x00")
    data = start + definition(b"?") + definition(b"?") + mark() + definition(b"a") + mark()
    replies = Replies(1, prepared=True)
    for i in range(len(data)):
        replies.feed(data[i : i + 1])
    (reply,) = replies.replies
    assert (reply.statement, reply.parameters, [c.name for c in reply.columns]) == (7, 2, ["a"])


def test_what_nobody_asked_for() -> None:
    with pytest.raises(ProtocolError, match="unexpected data"):
        Replies(1).feed(OK + OK)
    with pytest.raises(ProtocolError, match="a local file"):
        Replies(1).feed(packet(b"\xfb/etc/passwd"))


def test_commands_are_cut_into_packets() -> None:
    """One of exactly the limit is followed by an empty one."""
    body = b"x" * 0xFFFFFE
    data = command(COMMAND_QUERY, body)
    assert data[:4] == b"\xff\xff\xff\x00"
    assert data[-4:] == b"\x00\x00\x00\x01"
    assert command(COMMAND_QUERY, b"abc") == b"\x04\x00\x00\x00\x03abc"
