"""Hostile texts of both databases: lengths, alphabets, patterns, documents, and texts that look like other types'."""

from collections.abc import Callable
from random import Random

#: Characters of which texts that meet each other are made.
_FEW = "aab%_\\ x,1"
_UNICODE = (
    "\u00df\u0130\u0131\u017f\ufb01\u03a3\u03c2\u1e9e\u01c5\u212a\u00e5\u0301\u0308\u200b\u200d\u202e\u05d0\u0627\ufeff"
    "\ud7ff\ue000\ufffd\U0001f600\U0010ffff\U00010400\u65e5\u672c\u00a0\u2028\u1100\u1161\u0345\u1f80\u10a0\u13a0\uab70"
    "\u0149\u01f0\u0390\u1e96\u1fb7\u0085\u00ad\u3000"
)
_CONTROLS = "\t\n\v\f\r\x01\x1b\x7f'\"\\`;{}[]()"
#: What casts read, or nearly.
SPELLINGS = (
    "",
    " ",
    "0",
    "-0",
    "+1",
    " 12 ",
    "1_000",
    "1__0",
    "_1",
    "0x1F",
    "0b101",
    "0o17",
    "0x",
    "-0x8000000000000000",
    "1e5",
    "1E-5",
    ".5",
    "5.",
    ".",
    "e5",
    "1e",
    "1e400",
    "-1e-400",
    "1e131071",
    "1e-16383",
    "1e131072",
    "1e2147483648",
    "nan",
    "NaN",
    "inf",
    "-Infinity",
    "infinity",
    "+inf",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "32768",
    "-32769",
    "2147483648",
    "t",
    "TRUE",
    "of",
    "o",
    "yes",
    " no ",
    "1.5",
    "\u0663",
    "\uff11\uff12",
    "3.4028235e38",
    "3.4028236e38",
    "1e-46",
    "4.9e-324",
    "2e-324",
    "1.7976931348623157e308",
    "1.8e308",
    "1\u00a0",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c8",
    "{6BA7B8109DAD11D180B400C04FD430C8}",
    "6ba7-b810-9dad-11d1-80b4-00c0-4fd4-30c8",
    "6ba7b810-9dad-11d1-80b4-00c04fd430c",
    "null",
    "NULL",
    "true",
    '{"a": 1}',
    "[1, 2",
    '"\\u0000"',
    "[1e5, -0.0, 1E400]",
    '{"a":1,"a":2}',
    "0.1e-7",
    "-0.0e0",
    '"\\ud83d\\ude00"',
    '"\\ud83d"',
    "01",
    "[,]",
    "{}",
    " [] ",
)


def text(rng: Random, length: int) -> str:
    """A text of so many characters of one kind or another."""
    match rng.randrange(6):
        case 0:
            return (rng.choice(("a", "ab", "aab", "%", "_", "a%", "x ", " ", "\u00e4", "a,"))) * (length // 2)
        case 1:
            return "".join(rng.choices(_UNICODE, k=min(length, 5000)))
        case 2:
            return "".join(rng.choices(_CONTROLS + "ab", k=min(length, 5000)))
        case 3:
            return chr(rng.choice((0x61, 0xE9, 0x4E2D, 0x1F600))) * (length - 1) + "b"
    return "".join(rng.choices(_FEW, k=min(length, 20_000)))


def length(rng: Random, long: int) -> int:
    """How long a text is: most are short. `long` is the longest one's length."""
    return int(long ** (rng.random() ** 3)) if long > 1 else 0


def short_text(rng: Random) -> str:
    """A text of a few characters at most."""
    if rng.random() < 0.25:
        return rng.choice(SPELLINGS)
    return text(rng, rng.randrange(14))


# --- documents --------------------------------------------------------------------------------------------------------

_KEYS = ("a", "b", "", "a b", "\u00e9", '"', "key", "1", "-1", "\\", "NaN", "aa", "\U0001f600")
_NUMBERS = ("0", "-0", "1", "1.0", "1.50", "-1e5", "1E400", "1e-400", "0.1", "12345678901234567890.123456789", "-0.0")


def document(rng: Random, depth: int = 3) -> str:
    """A small JSON document, with repeated keys and odd spaces."""
    space = rng.choice(("", " ", "\n\t"))
    if depth == 0 or rng.random() < 0.3:
        return space + rng.choice(("null", "true", "false", _string(rng), _string(rng), rng.choice(_NUMBERS))) + space
    parts = [document(rng, depth - 1) for _ in range(rng.randrange(5))]
    if rng.random() < 0.5:
        return f"[{','.join(parts)}]{space}"
    return "{" + ",".join(f"{space}{_quoted(rng.choice(_KEYS))}:{part}" for part in parts) + "}"


def _string(rng: Random) -> str:
    if rng.random() < 0.2:
        return rng.choice(('"\\u00e9\\n"', '"\\ud83d\\ude00"', '"\\/\\b"', '"\\u0041"', '"\\""', '"\\\\"'))
    return _quoted(short_text(rng))


def _quoted(value: str) -> str:
    escaped = "".join(f"\\u{ord(c):04x}" if c < " " or c == "\x7f" else c for c in value.replace("\\", "\\\\"))
    return '"' + escaped.replace('"', '\\"') + '"'


def large_document(rng: Random, size: int) -> str:
    """A document that is deep, wide or long."""
    deep = min(size, 5000)
    shapes: tuple[Callable[[], str], ...] = (
        lambda: "[" * deep + "1" + "]" * deep,
        lambda: '{"a":' * deep + "1" + "}" * deep,
        lambda: '{"a":[1,' * (deep // 2) + "null" + "]}" * (deep // 2),
        lambda: "[" + ",".join(str(i % 1000) for i in range(size)) + "]",
        lambda: "[" + ",".join(f'"{i}"' for i in range(size)) + "]",
        lambda: "{" + ",".join(f'"{i}":{i}.50' for i in range(size)) + "}",
        lambda: "[" + ",".join(f'{{"a":{i % 7}}}' for i in range(size)) + "]",
        lambda: _quoted("ab\u00e9" * size),
        lambda: "9" * min(size, 100_000),
    )
    return rng.choice(shapes)()
