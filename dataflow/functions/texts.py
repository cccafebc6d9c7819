"""Functions of text: by character, whatever the collation, but for upper and lower case.

Not here: LIKE and regular expressions (`patterns`), CONCAT (`choices`), which are not strict or not plain functions.
"""

import re
from base64 import b64encode
from hashlib import md5

from dataflow.bounds import bounded, joined
from dataflow.errors import EvaluationError
from dataflow.functions import folding, patterns
from dataflow.functions.signature import Table, refused, signature

_INT4 = 2**31
_WORD = re.compile("[a-zA-Z0-9]+")
#: Characters of a text that is taken word by word: some 30 ms.
_MAX_WORDS_LENGTH = 100_000


def _substring(text: str, start: str, length: str | None = None) -> str:
    first = int(start)
    if length is None:
        return text[max(first - 1, 0) :]
    if int(length) < 0:
        raise EvaluationError("negative substring length not allowed")
    end = first - 1 + int(length)
    return text[max(first - 1, 0) : max(end, 0)]


def _left(text: str, count: str) -> str:
    return text[: int(count)]


def _right(text: str, count: str) -> str:
    n = int(count)
    if n == -_INT4:  # Has no opposite: the upstream then drops nothing.
        return text
    return text[-n:] if n else ""


def _replace(text: str, old: str, new: str) -> str:
    if len(new) > len(old):
        bounded(len(text) + (text.count(old) if old else 0) * (len(new) - len(old)))
    return text.replace(old, new) if old else text


def _repeat(text: str, count: str) -> str:
    n = max(int(count), 0)
    bounded(n * len(text))
    return text * n


