"""MySQL's binary JSON, as its source documentation has it."""

from struct import pack

import pytest

from cdc.mysql.json_binary import json_text


def small(kind: int, entries: list[tuple[int, bytes]], keys: tuple[str, ...] = ()) -> bytes:
    """A small object or array of values that are stored behind, with their types."""
    head = 4 + 4 * len(keys) + 3 * len(entries)
    names = [key.encode() for key in keys]
    places, at = [], head
    for name in names:
        places.append(pack("<HH", at, len(name)))
        at += len(name)
    elements = []
    for element, data in entries:
        inline = element in (4, 5, 6)
        elements.append(bytes([element]) + (data.ljust(2, b"\0") if inline else pack("<H", at)))
        at += 0 if inline else len(data)
    values = b"".join(data for element, data in entries if element not in (4, 5, 6))
    return bytes([kind]) + pack("<HH", len(entries), at) + b"".join([*places, *elements, *names, values])


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "null"),
        (b"\x04\x00", "null"),
        (b"\x04\x01", "true"),
        (b"\x05\xff\xff", "-1"),
        (b"\x06\xff\xff", "65535"),
        (b"\x07" + pack("<i", -70000), "-70000"),
        (b"\x0a" + pack("<Q", 2**64 - 1), "18446744073709551615"),
        (b"\x0b" + pack("<d", 1.5), "1.5"),
        (b"\x0b" + pack("<d", 3.0), "3.0"),
        (b"\x0c\x05" + 'a"b\nü'.encode()[:5], '"a\\"b\\n\ufffd"'),
        (b"\x0c\x80\x01" + b"x" * 128, f'"{"x" * 128}"'),
        (b"\x0f\xf6\x05\x04\x02\x8c\x22\x00"[:-1] + b"", "12.34"),
        (small(2, []), "[]"),
        (small(2, [(4, b"\x00"), (5, pack("<h", -3)), (12, b"\x01x")]), '[null, -3, "x"]'),
        (small(0, [(12, b"\x01b"), (7, pack("<i", 99999))], ("a", "bc")), '{"a": "b", "bc": 99999}'),
        (small(0, [(2, small(2, [(4, b"\x02")])[1:])], ("k",)), '{"k": [false]}'),
        (b"\x0f\x0a\x08" + ((2024 * 13 + 2 << 5 | 29) << 17 << 24).to_bytes(8, "little"), '"2024-02-29"'),
        (
            b"\x0f\x0c\x08"
            + (((2024 * 13 + 2 << 5 | 29) << 17 | 12 << 12 | 30 << 6 | 5) << 24 | 7).to_bytes(8, "little"),
            '"2024-02-29 12:30:05.000007"',
        ),
        (b"\x0f\x0b\x08" + ((838 << 12 | 59 << 6 | 59) << 24).to_bytes(8, "little"), '"838:59:59.000000"'),
        (b"\x0f\xfc\x02\x00\xff", '"base64:type252:AP8="'),
    ],
)
def test_text(data: bytes, text: str) -> None:
    """Texts equal those of the server."""
    assert json_text(data) == text


def test_a_document_that_ends_early() -> None:
    """A truncated document is malformed."""
    with pytest.raises(IndexError):
        json_text(b"\x0c")
    with pytest.raises(IndexError):
        json_text(b"\x0d")
