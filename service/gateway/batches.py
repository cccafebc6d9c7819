"""Batches over the pods of several shards, with one version for all answers (in one process:
`service.worker.shards.reads`).

*Theory*: each shard receives its part, and returns the interval in which its answers are exact
(`service.worker.reads.part`). If the intervals do not overlap, the lagging shards are asked again for newer answers,
a few times; then one shard answers the whole request, since any can answer any key. The same is done if shards have
different definitions of a view, as while it is replaced. Only a request for views that are fully materialized in
different shards may be refused.

*Invariants*: all answers of a request are exact at one version, or it is refused. A request for one shard is
forwarded unchanged, and so is one that cannot be parsed here: pods report errors, in one place.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from dataflow.types import Position
from service.gateway.asked import AskedBatch, named_views
from service.gateway.counting import GatewayCounters
from service.gateway.finding import MISDIRECTED, ViewSearch
from service.gateway.forwarding import pass_on, request_bytes
from service.gateway.incoming import Incoming, PodGone
from service.gateway.known import LearnedViews
from service.gateway.pods import PodRequest
from service.gateway.reading import REFUSALS, GatewayReads, refusal_of, view_of
from service.gateway.topology import Topology
from service.ground.errors import ApiError
from service.ground.version import version_text
from service.protocol.reads import AnswerSource
from service.settings.sections import HttpSettings
from service.sharding.common_version import CommonVersion, Exact, awaited, late, meet, reached
from service.sharding.scatter import ShardPart, joined, split
from service.web.disconnects import until_left
from service.web.messages import CACHE_CONTROL, Receive, Reply, Scope, Send, send_reply
from service.web.principal import principal_of, require_read
from service.worker.reads.batches import batch_reply
from service.worker.reads.part import MEDIA_TYPE, PART, PartHead, read_part
from service.worker.reads.reads import Answers

#: Attempts at a common version before one shard answers.
_ROUNDS = 3
#: Maximum splits of a request, as pods report that views are elsewhere; more if each may report many views.
_SPLITS = 8
_WATCH_AFTER_S = 0.1
#: Request headers that are not sent with parts: these are not compressed and have no tags.
_NOT_OF_PART = frozenset({b"accept-encoding", b"if-none-match"})
_MINIMUM = b"upquery-min-version"
_CONDITIONS = frozenset({_MINIMUM, b"prefer"})


@dataclass(frozen=True, slots=True)
class _Read:
    """A shard's answer to its part."""

    head: PartHead
    results: list[bytes]
    source: AnswerSource


class _Refused(Exception):
    """Refusals of shards, with their parts."""

    def __init__(self, refusals: Sequence[tuple[ShardPart[int], Incoming]]) -> None:
        super().__init__(*[incoming.status for _, incoming in refusals])
        self.refusals = refusals


@dataclass(slots=True)
class _Request:
    """One request, and the reports of pods on its views. *State*: `findings`, the searches for views that are not at
    the homes of their keys."""

    scope: Scope
    content: bytes
    asked: AskedBatch
    started: int
    findings: dict[str, ViewSearch] = field(default_factory=dict)

    @property
    def found(self) -> dict[str, tuple[int, bool]]:
        """Return the shards found for views, and whether the views are fully materialized there."""
        return {view: (finding.shard, finding.is_whole) for view, finding in self.findings.items()}

    def answered(self, shard: int) -> None:
        """Note that a shard has answered its part or the whole request."""
        for finding in self.findings.values():
            if finding.shard == shard:
                finding.answered()


@dataclass(slots=True)
class _Asking:
    """A shard's part. *State*: `timeline`, its answers so far whose intervals are known."""

    part: ShardPart[int]
    timeline: list[Exact[_Read]] = field(default_factory=list)


