"""Requests that one shard answers: reads of a key, streams, and requests without a key; forwarded unchanged.

*Invariants*: each shard is asked at most once for a request. If a client disconnects, the connection to the pod that
is still answering it is closed.

Not here: the choice of the shard (`finding`, `topology`); requests for several shards (`batches`).
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
#: Clients are watched only if an answer takes longer.
_WATCH_AFTER_S = 0.1
#: Statuses of refusals that another shard may not share; of several, the one last in this list is returned.
REFUSALS = (404, MISDIRECTED_STATUS, 503)
_FIRST = 0


class GatewayReads:
    """Forwards requests that one shard can answer."""

    def __init__(self, topology: Topology, known: LearnedViews) -> None:
        self._topology = topology
        self._known = known

    async def serve_view(self, scope: Scope, receive: Receive, send: Send, view: str, *, streams: bool = False) -> None:
        """Serve a read of a view's key, or a stream of it. Raises ApiError."""
        request = PodRequest(request_bytes(scope, None), is_head=scope["method"] == "HEAD", streams=streams)
        relay = Relay.taken_over(scope)
        if relay is not None:
            # The relay has not watched the client.
            with until_left(receive):
                incoming = await self._ask_view(relay.finding, relay.slot, request, relay.begun)
                await pass_on(incoming, send, scope["path"])
            return
        slot = slot_of_query(view, scope["query_string"], self._known.asker(view, scope["headers"]))
        with until_left(receive, 0.0 if streams else _WATCH_AFTER_S):
            finding = ViewSearch(self._topology, self._known, view, self._topology.home(slot))
            await pass_on(await self._ask_view(finding, slot, request), send, scope["path"])

    async def serve_first(self, scope: Scope, receive: Receive, send: Send, body: bytes | None) -> None:
        """Serve a request without a known view: by the first shard, or the shard of the view that it reports. Raises
        ApiError."""
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
        """Return the response about a view: of the shard that has it, or the most specific refusal. `begun`: a
        request already sent. Raises ApiError."""
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
    """Return the code of a refusal. Raises PodGone."""
    return MISDIRECTED if incoming.status == MISDIRECTED_STATUS else await code_of(incoming)


async def view_of(refusal: Incoming) -> str | None:
    """Return the view of a refusal, if it names one. Raises PodGone."""
    try:
        problem = orjson.loads(await refusal.whole())
    except orjson.JSONDecodeError:
        return None
    view = problem.get("view") if isinstance(problem, dict) else None
    return view if isinstance(view, str) else None


def _says(refusal: Incoming) -> int:
    return REFUSALS.index(refusal.status)
