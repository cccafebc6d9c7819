"""The bytes of the leaf store: one LMDB database, everything of a view under one prefix.

======================  ==========================================================================================
key                     value
======================  ==========================================================================================
``m``                   meta: position, wall time in ms, catalog version, epoch
``c``                   the catalog (`catalog`)
``v`` id                mark of a full view: every key is covered
``v`` id entry          entry of a covered key: kind, unchanged since, content hash, counts (and the row, if it is one)
``v`` id entry suffix   a row of that key: its JSON object, ready to send
======================  ==========================================================================================

*entry* is ``00`` and the key's normal forms, each closed by a zero byte; or ``01``, the first bytes of that and a hash,
if it is long. No entry is a prefix of another, so an entry and its rows are one range scan, and the entry says how many
records follow. *suffix* orders the rows: order columns, then the row's hash; cut and hashed if the key is too long.

*Invariants*: an entry's counts and content hash agree with the rows behind it; the content hash is the sum of the rows'
hashes mod 2**128, so it does not depend on how the rows got there. A row whose JSON is not all of its value (it occurs
several times, or its suffix was cut) is *special*, and an entry with special rows is of kind SPECIAL.
"""

from hashlib import blake2b
from struct import Struct

from dataflow.types import Key, ViewId

META_KEY = b"m"
CATALOG_KEY = b"c"
#: LMDB's limit for a key.
MAX_KEY_BYTES = 511
#: Longer entries are hashed: leaves half of a record's key for the order columns.
MAX_ENTRY_BYTES = 255
#: What LMDB keeps per record besides key and value: node header, page pointer, and its share of a page's free space.
RECORD_OVERHEAD_BYTES = 24

#: Kind of an entry: its one row is in it; its rows follow, all plain; its rows follow, some special.
INLINE, PLAIN, SPECIAL = 1, 2, 3
#: kind, unchanged since, content hash, n, rows (with multiplicity), special records.
#: n: of an INLINE entry the bytes of the row's JSON, which its order bytes follow; else the records that follow.
ENTRY = Struct(">BQ16sIII")
ENTRY_BYTES = ENTRY.size
#: Where the content hash is in an entry, and n.
HASH_SLICE = slice(9, 25)
COUNT_SLICE = slice(25, 29)

META = Struct(">QQI")
MARK = Struct(">Q")

#: First byte of a special row's value; a plain one starts with "{", an entry with its kind.
SPECIAL_ROW = 4
#: first byte, multiplicity, bytes of the full suffix (0: the record's key has it); the suffix and the JSON follow.
SPECIAL_HEADER = Struct(">BII")

HASH_BYTES = 16
#: The sum of hashes must not be steerable by who writes rows, and must be the same on every worker, shard and version.
_hasher = blake2b(digest_size=HASH_BYTES, key=b"upquery leaf store rows, format 1").copy


def content_hash(data: bytes) -> bytes:
    """The keyed hash of a row, or of a whole answer."""
    state = _hasher()
    state.update(data)
    return state.digest()


def view_head(view: ViewId) -> bytes:
    """What every key of a view's records starts with, and the key of its mark."""
    return b"v" + view.to_bytes(4, "big")


def entry_key(head: bytes, key: Key) -> bytes:
    """The key of the entry for `key`, which has no NULL (TypeError): NULL equals nothing, nothing is stored for it."""
    raw = "\0".join(key).encode() + b"\0"  # type: ignore[arg-type]
    if len(raw) > MAX_ENTRY_BYTES - len(head) or raw.count(0) != (len(key) or 1):
        # Long, or with a zero byte inside a value (no PostgreSQL text has one): as wide as any other of this form.
        exact = b"".join(b"%d:%b" % (len(part), part) for part in (str(text).encode() for text in key))
        return head + b"\x01" + raw[:64].ljust(64, b"\0") + content_hash(exact)
    return head + b"\x00" + raw


def row_key(entry: bytes, suffix: bytes) -> bytes:
    """The key of a row's record. Differs from ``entry + suffix`` if that is too long."""
    if len(entry) + len(suffix) <= MAX_KEY_BYTES:
        return entry + suffix
    return entry + suffix[: MAX_KEY_BYTES - len(entry) - HASH_BYTES] + content_hash(suffix)


def special_value(multiplicity: int, suffix: bytes, json: bytes) -> bytes:
    """The value of a special row; `suffix` is empty if the record's key has all of it."""
    return SPECIAL_HEADER.pack(SPECIAL_ROW, multiplicity, len(suffix)) + suffix + json


def split_special(value: bytes) -> tuple[int, bytes, bytes]:
    """Multiplicity, full suffix (empty: see the key) and JSON of a special row's value."""
    _, multiplicity, n = SPECIAL_HEADER.unpack_from(value)
    start = SPECIAL_HEADER.size
    return multiplicity, value[start : start + n], value[start + n :]
