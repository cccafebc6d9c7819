"""Interface of a peer's backend: where its rows come from, and what a write does beside the database."""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from load.peers.statements import Values

#: A view's name and the values of its parameters.
Read = tuple[str, Values]


class BackendAnswers(NamedTuple):
    """JSON arrays of rows, in the reads' order; `hit`: all of them from the cache, None: there is none."""

    rows: Sequence[bytes]
    hit: bool | None


class Backend(Protocol):
    async def open(self) -> None:
        """Connects; before the first request."""
        ...

    async def read(self, reads: Sequence[Read]) -> BackendAnswers:
        """The rows of one key or of several."""
        ...

    async def write(self, name: str, values: Values) -> str:
        """Writes and commits; the version that reads show it from."""
        ...
