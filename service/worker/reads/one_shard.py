"""Reads of one shard for a request: answers, and the interval of the log in which they are exact.

*Theory*: answers of the leaf store are exact since their entries last changed. Answers that the engine has filled
are read again from the store, for that interval; answers that it did not store are exact at its own position only,
and fallbacks at no known version.

Not here: one version for the answers of several shards (`service.sharding.common_version`,
`service.worker.shards.reads`).
"""

from dataclasses import dataclass, field

from dataflow.types import Position
from service.ground.version import Minimum
from service.protocol.reads import AnswerSource
from service.sharding.common_version import Exact
from service.worker.reads.followed_leaf import look
from service.worker.reads.reads import Answers, Reads, WantedRead


@dataclass(slots=True)
class ShardQuestion:
    """The reads of one shard. *State*: `timeline`, its answers so far, if their interval is known; `latest`, the
    engine's latest answers."""

    reads: Reads
    wanted: list[WantedRead]
    timeline: list[Exact[Answers]] = field(default_factory=list)
    latest: Answers | None = None
    _was_hit: bool = True

    @property
    def bounded(self) -> bool:
        """True if any view has a maximum age."""
        return any(wanted.view.max_lag_ms is not None for wanted in self.wanted)

    def look(self, at_ms: int = 0) -> bool:
        """Read the leaf store, known to be no older than `at_ms`; return whether it has all answers."""
        state, found = look(self.reads, self.wanted)
        answers = [each.answer for each in found if each.answer is not None]
        if state is None or len(answers) < len(self.wanted):
            return False
        since = min(max((each.since for each in found), default=0), state.position)
        read = Answers(answers, state.position, max(at_ms, state.at_ms), self._was_hit)
        self.timeline.append(Exact(read, since, state.position, state.server, state.one_by_one))
        return True

    async def first(self, wait_s: float | None, minimum: Minimum | None) -> None:
        """Read the first answers, from the leaf store or the engine. Raises ApiError."""
        position = None if minimum is None else await self.reads.wait_for(minimum, wait_s)
        if not self.bounded and self.look():
            self.reads.count_hits(self.wanted)
        else:
            await self.ask(wait_s, position, bounded=self.bounded)

    async def once(self, wait_s: float | None, minimum: Minimum | None) -> Exact[Answers]:
        """Return the first answers and their interval: in the log of no server, if it is unknown. Raises ApiError."""
        await self.first(wait_s, minimum)
        if self.timeline:
            return self.timeline[-1]
        latest = self.latest
        assert latest is not None
        return Exact(latest, latest.position, latest.position)

    async def ask(self, wait_s: float | None, minimum: Position | None = None, *, bounded: bool = False) -> None:
        """Request the answers from the engine. Raises ApiError."""
        before = self.reads.reader.state()
        if bounded:
            # At least 0: answers of the session before could not be combined with another shard's.
            latest = await self.reads.serve(self.wanted, wait_s, minimum or 0)
        else:
            latest = await self.reads.read(self.wanted, wait_s)
        self.latest = latest
        self._was_hit = self._was_hit and latest.hit
        if latest.source is AnswerSource.STORED and self.look(latest.at_ms):
            return
        after = self.reads.reader.state()
        if after is None or before is None or before.epoch != after.epoch:
            # The server of the position is unknown.
            return
        if not latest.source.has_version or latest.source is AnswerSource.STALE:
            # The answer is exact nowhere in the log, or at a position of a server that may have been replaced since.
            return
        self.timeline.append(Exact(latest, latest.position, latest.position, after.server))
