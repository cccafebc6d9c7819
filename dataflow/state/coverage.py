"""The complete keys of an index. A key that is not covered is a *hole*."""

from collections.abc import Iterator, Sequence
from sys import getsizeof
from typing import Any

from dataflow.plan.parts import WHOLE, Interval
from dataflow.sizing import BUCKET_BYTES, CROWDED_BYTES, FEW, keys_bytes, shared_number, texts_bytes, tuple_bytes
from dataflow.types import Columns, Key


class Coverage:
    """The covered keys of one column set, in the order in which they were covered.

    *Maintains*: every partial index of `_agreeing` holds exactly the covered keys.
    """

    __slots__ = ("_agreeing", "_indexed", "_is_read", "columns", "keys", "shares_keys", "text_bytes")

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        #: Of a view, with about how many bytes their rows take (`engine.ranking`); otherwise with 0, or, if `_indexed`,
        #: with the buckets of an index (None: no rows).
        self.keys: dict[Key, Any] = {}
        #: Whether `keys` are the buckets of an index, which has every covered key.
        self._indexed = False
        #: For some positions of the key: values there -> covered keys that have them. Built when first asked for.
        self._agreeing: dict[tuple[int, ...], dict[Key, dict[Key, None]]] = {}
        #: What the keys' texts take.
        self.text_bytes = 0
        #: Whether all keys are objects of another coverage, which is filled by way of this one.
        self.shares_keys = self._is_read = False

    def __contains__(self, key: Key) -> bool:
        return key in self.keys

    def __iter__(self) -> Iterator[Key]:
        return iter(self.keys)

    def __len__(self) -> int:
        return len(self.keys)

    def add(self, key: Key) -> None:
        """Covers `key`."""
        if key not in self.keys:
            self.text_bytes += texts_bytes(key)
            self.keys[key] = None if self._indexed else 0
        for positions, partial in self._agreeing.items():
            partial.setdefault(tuple(key[p] for p in positions), {})[key] = None

    def read_by_route(self, *, whole_key: bool) -> None:
        """Notes another route that fills keys; `whole_key`: they are those of the coverage that it fills."""
        self.shares_keys = whole_key and (self.shares_keys or not self._is_read)
        self._is_read = True

    def restore(self, keys: Sequence[Key], sizes: Sequence[int]) -> None:
        """Covers keys, which are all holes, with so many bytes each."""
        self.text_bytes += keys_bytes(keys)
        self.keys.update(dict.fromkeys(keys) if self._indexed else zip(keys, map(shared_number, sizes), strict=True))
        self._agreeing.clear()

    def sizes(self, keys: Sequence[Key]) -> list[int]:
        """About how many bytes the rows of covered keys take, where somebody notes it; else 0."""
        return [0] * len(keys) if self._indexed else [self.keys[key] for key in keys]

    def be_index(self, buckets: dict[Key, Any]) -> None:
        """Has the buckets of an index as its keys from now on: each bucket is that of a covered key."""
        self.keys, self._indexed = buckets, True

    def be_apart(self) -> None:
        """Has keys of its own again."""
        self.keys, self._indexed = dict.fromkeys(self.keys, 0), False

    def discard(self, key: Key) -> None:
        """Makes `key` a hole."""
        if key in self.keys:
            del self.keys[key]
            self.text_bytes -= texts_bytes(key)
        for positions, partial in self._agreeing.items():
            part = tuple(key[p] for p in positions)
            agreeing = partial.get(part)
            if agreeing is not None:
                agreeing.pop(key, None)
                if not agreeing:
                    del partial[part]

    def state_bytes(self) -> int:
        """About what the keys take, but for their texts."""
        partial = sum(map(self._partial_bytes, self._agreeing))
        per_key = 0 if self.shares_keys else tuple_bytes(len(self.columns))
        table = 0 if self._indexed else getsizeof(self.keys)
        return table + per_key * len(self.keys) + partial

    def _partial_bytes(self, positions: tuple[int, ...]) -> int:
        partial = self._agreeing[positions]
        crowded = max(0, len(self.keys) - FEW * len(partial))
        per_part = BUCKET_BYTES + tuple_bytes(len(positions))
        return getsizeof(partial) + per_part * len(partial) + CROWDED_BYTES * crowded

    def covered(self, key: Key) -> tuple[Interval, ...]:
        """The covered intervals of a key that is not a hole."""
        del key
        return (WHOLE,)

    def agreeing(self, positions: tuple[int, ...], part: Key) -> list[Key]:
        """The covered keys whose values at `positions` are `part`."""
        if len(positions) == len(self.columns):
            key = _in_order(positions, part)
            return [key] if key in self.keys else []
        if not positions:
            return list(self.keys)
        return list(self._partial(positions).get(part, ()))

    def agrees(self, positions: tuple[int, ...], part: Key) -> bool:
        """Return whether there is any such key."""
        if len(positions) == len(self.columns):
            return _in_order(positions, part) in self.keys
        return part in self._partial(positions) if positions else bool(self.keys)

    def _partial(self, positions: tuple[int, ...]) -> dict[Key, dict[Key, None]]:
        partial = self._agreeing.get(positions)
        if partial is None:
            partial = self._agreeing[positions] = {}
            for key in self.keys:
                partial.setdefault(tuple(key[p] for p in positions), {})[key] = None
        return partial


def _in_order(positions: tuple[int, ...], part: Key) -> Key:
    by_position = dict(zip(positions, part, strict=True))
    return tuple(by_position[p] for p in range(len(part)))
