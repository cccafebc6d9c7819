"""Rows packed as bytes: a row of six short texts takes a third of what the tuple and its texts do.

Not here: which rows are packed (`materialization`).
"""

import marshal
from collections.abc import Callable, ItemsView, Iterator, Mapping, ValuesView

from dataflow.types import Row

#: The last version that writes equal rows as equal bytes; later ones depend on which texts are shared.
_VERSION = 2


def pack(row: Row) -> bytes:
    """The row as bytes, which are equal exactly if rows are."""
    return marshal.dumps(row, _VERSION)


#: The row that bytes are, of new texts. Without a function of our own around it, which would take longer.
unpack: Callable[[bytes], Row] = marshal.loads


class PackedBag(Mapping[Row, int]):
    """A bag whose rows are unpacked as they are asked for. Sees what becomes of the bag."""

    __slots__ = ("_bag",)

    def __init__(self, bag: dict[bytes, int]) -> None:
        self._bag = bag

    def __len__(self) -> int:
        return len(self._bag)

    def __iter__(self) -> Iterator[Row]:
        return map(unpack, self._bag)

    def __getitem__(self, row: Row) -> int:
        return self._bag[pack(row)]

    def __contains__(self, row: object) -> bool:
        return isinstance(row, tuple) and pack(row) in self._bag

    def values(self) -> ValuesView[int]:
        return self._bag.values()

    def items(self) -> ItemsView[Row, int]:
        return PackedItems(self)


class PackedItems(ItemsView[Row, int]):
    """Rows with their multiplicities, in one pass."""

    _mapping: PackedBag

    def __iter__(self) -> Iterator[tuple[Row, int]]:
        return zip(self._mapping, self._mapping.values(), strict=True)
