"""What a gateway has learned of views: it has no catalog, and needs none.

*Theory*: pods say what matters. One that does not keep a view whole refuses it (``misdirected``), and a response that
varies by token is one client's. Both are remembered for a while, so that the next request goes to the right place at
once; a view that is replaced by another kind is found out again.

*Invariants*: what is remembered decides who is asked, never what is answered. Names come from clients; only those that
pods know are remembered, and no more than so many.
"""

import time
from hashlib import blake2b

from service.web.messages import Headers

_REMEMBERED_S = 60.0
_MOST = 10_000
_DIGEST_BYTES = 16


class LearnedViews:
    """*State*: `_whole`, where views are that are kept whole, and until when that is believed; `_private`, those that
    answer by the token."""

    def __init__(self) -> None:
        self._whole: dict[str, tuple[int, float]] = {}
        self._private: set[str] = set()

    def whole_home(self, view: str) -> int | None:
        """The shard that keeps it whole, if it is known to be."""
        found = self._whole.get(view)
        if found is None:
            return None
        if found[1] < time.monotonic():
            del self._whole[view]
            return None
        return found[0]

    def learn_whole(self, view: str, shard: int) -> None:
        """It was found there."""
        if len(self._whole) >= _MOST:
            self._whole.clear()
        self._whole[view] = (shard, time.monotonic() + _REMEMBERED_S)

    def learn_private(self, view: str) -> None:
        """Its answers are one client's."""
        if len(self._private) >= _MOST:
            self._private.clear()
        self._private.add(view)

    def asker(self, view: str, headers: Headers) -> bytes:
        """What of a request besides its parameters says which key it means: whose token it has, if that matters."""
        if view not in self._private:
            return b""
        return next((_hashed(value) for name, value in headers if name == b"authorization"), b"")

    def forget_homes(self) -> None:
        """Views may be elsewhere by now."""
        self._whole.clear()


def _hashed(token: bytes) -> bytes:
    return blake2b(token, digest_size=_DIGEST_BYTES).digest()
