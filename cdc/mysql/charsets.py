"""Conversion of the server's character sets to text, equal to the server's own conversion to UTF-8.

The binary log has strings in the character set of their column; the server converts them for lookups. Python's codecs
agree with MariaDB's on all characters except those listed here (compared byte by byte with MariaDB 10.11).

*Invariant*: invalid bytes never raise: they become the characters that the server prints for them.

Not here: collations (`dataflow.collations`).
"""

import codecs
from collections.abc import Callable

Decode = Callable[[bytes], str]

#: Character sets that Python's codec decodes alike, for every valid sequence of bytes.
_SAME = {
    "utf8mb4": "utf-8",
    "utf8mb3": "utf-8",
    "utf8": "utf-8",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "euckr": "cp949",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "gb18030": "gb18030",
    "cp932": "cp932",
}

#: Single-byte character sets: Python's codec, and its exceptions. Unassigned bytes become ``?``.
_SINGLE: dict[str, tuple[str, dict[int, str]]] = {
    "ascii": ("ascii", {}),
    "cp850": ("cp850", {}),
    "cp852": ("cp852", {}),
    "cp866": ("cp866", {0xFC: "\u207f", 0xFD: "\xb2"}),
    "cp1250": ("cp1250", {}),
    "cp1251": ("cp1251", {}),
    "cp1256": ("cp1256", dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), "?")),
    "cp1257": ("cp1257", {}),
    "greek": ("iso8859-7", {0xA1: "\u02bd", 0xA2: "\u02bc", 0xA4: "?", 0xA5: "?", 0xAA: "?"}),
    "hebrew": ("iso8859-8", {0xAF: "\u203e"}),
    "hp8": ("hp-roman8", {}),
    "koi8r": ("koi8-r", {}),
    "koi8u": ("koi8-u", {0x95: "\u2022"}),
    "latin1": ("cp1252", {code: chr(code) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "latin2": ("iso8859-2", {}),
    "latin5": ("iso8859-9", {}),
    "latin7": ("iso8859-13", {}),
    "macce": ("mac_latin2", {}),
    "macroman": ("mac_roman", {}),
    "tis620": ("tis-620", dict.fromkeys((0xA0, *range(0xDB, 0xDF), *range(0xFC, 0x100)), "\ufffd")),
}

_ARMENIAN = "".join(map(chr, [c for pair in zip(range(0x531, 0x557), range(0x561, 0x587), strict=True) for c in pair]))
#: Upper halves of single-byte character sets without a codec in Python.
_UPPER_HALVES = {
    "dec8": (
        "".join(map(chr, range(0x80, 0xA4))) + "?\xa5?\xa7\xa4\xa9\xaa\xab????\xb0\xb1\xb2\xb3?\xb5\xb6\xb7?\xb9\xba"
        "\xbb\xbc\xbd?\xbf" + "".join(map(chr, range(0xC0, 0xD0))) + "?\xd1\xd2\xd3\xd4\xd5\xd6\u0152\xd8\xd9\xda\xdb"
        "\xdc\u0178?\xdf" + "".join(map(chr, range(0xE0, 0xF0))) + "?\xf1\xf2\xf3\xf4\xf5\xf6\u0153\xf8\xf9\xfa\xfb\xfc"
        "\xff??"
    ),
    "armscii8": (
        "".join(map(chr, range(0x80, 0xA1))) + "\u2741\xa7\u0589)(\xbb\xab\u2014.\u055d,-\u055f\u2026\u055c\u055b\u055e"
        f"{_ARMENIAN}\u2019'"
    ),
    "geostd8": (
        "\u20ac?\u201a?\u201e\u2026\u2020\u2021?\u2030?\u2039?????\u2018\u2019\u201c\u201d\u2022\u2013\u2014???\u203a"
        "????" + "".join(map(chr, range(0xA0, 0xC0))) + "\u10d0\u10d1\u10d2\u10d3\u10d4\u10d5\u10d6\u10f1\u10d7\u10d8"
        "\u10d9\u10da\u10db\u10dc\u10f2\u10dd\u10de\u10df\u10e0\u10e1\u10e2\u10f3\u10e3\u10e4\u10e5\u10e6\u10e7\u10e8"
        "\u10e9\u10ea\u10eb\u10ec\u10ed\u10ee\u10f4\u10ef\u10f0\u10f5" + "?" * 23 + "\u2116??"
    ),
    "keybcs2": (
        "\u010c\xfc\xe9\u010f\xe4\u010e\u0164\u010d\u011b\u011a\u0139\xcd\u013e\u013a\xc4\xc1\xc9\u017e\u017d\xf4\xf6"
        "\xd3\u016f\xda\xfd\xd6\xdc\u0160\u013d\xdd\u0158\u0165\xe1\xed\xf3\xfa\u0148\u0147\u016e\xd4\u0161\u0159\u0155"
        "\u0154\xbc\xa1\xab\xbb" + bytes(range(0xB0, 0xE0)).decode("cp437") + "\u03b1\xdf\u0393\u03c0\u03a3\u03c3\xb5"
        "\u03c4\u03a6\u0398\u03a9\u03b4\u221e\u03c6\u03b5\u2229\u2261\xb1\u2265\u2264\u2320\u2321\xf7\u2248\xb0\u2219"
        "\xb7\u221a\u207f\xb2\u25a0\xa0"
    ),
}
#: Python's Shift-JIS decodes 0x815F as FULLWIDTH REVERSE SOLIDUS.
_SJIS = {0xFF3C: "\\"}

#: All supported character sets.
KNOWN = frozenset({*_SAME, *_SINGLE, *_UPPER_HALVES, "sjis"})


def decoder(charset: str) -> Decode | None:
    """Return the decoder of a character set; None if it is unsupported."""
    if charset in _SAME:
        codec = _SAME[charset]
        return lambda data: str(data, codec, "replace")
    if charset in _SINGLE:
        codec, different = _SINGLE[charset]
        plain = bytes(range(256)).decode(codec, "replace").replace("\ufffd", "?")
        return _by_table("".join(different.get(i, plain[i]) for i in range(256)))
    if charset in _UPPER_HALVES:
        return _by_table("".join(map(chr, range(0x80))) + _UPPER_HALVES[charset])
    if charset == "sjis":
        return lambda data: str(data, "shift_jis", "replace").translate(_SJIS)
    return None


def _by_table(table: str) -> Decode:
    assert len(table) == 256
    decode = codecs.charmap_decode
    return lambda data: decode(data, "strict", table)[0]


def client_text(text: bytes, charset: str | None) -> str:
    """Decode a statement of a client with that character set; bytes that are not decoded become U+FFFD.

    Names in statements that the server writes itself are in UTF-8 for any client; so bytes outside ASCII are decoded
    for UTF-8 clients only. A statement in a multi-byte character set, whose bytes may contain quotes, is not decoded.
    """
    if charset is not None and charset.startswith("utf8"):
        return text.decode("utf-8", "replace")
    if text.isascii() or charset in _SINGLE or charset in _UPPER_HALVES:
        return text.decode("ascii", "replace")
    return "\ufffd"
