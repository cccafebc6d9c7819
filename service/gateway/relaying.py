"""Relay of plain reads without a task.

*Theory*: a gateway chooses a pod for a read and writes twice; a task, the messages of an ASGI application and the
waits for each of them would cost more than that. Most reads are answered soon, in one piece, by the first pod. So a
request is sent on while it is parsed, and its answer while that is parsed. All other cases (refusals, broken
connections, answers that are large, of unknown length, or late) are taken over by a task (`reading`) in their
present state.

*Invariants*: no request is repeated because of the relay, except if the task is delayed for long (while its token is
looked up, say). A relay is answered, taken over, or abandoned within a moment. Responses that a task would watch or
log are not relayed.

Not here: the choice of requests (`app`).
"""

import asyncio
from time import perf_counter

from service.gateway.finding import ViewSearch
from service.gateway.forwarding import passed_back, request_bytes
from service.gateway.homes import slot_of_query
from service.gateway.known import LearnedViews
from service.gateway.pods import Begun
from service.gateway.topology import Topology
from service.web.deferred import BEGAN_AT, DeferredReply, Done
from service.web.messages import Reply, Scope

_FOUND, _UNCHANGED = 200, 304
#: Slower requests are taken over and watched.
_SOON_S = 0.1
#: Time within which a task takes over, unless it refuses the request or takes longer to decide.
_TAKEN_S = 1.0
_RELAY = "upquery.relay"


class Relays:
    """*State*: `open` are the relays in progress, oldest first; while there are any, `_looking` is the one timer
    that checks them."""

    def __init__(self, topology: Topology, known: LearnedViews, slow_s: float) -> None:
        """`slow_s`: slower requests are logged."""
        self.open: dict[Relay, None] = {}
        self.within_s = min(_SOON_S, slow_s)
        self._topology = topology
        self._known = known
        self._looking: asyncio.TimerHandle | None = None

    def of(self, scope: Scope, view: str) -> DeferredReply:
        """Return the response to a GET of a view's key."""
        slot = slot_of_query(view, scope["query_string"], self._known.asker(view, scope["headers"]))
        finding = ViewSearch(self._topology, self._known, view, self._topology.home(slot))
        return DeferredReply(Relay(self, scope, finding, slot).begin)

    def begin(self, relay: "Relay") -> Begun | None:
        """Send a relay's request, if that is possible at once."""
        begun = self._topology.pods(relay.finding.shard).begin(relay.slot, request_bytes(relay.scope, None))
        if begun is not None:
            self.open[relay] = None
            if self._looking is None:
                self._look_in(self.within_s)
        return begun

    def _look_in(self, after_s: float) -> None:
        self._looking = asyncio.get_running_loop().call_later(after_s, self._look)

    def _look(self) -> None:
        self._looking = None
        while self.open:
            relay = next(iter(self.open))
            if relay.left_s > 0:
                self._look_in(relay.left_s)
                return
            relay.go_on()


class Relay:
    """One request: the search for its view and its slot; once sent, `begun` and the callback of the response
    (`_done`). *State*: `_leaving`, the timer that abandons it unless a task takes over."""

    __slots__ = ("_began_at", "_done", "_leaving", "_relays", "begun", "finding", "scope", "slot")

    def __init__(self, relays: Relays, scope: Scope, finding: ViewSearch, slot: int) -> None:
        self.scope = scope
        self.finding = finding
        self.slot = slot
        self.begun: Begun | None = None
        self._relays = relays
        self._done: Done | None = None
        self._leaving: asyncio.TimerHandle | None = None
        self._began_at = 0.0

    @staticmethod
    def taken_over(scope: Scope) -> "Relay | None":
        """Return the relay of a request that a task takes over, if there is one."""
        relay: Relay | None = scope.pop(_RELAY, None)
        if relay is not None and relay._leaving is not None:
            relay._leaving.cancel()
        return relay

    @property
    def left_s(self) -> float:
        """Return the time until the request is late."""
        return self._relays.within_s - (perf_counter() - self._began_at)

    def begin(self, done: Done) -> None:
        """Send the request to a pod."""
        self._began_at = self.scope[BEGAN_AT] = perf_counter()
        self._done = done
        self.begun = begun = self._relays.begin(self)
        if begun is None:
            done(None)
        else:
            begun.incoming.tell(self._told)

    def go_on(self) -> None:
        """Give the request to a task."""
        self.scope[_RELAY] = self
        self._leaving = asyncio.get_running_loop().call_later(_TAKEN_S, self._leave)
        self._end(None)

    def _told(self) -> None:
        """Handle received bytes, or the end."""
        assert self.begun is not None
        incoming = self.begun.incoming
        if incoming.will_be_whole:
            return
        status = incoming.status
        is_plain = incoming.complete and (status == _UNCHANGED or (status == _FOUND and incoming.sized))
        if is_plain and self.left_s > 0:
            self.finding.learn(incoming.headers)
            self._end(Reply(status, passed_back(incoming), incoming.taken()))
        else:
            self.go_on()

    def _end(self, reply: Reply | None) -> None:
        assert self.begun is not None
        assert self._done is not None
        del self._relays.open[self]
        # Relay and response refer to each other.
        self.begun.incoming.tell(None)
        self._done(reply)

    def _leave(self) -> None:
        if self.begun is not None:
            begun, self.begun = self.begun, None
            begun.incoming.leave()
