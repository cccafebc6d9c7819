"""Facts about views that a gateway learns from pods, since it has no catalog.

*Theory*: a pod without a fully materialized view refuses requests for it (``misdirected``), and a response with
Vary: Authorization depends on the client. Both facts are cached for a while, so that the next request is sent to the
right shard at once; for a view that is replaced they are learned again.

*Invariants*: cached facts decide which pod is asked, never the answer. Names come from clients; only those that pods
know are cached, up to a limit.
"""

import time
from hashlib import blake2b

from service.web.messages import Headers

_REMEMBERED_S = 60.0
_MOST = 10_000
_DIGEST_BYTES = 16


class LearnedViews:
    """*State*: `_whole`, shards of fully materialized views, and the times until which they are cached; `_private`,
    views whose answers depend on the client."""

    def __init__(self) -> None:
        self._whole: dict[str, tuple[int, float]] = {}
        self._private: set[str] = set()

    def whole_home(self, view: str) -> int | None:
        """Return the shard of a fully materialized view, if cached."""
        found = self._whole.get(view)
        if found is None:
            return None
        if found[1] < time.monotonic():
            del self._whole[view]
            return None
        return found[0]

    def learn_whole(self, view: str, shard: int) -> None:
        """Cache the shard of a fully materialized view."""
        if len(self._whole) >= _MOST:
            self._whole.clear()
        self._whole[view] = (shard, time.monotonic() + _REMEMBERED_S)

    def learn_private(self, view: str) -> None:
        """Cache that a view's answers depend on the client."""
        if len(self._private) >= _MOST:
            self._private.clear()
        self._private.add(view)

    def asker(self, view: str, headers: Headers) -> bytes:
        """Return the part of a key that is not a parameter: the token, if answers depend on it."""
        if view not in self._private:
            return b""
        return next((_hashed(value) for name, value in headers if name == b"authorization"), b"")

    def forget_homes(self) -> None:
        """Forget the shards: views may have moved."""
        self._whole.clear()


def _hashed(token: bytes) -> bytes:
    return blake2b(token, digest_size=_DIGEST_BYTES).digest()