def _pad(text: str, length: str, fill: str, left: bool) -> str:
    n = max(int(length), 0) if fill else min(max(int(length), 0), len(text))
    bounded(n)
    if n <= len(text):
        return text[:n]
    missing = n - len(text)
    padding = (fill * (missing // len(fill) + 1))[:missing]
    return padding + text if left else text + padding


def _left_pad(text: str, length: str, fill: str = " ") -> str:
    return _pad(text, length, fill, True)


def _right_pad(text: str, length: str, fill: str = " ") -> str:
    return _pad(text, length, fill, False)


def _split_part(text: str, delimiter: str, number: str) -> str:
    n = int(number)
    if not n:
        raise EvaluationError("field position must not be zero")
    if not text:
        return ""
    if not delimiter:
        return text if abs(n) == 1 else ""
    index = n - 1 if n > 0 else text.count(delimiter) + 1 + n
    # Only as many are made as are needed.
    parts = text.split(delimiter, index + 1) if index >= 0 else []
    return parts[index] if 0 <= index < len(parts) else ""


def _translate(text: str, old: str, new: str) -> str:
    mapping: dict[int, str | None] = {}
    for i, c in enumerate(old):
        mapping.setdefault(ord(c), new[i] if i < len(new) else None)
    return text.translate(mapping)


def _overlay(text: str, new: str, start: str, count: str | None = None) -> str:
    first, n = int(start), len(new) if count is None else int(count)
    if first <= 0:
        raise EvaluationError("negative substring length not allowed")
    if not -_INT4 <= first + n < _INT4:
        raise EvaluationError("integer out of range")
    return text[: first - 1] + new + text[max(first - 1 + n, 0) :]


def _ascii(text: str) -> str:
    return str(ord(text[0])) if text else "0"


def _chr(code: str) -> str:
    n = int(code)
    if not 0 < n <= 0x10FFFF or 0xD800 <= n < 0xE000:
        raise EvaluationError(f"not a character: {n}")
    return chr(n)


def _initcap(kind: str, text: str) -> str:
    """Words begin behind what is no letter or digit; which of those beyond ASCII are, only the upstream knows."""
    if not text.isascii():
        raise EvaluationError("not computed: which characters beyond ASCII are letters is the locale's")
    if len(text) > _MAX_WORDS_LENGTH:
        raise EvaluationError(f"not computed: the words of a text of more than {_MAX_WORDS_LENGTH} characters")
    return _WORD.sub(lambda word: folding.upper(kind, word[0][0]) + folding.lower(kind, word[0][1:]), text)


def _quote_literal(text: str) -> str:
    doubled = text.replace("\\", "\\\\").replace("'", "''")
    return f"{'E' if chr(92) in text else ''}'{doubled}'"


def _encoded(data: str, form: str) -> str:
    match form.lower():
        case "hex":
            return data[2:]
        case "base64":
            text = b64encode(bytes.fromhex(data[2:])).decode()
            return "\n".join(text[i : i + 76] for i in range(0, len(text), 76))
        case _:
            raise EvaluationError(f"the encoding {form!r} is not computed here")


LENGTH = signature("text", "int4", lambda a: str(len(a)))
_BPCHAR_LENGTH = signature("bpchar", "int4", lambda a: str(len(a.rstrip(" "))))
_LENGTHS = (LENGTH, _BPCHAR_LENGTH)
_SUBSTRING = (
    signature("text int4", "text", _substring),
    signature("text int4 int4", "text", _substring),
)
_BYTES_LENGTH = (signature("bytea", "int4", lambda a: str(len(a) // 2 - 1)),)
_BYTES_TRIM = refused("bytea bytea -> bytea")
_BYTES_SUBSTRING = refused("bytea int4 -> bytea", "bytea int4 int4 -> bytea")
_STRPOS = signature("text text", "int4", lambda a, b: str(a.find(b) + 1))

TEXTS: Table = {
    "||": (signature("text text", "text", lambda a, b: joined("", (a, b))),),
    "length": (*_LENGTHS, *_BYTES_LENGTH),
    "char_length": _LENGTHS,
    "character_length": _LENGTHS,
    "octet_length": (
        signature("text", "int4", lambda a: str(len(a.encode()))),
        signature("bpchar", "int4", lambda a: str(len(a.encode()))),
        *_BYTES_LENGTH,
    ),
    "bit_length": (
        signature("text", "int4", lambda a: str(8 * len(a.encode()))),
        signature("bytea", "int4", lambda a: str(4 * len(a) - 8)),
    ),
    "quote_literal": (signature("text", "text", _quote_literal),),
    "encode": (signature("bytea text", "text", _encoded),),
    "lower": (signature("text", "text", folding.lower, folding=True),),
    "upper": (signature("text", "text", folding.upper, folding=True),),
    "initcap": (signature("text", "text", _initcap, folding=True),),
    "substring": (
        *_SUBSTRING,
        signature("text text", "text", patterns.found),
        *refused("text text text -> text"),
        *_BYTES_SUBSTRING,
    ),
    "substr": (*_SUBSTRING, *_BYTES_SUBSTRING),
    "left": (signature("text int4", "text", _left),),
    "right": (signature("text int4", "text", _right),),
    "btrim": (
        signature("text", "text", lambda a: a.strip(" ")),
        signature("text text", "text", lambda a, b: a.strip(b) if b else a),
        *_BYTES_TRIM,
    ),
    "ltrim": (
        signature("text", "text", lambda a: a.lstrip(" ")),
        signature("text text", "text", lambda a, b: a.lstrip(b) if b else a),
        *_BYTES_TRIM,
    ),
    "rtrim": (
        signature("text", "text", lambda a: a.rstrip(" ")),
        signature("text text", "text", lambda a, b: a.rstrip(b) if b else a),
        *_BYTES_TRIM,
    ),
    "replace": (signature("text text text", "text", _replace),),
    "strpos": (_STRPOS,),
    "position": (_STRPOS, *refused("bytea bytea -> int4")),
    "starts_with": (signature("text text", "bool", lambda a, b: "t" if a.startswith(b) else "f"),),
    "repeat": (signature("text int4", "text", _repeat),),
    "lpad": (
        signature("text int4", "text", _left_pad),
        signature("text int4 text", "text", _left_pad),
    ),
    "rpad": (
        signature("text int4", "text", _right_pad),
        signature("text int4 text", "text", _right_pad),
    ),
    "reverse": (signature("text", "text", lambda a: a[::-1]), *refused("bytea -> bytea")),
    "split_part": (signature("text text int4", "text", _split_part),),
    "translate": (signature("text text text", "text", _translate),),
    "overlay": (
        signature("text text int4", "text", _overlay),
        signature("text text int4 int4", "text", _overlay),
        *refused("bytea bytea int4 -> bytea", "bytea bytea int4 int4 -> bytea"),
    ),
    "ascii": (signature("text", "int4", _ascii),),
    "chr": (signature("int4", "text", _chr),),
    "md5": (
        signature("text", "text", lambda a: md5(a.encode(), usedforsecurity=False).hexdigest()),
        signature("bytea", "text", lambda a: md5(bytes.fromhex(a[2:]), usedforsecurity=False).hexdigest()),
    ),
}
