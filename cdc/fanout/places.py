"""Places at which the receivers of a hub continue: the stream begins at the earliest of them.

*Theory*: receivers that stopped together had applied different parts of the log. A stream that begins at the earliest
place has what follows every other one, if those are places of the same log; each receiver skips what ends at or before
its own.

Not here: waiting for the receivers, the place where they stop (`hub`), skipping (`stream`).
"""

from collections.abc import Mapping
from typing import Protocol, TypeVar, runtime_checkable

from cdc.stream import ChangeStream, ContinuableStream, StreamPlace, StreamStart

R = TypeVar("R")


@runtime_checkable
class SharedContinuableStream(ContinuableStream, Protocol):
    """A continuable stream that can check further places against its log, and go on behind a place."""

    async def refusal(self, place: str) -> str:
        """Return why the log does not have a place, at which or before which this stream was continued; empty if it
        certainly has. Raises StreamLost."""
        ...

    def unmark(self) -> None:
        """Discard the log again as it is acknowledged: `mark_place` was called, and the stream goes on."""
        ...


async def start_at_places(source: ChangeStream, places: Mapping[R, StreamPlace]) -> tuple[StreamStart, dict[R, str]]:
    """Start a stream for receivers that stopped at these places. Return why each cannot continue at its place; empty if
    it can. Raises StreamLost."""
    if not places:
        return await source.start(), {}
    if not isinstance(source, SharedContinuableStream):
        return await source.start(), dict.fromkeys(places, "This change stream cannot be continued by several engines.")
    started = await source.start_at(min(places.values(), key=lambda place: place.position).text)
    if not started.continued:
        return started, dict.fromkeys(places, started.refusal)
    return started, {receiver: await source.refusal(place.text) for receiver, place in places.items()}
