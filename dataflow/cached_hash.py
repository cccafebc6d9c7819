"""Hashes of frozen dataclasses that are computed once.

Plans are keys of dictionaries: trees of hundreds of objects, looked up whenever a view is put. A dataclass hashes all
of its fields anew each time.
"""

from typing import TypeVar

T = TypeVar("T")


class CachedHash:
    """Base of classes with `cached_hash`: the place of the hash, which is no part of the value."""

    __slots__ = ("_hash",)
    _hash: int


def cached_hash(cls: type[T]) -> type[T]:
    """Decorate a frozen dataclass with slots, which is a `CachedHash` and whose fields never change."""
    computed = cls.__hash__

    def once(self: T) -> int:
        try:
            return self._hash  # type: ignore[attr-defined, no-any-return]
        except AttributeError:
            value = computed(self)
            object.__setattr__(self, "_hash", value)
            return value

    cls.__hash__ = once  # type: ignore[method-assign, assignment]
    return cls
