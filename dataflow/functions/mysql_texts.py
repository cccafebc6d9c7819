"""Functions of text as MariaDB and MySQL compute them, by the names that they have there: by character, whatever the
collation.

Not here: upper and lower case (`texts`), CONCAT (`logic`), LIKE (`like`).
"""

from dataflow.bounds import bounded
from dataflow.errors import EvaluationError
from dataflow.functions.signature import Table, signature
from dataflow.types.documents import MARIADB_DOCUMENT

#: The default of MariaDB's ``group_concat_max_len``.
_MAX_CONCATENATED = 2**20


def _left(text: str, count: str) -> str:
    return text[: max(int(count), 0)]


def _right(text: str, count: str) -> str:
    n = max(int(count), 0)
    return text[-n:] if n else ""


def _substring(text: str, start: str, length: str | None = None) -> str:
    """A part of a text: from the end if `start` is negative, empty if that is outside of the text."""
    first, most = int(start), len(text) if length is None else int(length)
    if not first or -first > len(text) or most <= 0:
        return ""
    begin = first - 1 if first > 0 else len(text) + first
    return text[begin : begin + most]


def _replace(text: str, old: str, new: str) -> str:
    if len(new) > len(old):
        bounded(len(text) + (text.count(old) if old else 0) * (len(new) - len(old)))
    return text.replace(old, new) if old else text


def _substring_index(text: str, delimiter: str, count: str) -> str:
    """Text before that many delimiters; from the end on, behind them, if the number is negative."""
    n = int(count)
    if not n or not delimiter:
        return ""
    if abs(n) > len(text):
        return text
    if n > 0:
        return delimiter.join(text.split(delimiter, n)[:n])
    return delimiter.join(text.rsplit(delimiter, -n)[n:])


def _hexadecimal(number: str) -> str:
    return f"{int(number) & (2**64 - 1):X}"


def _concatenated(text: str) -> str:
    """GROUP_CONCAT's result, which the server does not cut."""
    if len(text) > _MAX_CONCATENATED // 4 and len(text.encode()) > _MAX_CONCATENATED:
        raise EvaluationError(f"not computed: GROUP_CONCAT of more than {_MAX_CONCATENATED} bytes")
    return text


MYSQL_TEXTS: Table = {
    "GROUP_CONCAT": (
        signature("text", "text", _concatenated),
        signature(MARIADB_DOCUMENT, MARIADB_DOCUMENT, _concatenated),
    ),
    "LEFT": (signature("text int8", "text", _left),),
    "RIGHT": (signature("text int8", "text", _right),),
    "SUBSTRING": (
        signature("text int8", "text", _substring),
        signature("text int8 int8", "text", _substring),
    ),
    "SUBSTRING_INDEX": (signature("text text int8", "text", _substring_index),),
    "REPLACE": (signature("text text text", "text", _replace),),
    "TRIM": (signature("text", "text", lambda a: a.strip(" ")),),
    "LTRIM": (signature("text", "text", lambda a: a.lstrip(" ")),),
    "RTRIM": (signature("text", "text", lambda a: a.rstrip(" ")),),
    "CHAR_LENGTH": (signature("text", "int8", lambda a: str(len(a))),),
    "LENGTH": (
        signature("text", "int8", lambda a: str(len(a.encode()))),
        signature("bytea", "int8", lambda a: str(len(a) // 2 - 1)),
    ),
    "HEX": (
        signature("text", "text", lambda a: a.encode().hex().upper()),
        signature("bytea", "text", lambda a: a[2:].upper()),
        signature("int8", "text", _hexadecimal),
    ),
}

__all__ = ["MYSQL_TEXTS"]
