"""Pages of an ordered view's key: where one ends, and the token that says so."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from dataclasses import dataclass
from struct import Struct, error

_TOKEN = Struct(">BII")
_FORMAT = 1


@dataclass(frozen=True, slots=True)
class Place:
    """Behind a row: `rank` rows of the view's own LIMIT are used up, and the last of them was the `copy`-th (from 1) of
    the equal rows with this suffix."""

    rank: int
    copy: int
    suffix: bytes


def write_token(place: Place) -> str:
    """The token of a place; opaque to clients."""
    return urlsafe_b64encode(_TOKEN.pack(_FORMAT, place.rank, place.copy) + place.suffix).decode().rstrip("=")


def read_token(token: str) -> Place:
    """The place of a token; ValueError if it is none of ours."""
    try:
        data = urlsafe_b64decode(token + "=" * (-len(token) % 4))
        version, rank, copy = _TOKEN.unpack_from(data)
    except error as reason:
        raise ValueError("too short") from reason
    if version != _FORMAT or write_token(Place(rank, copy, data[_TOKEN.size :])) != token:
        raise ValueError("not a token of this service")
    return Place(rank, copy, data[_TOKEN.size :])
