"""Keys in the access log: texts of parameters, in order, without claims.

*Invariants*: a value from a claim is written as a keyed hash or not at all. Equal keys have equal texts on every
worker, and after a restart with the same state directory.
"""

import os
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from secrets import token_bytes
from typing import NamedTuple

import orjson

from service.leaf_store.catalog import ParameterRole, ViewInfo
from service.leaf_store.request import Given, Values

_KEY_FILE = "access_log.key"
_KEY_BYTES = 32
_HASH_BYTES = 8
_ALL = 1 << 32


class LoggedKey(NamedTuple):
    """A key of a view. `kept`: indexes of the texts that make the materialized key; `lists`: those of them that are
    lists, each of whose values is a key. `json` is all of that in a line."""

    view: str
    key: Sequence[str | None]
    json: bytes
    kept: Sequence[int] = ()
    lists: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class KeyTexts:
    """Conversion of keys to texts. `claims_key`: the hash key for claims; None: claims are left out."""

    claims_key: bytes | None
    #: Share of the keys that is logged.
    share: float = 1.0

    def of(self, info: ViewInfo, values: Values) -> LoggedKey | None:
        """Return the key of a read; None if it is not in the sample."""
        texts = [
            self._claim(value) if parameter.is_claim else _text(value)
            for parameter, value in zip(info.parameters, values, strict=True)
        ]
        json = orjson.dumps(texts)
        view = orjson.dumps(info.name)
        if self.share < 1 and zlib.crc32(json, zlib.crc32(view)) >= self.share * _ALL:
            return None
        kept, lists = kept_of(info)
        members = b'"view":%b,"key":%b,"kept":%b,"lists":%b' % (view, json, orjson.dumps(kept), orjson.dumps(lists))
        return LoggedKey(info.name, texts, members, kept, lists)

    def _claim(self, value: Given) -> str | None:
        if self.claims_key is None or value is None:
            return None
        text = _text(value) or ""
        return "claim:" + blake2b(text.encode(), key=self.claims_key, digest_size=_HASH_BYTES).hexdigest()


def kept_of(info: ViewInfo) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the parameters that make materialized keys (not row selections, bounds and limits), and those of them
    that take a list. In refresh views each list is a value."""
    if info.refreshed:
        return tuple(range(len(info.parameters))), ()
    equal = [place for place, p in enumerate(info.parameters) if p.role in (ParameterRole.EQUAL, ParameterRole.LIST)]
    kept = tuple(equal[: len(equal) - info.within])
    listed = [p.role is ParameterRole.LIST and not p.whole for p in info.parameters]
    return kept, tuple(place for place in kept if listed[place])


def _text(value: Given) -> str | None:
    """Return a value's text; of a list, its JSON."""
    return orjson.dumps(value).decode() if isinstance(value, tuple) else value


def claims_key(state_directory: Path) -> bytes:
    """Return the hash key for claims, created at its first use. Raises OSError."""
    path = state_directory / _KEY_FILE
    state_directory.mkdir(parents=True, exist_ok=True)
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return path.read_bytes()
    with os.fdopen(descriptor, "wb") as file:
        file.write(key := token_bytes(_KEY_BYTES))
    return key
