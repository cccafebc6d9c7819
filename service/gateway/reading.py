"""Requests that one shard answers: reads of a key, streams, and whatever is about no key; passed on as they are.

*Invariants*: each shard is asked at most once for a request. A client that goes away is nobody's work any more: the
connection to the pod that still answers it is closed.

Not here: who is asked (`finding`, `topology`); what several shards answer together (`batches`).
"""

import orjson

from service.gateway.finding import MISDIRECTED, ViewSearch
from service.gateway.forwarding import pass_on, request_bytes
from service.gateway.homes import slot_of_query
from service.gateway.incoming import Incoming
from service.gateway.known import LearnedViews
from service.gateway.pods import Begun, PodRequest, code_of
from service.gateway.relaying import Relay
from service.gateway.topology import Topology
from service.ground.errors import KINDS, ApiError
from service.web.disconnects import until_left
from service.web.messages import Receive, Scope, Send

MISDIRECTED_STATUS = KINDS[MISDIRECTED].status
#: Clients are looked after only if an answer takes longer.
_WATCH_AFTER_S = 0.1
#: Statuses of refusals that another shard may not share; of several, the last one here says most.
REFUSALS = (404, MISDIRECTED_STATUS, 503)
_FIRST = 0


class GatewayReads:
    """Asks shards for what one of them can answer."""

    def __init__(self, topology: Topology, known: LearnedViews) -> None:
        self._topology = topology
        self._known = known

    async def serve_view(self, scope: Scope, receive: Receive, send: Send, view: str, *, streams: bool = False) -> None:
        """A read of a view's key, or a stream of it. ApiError."""
        request = PodRequest(request_bytes(scope, None), is_head=scope["method"] == "HEAD", streams=streams)
        relay = Relay.taken_over(scope)
        if relay is not None:
            # Whose client nobody has looked after so far.
            with until_left(receive):
                incoming = await self._ask_view(relay.finding, relay.slot, request, relay.begun)
                await pass_on(incoming, send, scope["path"])
            return
        slot = slot_of_query(view, scope["query_string"], self._known.asker(view, scope["headers"]))
        with until_left(receive, 0.0 if streams else _WATCH_AFTER_S):
            finding = ViewSearch(self._topology, self._known, view, self._topology.home(slot))
            await pass_on(await self._ask_view(finding, slot, request), send, scope["path"])

    async def serve_first(self, scope: Scope, receive: Receive, send: Send, body: bytes | None) -> None:
        """What is about no view that is known here: the first shard's, or whose view it finds that to be. ApiError."""
        request = PodRequest(request_bytes(scope, body), is_head=scope["method"] == "HEAD")
        with until_left(receive, _WATCH_AFTER_S):
            await pass_on(await self._ask_first(request), send, scope["path"])

    async def _ask_first(self, request: PodRequest) -> Incoming:
        slot = self._topology.any_slot()
        incoming = await self._topology.pods(_FIRST).ask(slot, request)
        view = await view_of(incoming) if incoming.status == MISDIRECTED_STATUS else None
        if view is None:
            return incoming
        finding = ViewSearch(self._topology, self._known, view)
        return await self._ask_view(finding, slot, request) if finding.refused(MISDIRECTED, _FIRST) else incoming

    async def _ask_view(
        self, finding: ViewSearch, slot: int, request: PodRequest, begun: Begun | None = None
    ) -> Incoming:
        """The response about a view: of the shard that has it, or the refusal that says most. `begun`: asking the first
        one. ApiError."""
        refusals: list[Incoming] = []
        while True:
            try:
                asked, begun = begun, None
                incoming = await self._topology.pods(finding.shard).ask(slot, request, asked)
                if incoming.status not in REFUSALS:
                    finding.learn(incoming.headers)
                    return incoming
                code = await refusal_of(incoming)
            except ApiError as error:
                if not finding.refused(error.code):
                    raise
                continue
            refusals.append(incoming)
            if not finding.refused(code):
                return max(refusals, key=_says)


async def refusal_of(incoming: Incoming) -> str:
    """What a refusal says, as a code. PodGone."""
    return MISDIRECTED if incoming.status == MISDIRECTED_STATUS else await code_of(incoming)


async def view_of(refusal: Incoming) -> str | None:
    """The view that a refusal is about, if it says so. PodGone."""
    try:
        problem = orjson.loads(await refusal.whole())
    except orjson.JSONDecodeError:
        return None
    view = problem.get("view") if isinstance(problem, dict) else None
    return view if isinstance(view, str) else None


def _says(refusal: Incoming) -> int:
    return REFUSALS.index(refusal.status)
