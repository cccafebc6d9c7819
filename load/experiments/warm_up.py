"""Reads keys before a measurement, many in one request, so that they are in memory."""

from collections.abc import Iterable, Iterator
from itertools import islice
from time import monotonic
from typing import Any

from load.driver.connection import SingleConnection
from load.driver.visit import HttpReply, read_keys
from load.progress import Tell, bar
from load.sides.side import Side, SideError

_KEYS_A_REQUEST = 500
_PATIENCE_S = 120.0
_TIMED_OUT = 504


def read_all(side: Side, view: str, keys: Iterable[dict[str, Any]], count: int, tell: Tell) -> None:
    """Read `count` keys of a view, in their order. Raises `SideError`, and what `SingleConnection.ask` raises."""
    done = 0
    with SingleConnection(side.reads_url, side.writes_url, _PATIENCE_S) as connection:
        for some in _chunks(keys):
            reply = _asked(connection, view, some)
            if reply.status != 200:
                raise SideError(f"reading {view}: {reply.status} {reply.body[:300].decode(errors='replace')}")
            done += len(some)
            tell(f"{side.name}: reading the hottest keys first {bar(done / count)} {done:,}")


def _asked(connection: SingleConnection, view: str, keys: list[dict[str, Any]]) -> HttpReply:
    """The reply; what takes longer than the side lets one request wait is asked for again, since it goes on with it."""
    deadline = monotonic() + _PATIENCE_S
    while (reply := connection.ask(read_keys(view, keys))).status == _TIMED_OUT and monotonic() < deadline:
        pass
    return reply


def _chunks(keys: Iterable[dict[str, Any]]) -> Iterator[list[dict[str, Any]]]:
    source = iter(keys)
    while some := list(islice(source, _KEYS_A_REQUEST)):
        yield some
