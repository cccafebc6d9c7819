"""The bytes of the leaf store: one LMDB database, everything of a view under one prefix.

======================  ==========================================================================================
key                     value
======================  ==========================================================================================
``m``                   meta: position, wall time in ms, catalog version, one by one since, epoch
``c``                   the catalog (`catalog`)
``p`` ``q``             meta and catalog of the session before, while its records are set aside (`previous`)
``d``                   what is stored may be wrong, since the engine has failed
``w`` digest            a collation that the catalog names (`collations`)
``v`` id                mark of a full view: every key is covered, and exact since a position
``v`` id entry          entry of a covered key: kind, unchanged since, content hash, counts (and the row, if it is one)
``v`` id entry suffix   a row of that key: its JSON object, ready to send
======================  ==========================================================================================

*entry* is ``00`` and the key's normal forms, each closed by a zero byte; or ``01``, the first bytes of that and a hash,
if it is long; or ``02`` and the same, if it has a NULL. No entry is a prefix of another, so an entry and its rows are
one range scan, and the entry says how many records follow. *suffix* orders the rows: the order columns' bytes (where
answers are not in that order, also how many of them are only the store's), then the row's hash; cut and hashed if the
key is too long.

A key that is covered in part has an entry of kind PART, which its intervals follow; its rows are never in the entry.

*Invariants*: an entry's counts and content hash agree with the rows behind it; the content hash is the sum of the rows'
hashes mod 2**128, so it does not depend on how the rows got there. A row whose JSON is not all of its value (it occurs
several times, or its suffix was cut) is *special*, and an entry with special rows is of kind SPECIAL.
"""

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import product
from struct import Struct

from dataflow.types import Key, Value, ViewId

META_KEY = b"m"
CATALOG_KEY = b"c"
#: The last id given to a view; preserved by a reset.
LAST_ID_KEY = b"n"
PREVIOUS_META_KEY = b"p"
PREVIOUS_CATALOG_KEY = b"q"
COLLATION_HEAD = b"w"
VIEWS_HEAD = b"v"
DOUBT_KEY = b"d"
#: LMDB's limit for a key.
MAX_KEY_BYTES = 511
#: Longer entries are hashed: this leaves half of a record's key for the order columns.
MAX_ENTRY_BYTES = 255
#: LMDB's overhead per record besides key and value: node header, page pointer, and a share of a page's free space.
RECORD_OVERHEAD_BYTES = 24
#: Bytes of an entry's name before its key.
HEAD_BYTES = 5

#: Kinds of entries: one row inside the entry; rows follow, all plain; rows follow, some special; rows of some intervals
#: follow, some of them special if the count says so.
INLINE, PLAIN, SPECIAL, PART = 1, 2, 3, 5
_KINDS = frozenset({INLINE, PLAIN, SPECIAL, PART})
#: kind, unchanged since, content hash, n, rows (with multiplicity), special records.
#: n: of an INLINE entry the bytes of the row's JSON, which its order bytes follow; else the records that follow.
ENTRY = Struct(">BQ16sIII")
ENTRY_BYTES = ENTRY.size
#: Position since which an entry is unchanged.
SINCE_SLICE = slice(1, 9)
#: Content hash of an entry; the field n follows.
HASH_SLICE = slice(9, 25)
COUNT_SLICE = slice(25, 29)
#: Numbers of rows and of special records.
ROWS_SLICE = slice(29, 33)
SPECIAL_SLICE = slice(33, 37)
#: For each interval of a PART entry: lengths of its start and of its end (all ones: no end); both follow.
INTERVAL = Struct(">II")
_NO_END = (1 << 32) - 1
#: Places of the first row of an interval and of the first row after it (None: no end).
Places = tuple[bytes, bytes | None]
#: A row's suffix, JSON and number of copies.
Record = tuple[bytes, bytes, int]

META = Struct(">QQIQ")
LAST_ID = Struct(">I")
MARK = Struct(">Q")

#: First byte of a special row's value; a plain row's value starts with "{", an entry with its kind.
SPECIAL_ROW = 4
#: First byte, multiplicity, length of the full suffix (0: the record's key contains it); the suffix and the JSON
#: follow.
SPECIAL_HEADER = Struct(">BII")

HASH_BYTES = 16
#: Writers of rows must not be able to steer the sum of hashes, which is equal on every worker, shard and version.
_hasher = blake2b(digest_size=HASH_BYTES, key=b"upquery leaf store rows, format 1").copy


