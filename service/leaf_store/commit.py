"""One commit of the leaf store: leaf effects applied inside one LMDB write transaction.

Not here: when to commit and what else a commit carries (`writer`); the bytes (`layout`).
"""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import lmdb

from dataflow.engine.effects import (
    LeafChange,
    LeafClear,
    LeafDrop,
    LeafEffect,
    LeafEvict,
    LeafExtend,
    LeafFill,
    LeafFillAll,
    LeafForget,
    LeafLoaded,
)
from dataflow.errors import InvariantViolation
from dataflow.types import Key, Position, Row, ViewId
from service.leaf_store.encoder import ViewEncoder, counted, has_copies
from service.leaf_store.layout import (
    ENTRY,
    ENTRY_BYTES,
    HASH_BYTES,
    INLINE,
    MARK,
    MAX_KEY_BYTES,
    PART,
    PLAIN,
    RECORD_OVERHEAD_BYTES,
    ROWS_SLICE,
    SPECIAL,
    SPECIAL_ROW,
    dump_places,
    entry_key,
    row_key,
    special_value,
    split_special,
)
from service.leaf_store.transaction import Cursor, LeafTransaction

#: Rows of a partly covered key from which on its changes are reported, so that it can be cut back to what is read.
LARGE_PART_ROWS = 200
_MASK = (1 << 8 * HASH_BYTES) - 1
#: Suffix, JSON and multiplicity (or a change of it) of one distinct row.
_Item = tuple[bytes, bytes, int]


@dataclass(frozen=True, slots=True)
class StoredRecords:
    """Records of a view as another store had them, without its head (`LeafWriter.records`)."""

    view: ViewId
    records: Sequence[tuple[bytes, bytes]]


class _Entry:
    """An entry during a change: the contents of its record. `part` follows the header, for kind PART."""

    __slots__ = ("hash", "name", "part", "records", "rows", "special")

    def __init__(self, name: bytes, part: bytes = b"") -> None:
        self.name = name
        self.hash = 0
        self.part = part
        self.records = self.rows = self.special = 0


