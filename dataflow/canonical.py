"""Digests of plans and schemas: equal in all processes exactly if the values are equal.

*Invariants*: a digest depends on the fields that take part in a value's equality, and on nothing of the process: no
addresses, no order of sets. What is not known to be a plain value has none (`TypeError`).

Not here: what a node's state depends on beside its plan (`engine.state_digests`).
"""

from collections.abc import Iterable
from dataclasses import fields, is_dataclass
from enum import Enum
from hashlib import blake2b
from typing import Any

from dataflow.cached_hash import CachedHash
from dataflow.collations import Collation

DIGEST_BYTES = 16


class Digests:
    """Computes digests. *State*: those of plans, whose parts are shared by many."""

    def __init__(self) -> None:
        self._known: dict[CachedHash, bytes] = {}

    def of(self, value: Any) -> bytes:
        """The digest of a value. Raises TypeError for an object that is no value."""
        if isinstance(value, CachedHash):
            known = self._known.get(value)
            if known is None:
                known = self._known[value] = self._object(value)
            return known
        if is_dataclass(value) and not isinstance(value, type):
            return self._object(value)
        if isinstance(value, Enum):
            return _hashed(type(value).__name__, [str(value.value).encode()])
        if isinstance(value, tuple):
            return _hashed("tuple", map(self.of, value))
        if isinstance(value, frozenset):
            return _hashed("set", sorted(map(self.of, value)))
        if isinstance(value, Collation):
            return _hashed("collation", [value.name.encode()])
        if value is None or type(value) in (bool, int, float, str, bytes):
            return _hashed(type(value).__name__, [repr(value).encode()])
        raise TypeError(f"{type(value).__name__} has no digest")

    def found(self, value: Any) -> bytes | None:
        """The digest of a value; None if it has none, or its parts are nested too deeply."""
        try:
            return self.of(value)
        except (TypeError, RecursionError):
            return None

    def _object(self, value: Any) -> bytes:
        return _hashed(type(value).__name__, [self.of(getattr(value, f.name)) for f in fields(value) if f.compare])


def _hashed(kind: str, parts: Iterable[bytes]) -> bytes:
    state = blake2b(digest_size=DIGEST_BYTES)
    for part in (kind.encode(), *parts):
        state.update(len(part).to_bytes(4, "big"))
        state.update(part)
    return state.digest()
