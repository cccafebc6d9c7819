"""Page tokens: only what was written here is read."""

from base64 import urlsafe_b64decode, urlsafe_b64encode

import pytest

from service.leaf_store.layout import HASH_BYTES
from service.leaf_store.pages import Place, read_token, write_token
from service.leaf_store.request import CHECK_BYTES

CHECK = b"c" * CHECK_BYTES
PLACE = Place(3, 1, b"place" + b"h" * HASH_BYTES)


def test_a_token_is_read_as_it_was_written() -> None:
    assert read_token(write_token(PLACE, CHECK), CHECK) == PLACE


@pytest.mark.parametrize("forged", [slice(1, 9), slice(9, 13)])
def test_numbers_that_no_page_has_are_refused(forged: slice) -> None:
    token = write_token(PLACE, CHECK)
    data = bytearray(urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    data[forged] = b"\xff" * (forged.stop - forged.start)
    with pytest.raises(ValueError, match="not a token"):
        read_token(urlsafe_b64encode(bytes(data)).decode().rstrip("="), CHECK)


def test_another_read_s_token_is_refused() -> None:
    with pytest.raises(ValueError, match="not a token"):
        read_token(write_token(PLACE, CHECK), b"d" * CHECK_BYTES)