class GatewayBatches:
    """Serves ``POST /v1/read`` and ``POST /v1/views/{view}/query``."""

    def __init__(
        self,
        topology: Topology,
        known: LearnedViews,
        reads: GatewayReads,
        http: HttpSettings,
        counters: GatewayCounters,
    ) -> None:
        self._topology = topology
        self._known = known
        self._reads = reads
        self._max_keys = http.max_keys
        self._timeout_s = http.read_timeout_s
        self._counters = counters

    async def serve(self, scope: Scope, receive: Receive, send: Send, content: bytes) -> None:
        """Serve one request. Raises ApiError."""
        started = time.perf_counter_ns()
        asked = AskedBatch.of(scope, content, self._known, self._max_keys)
        principal = principal_of(scope)
        if principal is not None:
            for view in dict.fromkeys(named_views(scope, content) if asked is None else asked.views):
                require_read(principal, view)
        if asked is None:
            await self._reads.serve_first(scope, receive, send, content)
            return
        with until_left(receive, _WATCH_AFTER_S):
            answer = await self._answer(_Request(scope, content, asked, started))
            if isinstance(answer, Incoming):
                await pass_on(answer, send, scope["path"])
            else:
                await send_reply(send, answer)

    async def _answer(self, request: _Request) -> Reply | Incoming:
        """Return the response, or the refusal of a pod. Raises ApiError."""
        for view in dict.fromkeys(request.asked.views):
            if self._known.whole_home(view) is not None:
                request.findings[view] = ViewSearch(self._topology, self._known, view)
        views = len(set(request.asked.views))
        for _ in range(_SPLITS + views * len(self._topology.shards)):
            try:
                return await self._once(request)
            except _Refused as refused:
                before = request.found
                for part, incoming in refused.refusals:
                    await self._find(request, part, incoming)
                if request.found == before:
                    return refused.refusals[0][1]
        raise ApiError(MISDIRECTED, "The shards of the requested views were not found.", "Try again in a moment.")

    async def _once(self, request: _Request) -> Reply | Incoming:
        """Try once, with the views' presently known places. Raises _Refused, ApiError."""
        parts = self._parts(request)
        if len(parts) == 1:
            self._counters.outcomes["one_part"] += 1
            return await self._by_one(request, parts[0])
        asking = [_Asking(part) for part in parts]
        await self._ask_all(request, asking)
        met = await self._met(request, asking)
        if met is not None and _of_one_definition(met):
            self._counters.outcomes["met_again" if any(len(each.timeline) > 1 for each in asking) else "met"] += 1
            return _reply(parts, met, request.started)
        one = self._one_of(request, parts)
        if one is not None:
            self._counters.outcomes["one_shard"] += 1
            return await self._by_one(request, one)
        self._counters.outcomes["apart"] += 1
        raise ApiError(
            "versions_apart",
            "The requested keys are on several shards and change too fast for a common version.",
            "Try again, or request fewer keys at once.",
        )

    def _parts(self, request: _Request) -> list[ShardPart[int]]:
        asked, findings = request.asked, request.findings
        homes = [
            findings[view].shard if view in findings else self._topology.home(slot)
            for view, slot in zip(asked.views, asked.slots, strict=True)
        ]
        return split(range(len(homes)), homes)

    async def _by_one(self, request: _Request, part: ShardPart[int]) -> Incoming:
        """Forward the whole request to the shard of a part. Raises _Refused, ApiError."""
        content = request_bytes(request.scope, request.content)
        return await self._ask(request, part, content)

    async def _ask(self, request: _Request, part: ShardPart[int], content: bytes) -> Incoming:
        slot = request.asked.slots[part.items[0]]
        incoming = await self._topology.pods(part.shard).ask(slot, PodRequest(content))
        if incoming.status in REFUSALS:
            raise _Refused([(part, incoming)])
        if incoming.status == 200:
            request.answered(part.shard)
        return incoming

    async def _ask_all(
        self, request: _Request, asking: Sequence[_Asking], target: Position | None = None, wait_s: float = 0.0
    ) -> None:
        """Ask all shards for their parts; `target`: at that position or later. Raises _Refused, ApiError."""
        asked = (self._ask_part(request, each, target, wait_s) for each in asking)
        failed = [each for each in await asyncio.gather(*asked, return_exceptions=True) if each is not None]
        # A shard that failed may not be needed once a refused view is found.
        refusals = [refusal for each in failed if isinstance(each, _Refused) for refusal in each.refusals]
        if refusals:
            raise _Refused(refusals)
        for each in failed:
            raise each

    async def _ask_part(self, request: _Request, each: _Asking, target: Position | None, wait_s: float) -> None:
        without, more = _NOT_OF_PART, [PART]
        if target is not None:
            without |= _CONDITIONS
            more = [PART, (_MINIMUM, version_text(target).encode()), (b"prefer", b"wait=%.3f" % wait_s)]
        body = request.asked.body_of(each.part.items)
        incoming = await self._ask(request, each.part, request_bytes(request.scope, body, without, more))
        content = await incoming.whole()
        if incoming.status != 200:
            raise _Refused([(each.part, incoming)])
        if (b"content-type", MEDIA_TYPE) not in incoming.headers:
            return
        try:
            head, results = read_part(content)
            read = _Read(head, results, AnswerSource(head.source))
        except ValueError:
            # The pod has another version of this software.
            return
        if head.exact and len(results) == len(each.part.items):
            each.timeline.append(Exact(read, head.since, head.position, head.server, head.one_by_one))

    async def _met(self, request: _Request, asking: Sequence[_Asking]) -> CommonVersion[_Read] | None:
        """Return answers at a common version; None if no attempt found one."""
        bounded = any(name == _MINIMUM for name, _ in request.scope["headers"])
        until_s = time.monotonic() + self._timeout_s
        for _ in range(_ROUNDS):
            timelines = [each.timeline for each in asking]
            if not all(timelines) or len({timeline[-1].server for timeline in timelines}) > 1:
                return None
            if (met := meet(timelines, least=reached(timelines) if bounded else 0)) is not None:
                return met
            behind = [asking[n] for n in late(timelines)]
            try:
                await self._ask_all(request, behind, awaited(timelines), max(0.0, until_s - time.monotonic()))
            except (_Refused, ApiError, PodGone):
                return None
        timelines = [each.timeline for each in asking]
        return meet(timelines, least=reached(timelines) if bounded else 0)

    def _one_of(self, request: _Request, parts: Sequence[ShardPart[int]]) -> ShardPart[int] | None:
        """Return the part whose shard can answer the whole request; None if several views are fully materialized in
        different shards."""
        whole = [part for part in parts if any(self._is_whole(request, place) for place in part.items)]
        if len(whole) > 1:
            return None
        return whole[0] if whole else max(parts, key=lambda part: len(part.items))

    def _is_whole(self, request: _Request, place: int) -> bool:
        finding = request.findings.get(request.asked.views[place])
        return finding is not None and finding.is_whole

    async def _find(self, request: _Request, part: ShardPart[int], incoming: Incoming) -> None:
        """Search further for the views that a shard refused, if other shards remain. Raises PodGone."""
        code = await refusal_of(incoming)
        named = await view_of(incoming)
        views = dict.fromkeys(request.asked.views[place] for place in part.items)
        if code == MISDIRECTED:
            # Not only its part's: the shard may have been sent the whole request.
            views = {view: None for view in request.asked.views if view == named}
        for view in views:
            finding = request.findings.get(view) or ViewSearch(self._topology, self._known, view)
            if finding.refused(code, part.shard):
                request.findings[view] = finding


def _of_one_definition(met: CommonVersion[_Read]) -> bool:
    """Return whether all shards have the same definitions; a view may be being replaced."""
    definitions = {named for exact in met.parts for named in exact.answers.head.views.items()}
    return len({view for view, _ in definitions}) == len(definitions)


def _reply(parts: Sequence[ShardPart[int]], met: CommonVersion[_Read], started: int) -> Reply:
    read = [exact.answers for exact in met.parts]
    heads = [each.head for each in read]
    answers = Answers(
        [],
        met.position,
        min(head.at_ms for head in heads),
        all(head.hit for head in heads),
        next((each.source for each in read if each.source is not AnswerSource.STORED), AnswerSource.STORED),
    )
    kept = {head.cache_control for head in heads}
    cache_control = (CACHE_CONTROL[0], kept.pop().encode()) if len(kept) == 1 else CACHE_CONTROL
    return batch_reply(answers, b",".join(joined(parts, [each.results for each in read])), cache_control, started)
