"""Fast paths of `Arguments`: leaf store entry names directly from query strings and JSON bodies.

*Theory*: most keys are one or a few integers or texts, which are their own normal forms. A query string of one such
parameter is compared with its expected prefix and not decoded, and so is a body of such keys as serializers write it;
other batches of keys are read column by column. Each check and each step is over all keys at once.

*Invariants*: a returned name equals the one of `Arguments` and `layout.entry_key` (compared in
`test_reads.py` and `test_batch_route.py` of `tests/service/worker/`). Any other input, errors of the client included,
is left to them.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from dataflow.schema import SqlType
from service.leaf_store.catalog import ParameterInfo, ParameterRole, ViewInfo
from service.leaf_store.layout import MAX_ENTRY_BYTES, view_head

_MAX_FAST_TEXT = 128
_INTEGERS, _TEXTS = {int}, {str}

EntryOf = Callable[[bytes], bytes | None]
#: Values of one parameter in all keys -> their parts of the names; None if any is not plain.
_Column = Callable[[list[Any]], list[bytes] | None]
_OfBody = Callable[[bytes], list[bytes] | None]


def entry_of_query(info: ViewInfo, general: EntryOf) -> EntryOf:
    """Return a function from query string to entry name: fast for no parameter, or for one whose text is its own normal
    form; otherwise `general`."""
    head = view_head(info.id) + b"\x00"
    if info.clock_keys:
        return general
    if not info.parameters:
        return lambda query: general(query) if query else head + b"\0"
    parameter = info.parameters[0]
    if len(info.parameters) > 1 or not info.plain or not (parameter.name.isascii() and parameter.name.isidentifier()):
        return general
    prefix = parameter.name.encode() + b"="
    if (digits := _digits(parameter.type)) is not None:
        return _integer_of_query(head, prefix, digits, general)
    return _text_of_query(head, prefix, general) if _is_text(parameter.type) else general


def _integer_of_query(head: bytes, prefix: bytes, digits: int, general: EntryOf) -> EntryOf:
    start, end = len(prefix), len(prefix) + digits

    def entry_of(query: bytes) -> bytes | None:
        text = query[start:]
        # A leading zero is another spelling of the same number.
        if query.startswith(prefix) and text.isdigit() and text[0] != 48 and len(query) <= end:
            return head + text + b"\0"
        return general(query)

    return entry_of


def _text_of_query(head: bytes, prefix: bytes, general: EntryOf) -> EntryOf:
    start, end = len(prefix), len(prefix) + _MAX_FAST_TEXT

    def entry_of(query: bytes) -> bytes | None:
        text = query[start:]
        if query.startswith(prefix) and text.isalnum() and len(query) <= end:
            return head + text + b"\0"
        return general(query)

    return entry_of


class EntryNames:
    """Entry names of the keys in a body, for one view."""

    __slots__ = ("_columns", "_head", "_n_names", "_plain", "of_body")

    def __init__(self, info: ViewInfo) -> None:
        self._head = view_head(info.id) + b"\x00"
        self._n_names = len({parameter.name for parameter in info.parameters})
        columns = [
            (parameter.name, _column(parameter, b"" if i else self._head))
            for i, parameter in enumerate(info.parameters)
        ]
        self._columns = [(name, column) for name, column in columns if column is not None]
        self._plain = (info.plain or info.refreshed) and len(self._columns) == len(columns) and not info.claims
        #: Names of the keys of a complete body ``{"keys": [{"id": 7}, …]}``; None: no fast path.
        self.of_body: _OfBody = _of_body(info, self._head)

    def of(self, keys: Sequence[Mapping[str, Any]]) -> Sequence[bytes] | None:
        """Return the names, in order, of one or more keys, each a JSON object; None: no fast path."""
        if not self._plain or sum(map(len, keys)) != self._n_names * len(keys):
            return None
        if not self._columns:
            return [self._head + b"\0"] * len(keys)
        columns = []
        for name, column in self._columns:
            try:
                parts = column([key[name] for key in keys])
            except KeyError:
                return None
            if parts is None:
                return None
            columns.append(parts)
        names = columns[0] if len(columns) == 1 else list(map(b"".join, zip(*columns, strict=True)))
        return names if max(map(len, names)) <= MAX_ENTRY_BYTES else None


def _of_body(info: ViewInfo, head: bytes) -> _OfBody:
    if len(info.parameters) != 1 or info.claims or not (info.plain or info.refreshed):
        return lambda _: None
    parameter = info.parameters[0]
    name, digits = parameter.name, _digits(parameter.type)
    if digits is None or parameter.role is ParameterRole.LIST or not (name.isascii() and name.isidentifier()):
        return lambda _: None
    return _integers_of_body(head, name.encode(), digits)


def _integers_of_body(head: bytes, name: bytes, digits: int) -> _OfBody:
    # Compact JSON, as most serializers write it, and JSON as Python's `json` does.
    forms = [(b'{"keys":[{"%b":' % name, b'},{"%b":' % name), (b'{"keys": [{"%b": ' % name, b'}, {"%b": ' % name)]
    last = b"}]}"

    def names(body: bytes) -> list[bytes] | None:
        form = next((form for form in forms if body.startswith(form[0])), None)
        if form is None or not body.endswith(last):
            return None
        first, between = form
        text = body[len(first) : -len(last)]
        parts = (text.replace(between, b"\0,") + b"\0").split(b",")
        # A text that is not a number, as an empty one or one with a leading zero, has no entry: it is a miss and then
        # parsed.
        if not text.replace(between, b"").isdigit() or max(map(len, parts)) > digits + 1:
            return None
        return list(map(head.__add__, parts))

    return names


def _column(parameter: ParameterInfo, head: bytes) -> _Column | None:
    if parameter.role is ParameterRole.LIST:
        return None
    digits = _digits(parameter.type)
    if digits is not None:
        return _integers(head, 10**digits)
    return _texts(head) if _is_text(parameter.type) else None


def texts_of(sql_type: SqlType) -> Callable[[list[Any]], list[str] | None]:
    """Return a function from the values of a body to their normal forms; it returns None if any is not plain."""
    digits = _digits(sql_type)
    if digits is not None:
        return partial(_integer_texts, 10**digits)
    return _plain_texts if _is_text(sql_type) else lambda _: None


def _integer_texts(limit: int, values: list[Any]) -> list[str] | None:
    if set(map(type, values)) != _INTEGERS or min(values) <= -limit or max(values) >= limit:
        return None
    return list(map(str, values))


def _plain_texts(values: list[Any]) -> list[str] | None:
    return None if set(map(type, values)) != _TEXTS or "\0" in "".join(values) else values


def _integers(head: bytes, limit: int) -> _Column:
    # The head's bytes may contain a percent sign.
    form = head.replace(b"%", b"%%") + b"%d\0"

    def parts(values: list[Any]) -> list[bytes] | None:
        if set(map(type, values)) != _INTEGERS or min(values) < 0 or max(values) >= limit:
            return None
        return [form % value for value in values]

    return parts


def _texts(head: bytes) -> _Column:
    def parts(values: list[Any]) -> list[bytes] | None:
        if set(map(type, values)) != _TEXTS or "\0" in "".join(values):
            return None
        return [head + value.encode() + b"\0" for value in values]

    return parts


def _digits(sql_type: SqlType) -> int | None:
    """Digits that every integer of a type has room for."""
    return sql_type.rules.digits - 1 if sql_type.is_integer else None


def _is_text(sql_type: SqlType) -> bool:
    return sql_type.is_text and sql_type.name != "name" and sql_type.normal_form is None
