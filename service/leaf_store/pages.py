"""Pages of a read: their rows, their ends, and the tokens of the next pages.

A token is opaque to clients: format, rank in the view's own LIMIT, a check that ties it to its read (the view's SQL
and the parameters' values), and the last row's suffix, from which the place in the order is restored
(`Ordering.cut_of_place`).
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from struct import Struct, error

from service.leaf_store.answer import StoredAnswer
from service.leaf_store.layout import HASH_BYTES, Record, content_hash
from service.leaf_store.request import CHECK_BYTES, LeafRequest

_TOKEN = Struct(f">BQI{CHECK_BYTES}s")
_FORMAT = 2
#: No answer has more: a token with more was not made here, and its next token could not be written.
_MAX_RANK, _MAX_COPY = 1 << 62, 1 << 31


@dataclass(frozen=True, slots=True)
class Place:
    """The place after a row: `rank` rows of the view's own LIMIT precede it, and the last of them was the `copy`-th
    (from 1) of the equal rows with this suffix."""

    rank: int
    copy: int
    suffix: bytes


def write_token(place: Place, check: bytes) -> str:
    """Return the token of a place in a read's answers."""
    return urlsafe_b64encode(_TOKEN.pack(_FORMAT, place.rank, place.copy, check) + place.suffix).decode().rstrip("=")


def read_token(token: str, check: bytes) -> Place:
    """Return the place of a token. Raises ValueError if it does not belong to this read."""
    try:
        data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        version, rank, copy, _ = _TOKEN.unpack_from(data)
    except error as reason:
        raise ValueError("too short") from reason
    place = Place(rank, copy, data[_TOKEN.size :])
    possible = rank < _MAX_RANK and copy < _MAX_COPY and len(place.suffix) >= HASH_BYTES
    if version != _FORMAT or not possible or write_token(place, check) != token:
        raise ValueError("not a token of this read")
    return place


@dataclass(frozen=True, slots=True)
class PageBounds:
    """Bounds of a page: rows to skip, maximum rows (None: unlimited), and whether the page uses up the LIMIT, so
    that no page can follow."""

    skip: int
    rows: int | None
    last: bool


def page_bounds(request: LeafRequest, start: Place | None) -> PageBounds:
    """Return the bounds of the requested page."""
    skip = request.offset_rows if start is None else 0
    rank = 0 if start is None else start.rank
    left = None if request.limit_rows is None else max(0, request.limit_rows - rank)
    asked = None if request.window is None else request.window.limit_rows
    if asked is None or (left is not None and left <= asked):
        return PageBounds(skip, left, last=True)
    return PageBounds(skip, asked, last=False)


def page_of(records: Iterable[Record], request: LeafRequest, start: Place | None, check: bytes) -> StoredAnswer:
    """Return the page of `records`, which are in order and begin with the row of `start`, if given."""
    bounds = page_bounds(request, start)
    skip, wanted, full = bounds.skip, bounds.rows, bounds.rows if bounds.last else None
    page: list[bytes] = []
    if wanted == 0:
        return _page(page, None)
    # Copies of a row may be in several records, of several keys; an earlier page had `used` of them.
    current, copy, used = b"", 0, 0
    last_suffix, last_copy = b"", 0
    for suffix, json, copies in records:
        if suffix != current:
            current, copy = suffix, 0
            used = start.copy if start is not None and start.suffix == suffix else 0
        for _ in range(copies):
            copy += 1
            if copy <= used:
                continue
            if skip:
                skip -= 1
                continue
            if len(page) == wanted:
                rank = len(page) + (0 if start is None else start.rank)
                return _page(page, write_token(Place(rank, last_copy, last_suffix), check))
            page.append(json)
            last_suffix, last_copy = suffix, copy
            if len(page) == full:
                return _page(page, None)
    return _page(page, None)


def _page(page: list[bytes], token: str | None) -> StoredAnswer:
    rows = b",".join(page)
    tagged = rows if token is None else rows + b"\0" + token.encode()
    return StoredAnswer(b"[" + rows + b"]", content_hash(tagged).hex(), token)