class Commit:
    """Applies effects in one write transaction.

    *Maintains*: `grown`, the growth of each view in bytes; `large`, the changed partly covered keys with many rows,
    and their numbers; `failed`, the views with a row that cannot be encoded, and the error. A failed view's records
    are removed, and later effects on it are ignored.
    """

    def __init__(
        self,
        txn: LeafTransaction,
        encoders: Mapping[ViewId, ViewEncoder],
        since: Position,
        failed: Mapping[ViewId, Exception],
    ) -> None:
        self._txn = txn
        self._encoders = encoders
        self._since = since
        self.grown: defaultdict[ViewId, int] = defaultdict(int)
        self.failed = dict(failed)
        self.large: dict[tuple[ViewId, Key], int] = {}
        self._apply: dict[type, Callable[[Any], None]] = {
            LeafFill: self.fill,
            LeafExtend: self.extend,
            LeafFillAll: self.fill_all,
            LeafChange: self.change,
            LeafClear: self.clear,
            LeafEvict: self.evict,
            LeafLoaded: self.loaded,
            LeafDrop: self.forget,
            LeafForget: self.forget,
            StoredRecords: self.restore,
        }

    def apply(self, effect: LeafEffect | StoredRecords) -> None:
        if effect.view in self.failed and type(effect) is not LeafDrop:
            return
        try:
            self._apply[type(effect)](effect)
        except (InvariantViolation, lmdb.Error):
            raise
        except Exception as error:
            self.failed[effect.view] = error
            self._erase_view(self._encoder(effect.view).head)

    def fill(self, effect: LeafFill) -> None:
        """Cover the key with exactly these rows."""
        encoder = self._encoder(effect.view)
        if None in effect.key and not encoder.stores_null:
            return
        name = entry_key(encoder.head, effect.key)
        removed = self._erase(name)
        self.grown[effect.view] += self._write(name, encoder.encode_sorted(effect.rows)) - removed

    def extend(self, effect: LeafExtend) -> None:
        """Extend the key's coverage: add these rows; these are all its intervals now."""
        encoder = self._encoder(effect.view)
        if None in effect.key and not encoder.stores_null:
            return
        entry = _Entry(entry_key(encoder.head, effect.key))
        old = self._txn.get(entry.name)
        grown = 0
        if old is not None:
            grown = self._load(entry, old) - (len(entry.name) + len(old) + RECORD_OVERHEAD_BYTES)
        if not effect.covered:
            raise InvariantViolation("a key is extended by an empty set of intervals")
        entry.part = dump_places(encoder.places(effect.covered))
        for item in encoder.encode_bag(effect.rows):
            grown += self._change_row(entry, *item)
        self.grown[effect.view] += grown + self._put_entry(entry)

    def fill_all(self, effect: LeafFillAll) -> None:
        """Cover every key of the view; these have rows."""
        encoder = self._encoder(effect.view)
        removed = self._erase_view(encoder.head)
        grown = self._put(encoder.head, MARK.pack(self._since)) - removed
        names = [(entry_key(encoder.head, key), rows) for key, rows in effect.rows.items() if rows and None not in key]
        # In the order of the tree, so that pages are filled sequentially.
        for name, rows in sorted(names):
            grown += self._write(name, encoder.encode_sorted(rows))
        self.grown[effect.view] += grown

    def loaded(self, effect: LeafLoaded) -> None:
        """Mark a view that was written in slices as exact from this commit on, for keys of any age."""
        head = self._encoder(effect.view).head
        if self._txn.get(head) is None:
            raise InvariantViolation(f"view {effect.view} is loaded, but has no mark of full coverage")
        self._txn.put(head, MARK.pack(self._since))

    def change(self, effect: LeafChange) -> None:
        """Change rows of covered keys. This is the package's loop that must be fast."""
        encoder = self._encoder(effect.view)
        head, encode = encoder.head, encoder.encode
        get, put, pack, since = self._txn.get, self._txn.put, ENTRY.pack, self._since
        grown = 0
        for key, (removed, added) in effect.changes.items():
            if None in key and not encoder.stores_null:
                continue
            name = entry_key(head, key)
            old = get(name)
            if len(removed) == 1 == len(added) and old is not None and old[0] == INLINE:
                # The key's only row is replaced: the removed row can only be the present one.
                suffix, json = encode(added[0])
                new = pack(INLINE, since, suffix[-HASH_BYTES:], len(json), 1, 0) + json + suffix[:-HASH_BYTES]
                put(name, new)
                grown += len(new) - len(old)
            else:
                grown += self._change_key(encoder, name, old, removed, added)
                if old is not None and old[0] == PART:
                    rows = int.from_bytes(old[ROWS_SLICE], "big")
                    if rows > LARGE_PART_ROWS:
                        self.large[effect.view, key] = rows
        self.grown[effect.view] += grown

    def clear(self, effect: LeafClear) -> None:
        """Remove the rows of all covered keys, which stay covered."""
        head = self._encoder(effect.view).head
        full = self._txn.get(head) is not None
        names = [] if full else self._entries(head)
        grown = -self._erase_view(head)
        if full:
            grown += self._put(head, MARK.pack(self._since))
        for name, part in names:
            grown += self._put_entry(_Entry(name, part))
        self.grown[effect.view] += grown

    def evict(self, effect: LeafEvict) -> None:
        """Make the key a hole; ``()`` of a full view: all keys."""
        head = self._encoder(effect.view).head
        if effect.key == () and self._txn.get(head) is not None:
            self.grown[effect.view] -= self._erase_view(head)
        else:
            self.grown[effect.view] -= self._erase(entry_key(head, effect.key))

    def forget(self, effect: LeafDrop | LeafForget) -> None:
        """Remove everything of the view."""
        self.grown[effect.view] -= self._erase_view(self._encoder(effect.view).head)

    def restore(self, effect: StoredRecords) -> None:
        """Store records of another store, in any order, for a view that has none of them."""
        head = self._encoder(effect.view).head
        records = [(head + suffix, value) for suffix, value in effect.records]
        with self._txn.cursor() as cursor:
            _, added = cursor.putmulti(records, overwrite=False)
        if added != len(records):
            raise InvariantViolation("a view has records already that are restored")
        grown = sum([len(key) + len(value) for key, value in records])
        self.grown[effect.view] += grown + RECORD_OVERHEAD_BYTES * added

    def _encoder(self, view: ViewId) -> ViewEncoder:
        encoder = self._encoders.get(view)
        if encoder is None:
            raise InvariantViolation(f"a leaf effect of view {view}, which is not registered")
        return encoder

    def _put(self, key: bytes, value: bytes) -> int:
        self._txn.put(key, value)
        return len(key) + len(value) + RECORD_OVERHEAD_BYTES

    def _erase(self, name: bytes) -> int:
        """Remove an entry with its rows, if it exists; return the freed bytes."""
        if self._txn.get(name) is None:
            return 0
        with self._txn.cursor() as cursor:
            cursor.set_key(name)
            kind, _, _, n, _, _ = ENTRY.unpack_from(cursor.value())
            return self._delete_next(cursor, 1 if kind == INLINE else n + 1)

    def _erase_view(self, head: bytes) -> int:
        with self._txn.cursor() as cursor:
            freed = 0
            if cursor.set_range(head):
                # After the last record, a cursor's key is empty.
                while cursor.key().startswith(head):
                    freed += self._delete_next(cursor, 1)
            return freed

    @staticmethod
    def _delete_next(cursor: Cursor, n: int) -> int:
        """Delete the record under the cursor and the following ones, `n` in all; return the freed bytes."""
        freed = 0
        for _ in range(n):
            key, value = cursor.item()
            freed += len(key) + len(value) + RECORD_OVERHEAD_BYTES
            cursor.delete()
        return freed

    def _entries(self, head: bytes) -> list[tuple[bytes, bytes]]:
        """Return the names of a view's entries with their covered intervals."""
        names = []
        with self._txn.cursor() as cursor:
            found = cursor.set_range(head)
            while found:
                key, value = cursor.item()
                if not key.startswith(head):
                    break
                if value[0] in (INLINE, PLAIN, SPECIAL, PART):
                    names.append((key, value[ENTRY_BYTES:] if value[0] == PART else b""))
                found = cursor.next()
        return names

    def _write(self, name: bytes, items: Sequence[tuple[bytes, bytes]]) -> int:
        """Write a new entry with these rows, which are sorted; return its bytes."""
        if len(items) == 1:
            return self._put_inline(name, *items[0])
        entry = _Entry(name)
        records = [(name + suffix, json) for suffix, json in items]
        if max([len(key) for key, _ in records], default=0) <= MAX_KEY_BYTES and not has_copies(items):
            return self._put_plain(entry, records) + self._put_entry(entry)
        bag = counted(items)
        longest = MAX_KEY_BYTES - len(name)
        grown = self._put_plain(entry, [(name + s, json) for s, json, n in bag if n == 1 and len(s) <= longest])
        others = [item for item in bag if item[2] > 1 or len(item[0]) > longest]
        return grown + sum([self._count_row(entry, *item) for item in others]) + self._put_entry(entry)

    def _put_plain(self, entry: _Entry, records: Sequence[tuple[bytes, bytes]]) -> int:
        """Write the plain rows of a new entry, in the order of their keys; return their bytes."""
        if not records:
            return 0
        with self._txn.cursor() as cursor:
            _, added = cursor.putmulti(records, overwrite=False)
        if added != len(records):
            raise InvariantViolation("a key that is not covered has rows in the leaf")
        entry.rows = entry.records = added
        entry.hash = sum([int.from_bytes(key[-HASH_BYTES:], "big") for key, _ in records])
        return sum(map(len, chain.from_iterable(records))) + RECORD_OVERHEAD_BYTES * added

    def _change_key(
        self, encoder: ViewEncoder, name: bytes, old: bytes | None, removed: Sequence[Row], added: Sequence[Row]
    ) -> int:
        """Change any entry; return its growth in bytes."""
        if old is None and self._txn.get(encoder.head) is None:
            raise InvariantViolation(f"a change of a key that is not covered, in view {encoder.view}")
        grown = 0 if old is None else -(len(name) + len(old) + RECORD_OVERHEAD_BYTES)
        if old is not None and old[0] == INLINE and len(removed) == 1:
            old, removed = None, ()
        items = _net(encoder, removed, added)
        entry = _Entry(name)
        if old is not None:
            grown += self._load(entry, old)
        if entry.records == 0 and len(items) == 1 and items[0][2] == 1 and not entry.part:
            return grown + self._put_inline(name, *items[0][:2])
        for item in items:
            grown += self._change_row(entry, *item)
        if entry.records == 0 and self._txn.get(encoder.head) is not None:
            # In a full view, a key without an entry has no rows.
            self._txn.delete(name)
            return grown
        return grown + self._put_entry(entry)

    def _load(self, entry: _Entry, old: bytes) -> int:
        """Take over an entry's record; the row of an inline entry gets its own record, whose bytes are returned."""
        kind, _, digest, n, entry.rows, entry.special = ENTRY.unpack_from(old)
        if kind == INLINE:
            entry.rows = 0
            row_end = ENTRY_BYTES + n
            return self._count_row(entry, old[row_end:] + digest, old[ENTRY_BYTES:row_end], 1)
        if kind == PART:
            entry.part = old[ENTRY_BYTES:]
        entry.hash = int.from_bytes(digest, "big")
        entry.records = n
        return 0

    def _change_row(self, entry: _Entry, suffix: bytes, json: bytes, change: int) -> int:
        """Do as `_count_row`, with one operation on the tree if the row is plain before and after."""
        if entry.special or len(entry.name) + len(suffix) > MAX_KEY_BYTES:
            return self._count_row(entry, suffix, json, change)
        key = entry.name + suffix
        if change == 1:
            plain = self._txn.put(key, json, overwrite=False)
        elif change == -1:
            plain = self._txn.delete(key)
        else:
            plain = False
        if not plain:
            return self._count_row(entry, suffix, json, change)
        entry.rows += change
        entry.records += change
        entry.hash += change * int.from_bytes(suffix[-HASH_BYTES:], "big")
        return change * (len(key) + len(json) + RECORD_OVERHEAD_BYTES)

    def _count_row(self, entry: _Entry, suffix: bytes, json: bytes, change: int) -> int:
        """Change a row's multiplicity; return its growth in bytes."""
        key = row_key(entry.name, suffix)
        cut = len(entry.name) + len(suffix) > MAX_KEY_BYTES
        old = self._txn.get(key)
        grown = before = 0
        if old is not None:
            before = split_special(old)[0] if old[0] == SPECIAL_ROW else 1
            entry.special -= old[0] == SPECIAL_ROW
            entry.records -= 1
            grown = -(len(key) + len(old) + RECORD_OVERHEAD_BYTES)
        after = before + change
        if after < 0:
            raise InvariantViolation("a leaf effect removes a row that is not in the leaf")
        entry.rows += change
        entry.hash += change * int.from_bytes(suffix[-HASH_BYTES:], "big")
        if after == 0:
            self._txn.delete(key)
            return grown
        special = cut or after > 1
        entry.records += 1
        entry.special += special
        return grown + self._put(key, special_value(after, suffix if cut else b"", json) if special else json)

    def _put_inline(self, name: bytes, suffix: bytes, json: bytes) -> int:
        header = ENTRY.pack(INLINE, self._since, suffix[-HASH_BYTES:], len(json), 1, 0)
        return self._put(name, header + json + suffix[:-HASH_BYTES])

    def _put_entry(self, entry: _Entry) -> int:
        kind = PART if entry.part else SPECIAL if entry.special else PLAIN
        digest = (entry.hash & _MASK).to_bytes(HASH_BYTES, "big")
        header = ENTRY.pack(kind, self._since, digest, entry.records, entry.rows, entry.special)
        return self._put(entry.name, header + entry.part)


def _net(encoder: ViewEncoder, removed: Sequence[Row], added: Sequence[Row]) -> list[_Item]:
    """Return the distinct rows with the changes of their multiplicities, without those that do not change."""
    if len(removed) == 1 == len(added):
        old, new = encoder.encode(removed[0]), encoder.encode(added[0])
        return [] if old == new else [(*new, 1), (*old, -1)]
    changes: dict[tuple[bytes, bytes], int] = {}
    for row in added:
        item = encoder.encode(row)
        changes[item] = changes.get(item, 0) + 1
    for row in removed:
        item = encoder.encode(row)
        changes[item] = changes.get(item, 0) - 1
    return [(suffix, json, change) for (suffix, json), change in changes.items() if change]
