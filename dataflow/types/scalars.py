"""Types of one kind of value without relatives: ``bool``, ``bytea`` and UUIDs."""

import re
from base64 import b64encode
from dataclasses import replace
from json.encoder import encode_basestring

from dataflow.types.rules import Rules, TypeRules, ValueKind, ascii_text, order_ascii, quoted

#: MariaDB's: its order is another than PostgreSQL's, and changed between versions.
MYSQL_UUID = "mysql_uuid"
_BOOLEANS = {
    **dict.fromkeys(("t", "true", "yes", "on", "1"), "t"),
    **dict.fromkeys(("f", "false", "no", "off", "0"), "f"),
}
_UUID = re.compile(r"[0-9a-fA-F]{8}(-?)[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{4}\1[0-9a-fA-F]{12}")
_BYTES = re.compile(r"\\x(?:[0-9a-fA-F]{2})*")


def _order_boolean(text: str) -> bytes:
    return b"\x01" if text == "t" else b"\x00"


def _boolean_of_order(data: bytes) -> tuple[str, int]:
    return "t" if data[0] else "f", 1


def _parse_boolean(text: str) -> str:
    value = _BOOLEANS.get(text.strip().lower())
    if value is None:
        raise ValueError("true or false is expected")
    return value


def _boolean_json(text: str) -> str:
    return "true" if text == "t" else "false"


def _parse_uuid(text: str) -> str:
    if not _UUID.fullmatch(text):
        raise ValueError("a UUID like 6ba7b810-9dad-11d1-80b4-00c04fd430c8 is expected")
    digits = text.replace("-", "").lower()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _parse_bytes(text: str) -> str:
    if not _BYTES.fullmatch(text):
        raise ValueError(r"bytes in hexadecimal like \x0aff are expected")
    return text.lower()


def _bytes_json(text: str) -> str:
    if not text.startswith("\\x"):
        return encode_basestring(text)
    return f'"{b64encode(bytes.fromhex(text[2:])).decode()}"'


_UUID_RULES = TypeRules(
    comparable=True,
    order_form=order_ascii,
    order_text=ascii_text,
    parse=_parse_uuid,
    json_form=quoted,
    schema={"type": "string", "format": "uuid"},
    width_bytes=36,
    extremes=False,
    prints_itself=True,
    of_postgres=True,
)

TYPES: dict[str, Rules] = {
    "bool": TypeRules(
        kind=ValueKind.BOOLEAN,
        comparable=True,
        order_form=_order_boolean,
        order_text=_boolean_of_order,
        parse=_parse_boolean,
        json_form=_boolean_json,
        schema={"type": "boolean"},
        width_bytes=1,
        extremes=False,
        category="B",
        preferred=True,
        of_postgres=True,
    ),
    "bytea": TypeRules(
        kind=ValueKind.BYTES,
        comparable=True,
        order_form=order_ascii,
        order_text=ascii_text,
        parse=_parse_bytes,
        json_form=_bytes_json,
        schema={"type": "string", "contentEncoding": "base64"},
        extremes=False,
        prints_itself=True,
        of_postgres=True,
    ),
    "uuid": _UUID_RULES,
    MYSQL_UUID: replace(
        _UUID_RULES,
        order_form=None,
        order_text=None,
        width_bytes=32,
        prints_itself=False,
        of_postgres=False,
        of_mysql="uuid",
    ),
}