def content_hash(data: bytes) -> bytes:
    """Return the keyed hash of a row, or of a whole answer."""
    state = _hasher()
    state.update(data)
    return state.digest()


def view_head(view: ViewId) -> bytes:
    """Return the prefix of the keys of a view's records, which is also the key of its mark."""
    return VIEWS_HEAD + view.to_bytes(4, "big")


#: As long as any head: whether a name is hashed depends on its length.
_ANY_HEAD = view_head(ViewId(0))


def entry_key(head: bytes, key: Key) -> bytes:
    """Return the key of the entry for `key`."""
    try:
        raw = "\0".join(key).encode() + b"\0"  # type: ignore[arg-type]
    except TypeError:
        return head + b"\x02" + _hashed(key, b"")
    if len(head) + 1 + len(raw) > MAX_ENTRY_BYTES or raw.count(0) != (len(key) or 1):
        # Long, or with a zero byte inside a value (no PostgreSQL text has one).
        return head + b"\x01" + _hashed(key, raw)
    return head + b"\x00" + raw


def key_part(key: Key) -> bytes:
    """Return the part of an entry's name that is equal in all leaf stores: without the view's id."""
    return entry_key(_ANY_HEAD, key)[HEAD_BYTES:]


def entry_keys(head: bytes, parts: Sequence[Sequence[Value]]) -> list[bytes]:
    """Return the keys of the entries for all combinations of these values, which contain no zero bytes."""
    names = [head + b"\x00"]
    try:
        for values in parts:
            ends = [value.encode() + b"\0" for value in values]  # type: ignore[union-attr]
            names = [name + end for name in names for end in ends]
    except AttributeError:
        # NULL is among them.
        names = []
    if not parts or not names or max(map(len, names)) > MAX_ENTRY_BYTES:
        return [entry_key(head, key) for key in product(*parts)]
    return names


def view_of(entry: bytes) -> ViewId:
    """Return the view of an entry, from its key."""
    return ViewId(int.from_bytes(entry[1:HEAD_BYTES], "big"))


def is_hashed(entry: bytes) -> bool:
    """Return whether the view's key cannot be decoded from an entry's key."""
    return entry[HEAD_BYTES] != 0


def is_entry(value: bytes) -> bool:
    """Return whether a record with this value is a key's entry, whose rows follow it, and not a row."""
    return value[0] in _KINDS


def key_in(entry: bytes) -> Key:
    """Return the view's key, of at least one part, from an entry's key."""
    return tuple(entry[HEAD_BYTES + 1 : -1].decode().split("\0"))


def _hashed(key: Key, raw: bytes) -> bytes:
    texts = [None if text is None else text.encode() for text in key]
    exact = b"".join([b"null:" if text is None else b"%d:%b" % (len(text), text) for text in texts])
    return raw[:64].ljust(64, b"\0") + content_hash(exact)


def row_key(entry: bytes, suffix: bytes) -> bytes:
    """Return the key of a row's record. It differs from ``entry + suffix`` if that is too long."""
    if len(entry) + len(suffix) <= MAX_KEY_BYTES:
        return entry + suffix
    return entry + suffix[: MAX_KEY_BYTES - len(entry) - HASH_BYTES] + content_hash(suffix)


def special_value(multiplicity: int, suffix: bytes, json: bytes) -> bytes:
    """Return the value of a special row; `suffix` is empty if the record's key contains it."""
    return SPECIAL_HEADER.pack(SPECIAL_ROW, multiplicity, len(suffix)) + suffix + json


def split_special(value: bytes) -> tuple[int, bytes, bytes]:
    """Return multiplicity, full suffix (empty: see the key) and JSON of a special row's value."""
    _, multiplicity, n = SPECIAL_HEADER.unpack_from(value)
    start = SPECIAL_HEADER.size
    return multiplicity, value[start : start + n], value[start + n :]


def dump_places(places: Iterable[Places]) -> bytes:
    """Return the bytes after a PART entry's header."""
    return b"".join(
        INTERVAL.pack(len(start), _NO_END if end is None else len(end)) + start + (end or b"") for start, end in places
    )


def load_places(entry: bytes) -> list[Places]:
    """Return the intervals of a PART entry."""
    places = []
    at = ENTRY_BYTES
    while at < len(entry):
        start_bytes, end_bytes = INTERVAL.unpack_from(entry, at)
        at += INTERVAL.size
        behind = at + start_bytes
        end = None if end_bytes == _NO_END else entry[behind : behind + end_bytes]
        places.append((entry[at:behind], end))
        at = behind + len(end or b"")
    return places
