"""One shard asked for what it has of a request: answers, and from where to where in the log they are exact.

*Theory*: what the leaf store has is exact since its entries last changed. What the engine has filled is looked at
again, for that interval; what it did not store is exact at its own position only, and what comes past the store at no
version that is known.

Not here: one version for the answers of several shards (`service.sharding.common_version`,
`service.worker.shards.reads`).
"""

from dataclasses import dataclass, field

from dataflow.types import Position
from service.ground.version import Minimum
from service.protocol.wire import AnswerSource
from service.sharding.common_version import Exact
from service.worker.reads.followed_leaf import look
from service.worker.reads.reads import Answers, Reads, WantedRead


@dataclass(slots=True)
class ShardQuestion:
    """What is asked of one shard. *State*: `timeline`, what it has answered so far, as far as it is known where that is
    exact; `said`, what the engine has said last."""

    reads: Reads
    wanted: list[WantedRead]
    timeline: list[Exact[Answers]] = field(default_factory=list)
    said: Answers | None = None
    _was_hit: bool = True

    @property
    def bounded(self) -> bool:
        """Whether answers may be too old for a view."""
        return any(wanted.view.max_lag_ms is not None for wanted in self.wanted)

    def look(self, at_ms: int = 0) -> bool:
        """Take what the leaf store has, known to be no older than of `at_ms`; whether that is all of it."""
        state, found = look(self.reads, self.wanted)
        answers = [each.answer for each in found if each.answer is not None]
        if state is None or len(answers) < len(self.wanted):
            return False
        since = min(max((each.since for each in found), default=0), state.position)
        read = Answers(answers, state.position, max(at_ms, state.at_ms), self._was_hit)
        self.timeline.append(Exact(read, since, state.position, state.server, state.one_by_one))
        return True

    def count_hits(self) -> None:
        """It was all there."""
        for wanted in self.wanted:
            wanted.view.counters.hits += 1
            self.reads.touches.note_read(wanted.view.info, wanted.values)

    async def first(self, wait_s: float | None, minimum: Minimum | None) -> None:
        """The first answer, of the leaf store or the engine. ApiError."""
        position = None if minimum is None else await self.reads.wait_for(minimum, wait_s)
        if not self.bounded and self.look():
            self.count_hits()
        else:
            await self.ask(wait_s, position, bounded=self.bounded)

    async def once(self, wait_s: float | None, minimum: Minimum | None) -> Exact[Answers]:
        """The first answer, and where it is exact: in the log of no server, if that is not known. ApiError."""
        await self.first(wait_s, minimum)
        if self.timeline:
            return self.timeline[-1]
        said = self.said
        assert said is not None
        return Exact(said, said.position, said.position)

    async def ask(self, wait_s: float | None, minimum: Position | None = None, *, bounded: bool = False) -> None:
        """Have the engine answer. ApiError."""
        before = self.reads.reader.state()
        if bounded:
            said = await self.reads.serve(self.wanted, wait_s, minimum)
        else:
            said = await self.reads.read(self.wanted, wait_s)
        self.said = said
        self._was_hit = self._was_hit and said.hit
        if said.source is AnswerSource.STORED and self.look(said.at_ms):
            return
        after = self.reads.reader.state()
        if after is None or before is None or before.epoch != after.epoch:
            # In the log of which server it is, is not known.
            return
        if not said.source.has_version or said.source is AnswerSource.STALE:
            # It is exact nowhere in the log, or was in that of a server which may have been replaced since.
            return
        self.timeline.append(Exact(said, said.position, said.position, after.server))
