"""Texts of MariaDB's UUIDs and network addresses. Pure.

Not here: reading their bytes (`column_values`).
"""

from ipaddress import IPv4Address

_WORDS = 8


def uuid_text(data: bytes) -> str:
    """Return the text of a UUID (16 bytes)."""
    text = data.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def inet4_text(data: bytes) -> str:
    """Return the text of an IPv4 address (4 bytes)."""
    return str(IPv4Address(data))


def inet6_text(data: bytes) -> str:
    """Return the text of an IPv6 address (16 bytes): ``::`` for the first of the longest runs of zero words.

    Embedded IPv4 addresses keep their notation. Unlike RFC 5952, a run may have one word (MariaDB,
    ``Inet6::to_string``).
    """
    words = [int.from_bytes(data[i : i + 2], "big") for i in range(0, 16, 2)]
    start, length = _longest_gap(words)
    if start == 0 and (length == 6 or (length == 5 and words[5] == 0xFFFF)):
        return f"::{'ffff:' if length == 5 else ''}{inet4_text(data[12:])}"
    texts = [f"{word:x}" for word in words]
    if not length:
        return ":".join(texts)
    return f"{':'.join(texts[:start])}::{':'.join(texts[start + length :])}"


def _longest_gap(words: list[int]) -> tuple[int, int]:
    best = (0, 0)
    start = 0
    for i, word in enumerate([*words, 1]):
        if word:
            if i - start > best[1]:
                best = start, i - start
            start = i + 1
    return best
