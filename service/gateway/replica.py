"""One pod: its connections, and whether it is reachable.

*Theory*: the first request that cannot connect marks the pod as away; from then on requests skip it, and a periodic
probe checks it until it answers. A pod that reports that it is not ready (its engine is starting) is the last
choice, not excluded: it can answer from its leaf store. A pod whose machine has failed sends nothing: so if a
request waits for long, another connection is tried, and if that gets no answer, the pod is away.

*Invariants*: the number of concurrent requests to a pod by this process is bounded; others wait for a bounded time.
Streams do not count, nor do answers that arrive faster than clients read: their number is bounded by that of
clients. A request is repeated on another connection only if the first one had been idle and was closed without a
byte of an answer, and the pod is not away.

Not here: the choice of the replica (`pods`).
"""

import asyncio
from collections import deque
from dataclasses import dataclass
from urllib.parse import urlsplit

import structlog

from service.gateway.connection import Connection
from service.gateway.incoming import Incoming, PodGone
from service.gateway.readiness import is_ready
from service.gateway.shortage import refuse_shortage
from service.ground.errors import ApiError

#: Reads a view that cannot exist. 503: the views are unknown; 401: ask the admin port instead; anything else: ready.
_PROBE = b"GET /v1/views/- HTTP/1.1\r\nhost: %b\r\n%b\r\n"
_ONCE = b"connection: close\r\n"
_STARTING, _WANTS_TOKEN = 503, 401
_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class PodTimeouts:
    """Time limits and bounds for a pod. `silent_s`: of a pod's silence during a request; `waiting_s`: of a request's
    wait for a connection; `suspect_s`: of a request without an answer before the pod is probed, and of that probe."""

    connections: int = 64
    connect_timeout_s: float = 1.0
    probe_s: float = 1.0
    silent_s: float = 35.0
    waiting_s: float = 5.0
    suspect_s: float = 3.0


class Replica:
    """*State*: `_idle` connections, the most recently used last; `_in_use` requests count towards the limit, and
    `_waiting` ones wait for it. `is_away`: it was unreachable; `is_weak`: it reported that it is not ready."""

    def __init__(self, address: str, reach: PodTimeouts, admin: str | None = None) -> None:
        self.address = address
        #: The address of its admin port, which may change.
        self.admin = admin
        self.is_away = self.is_weak = False
        parts = urlsplit(address)
        self.netloc = parts.netloc
        #: Host and port.
        self.place = parts.hostname or "", parts.port or 80
        self._probe, self._probe_anew = (_PROBE % (self.netloc.encode(), more) for more in (b"", _ONCE))
        self._reach = reach
        self._idle: list[Connection] = []
        self._all: set[Connection] = set()
        self._in_use = 0
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._probing: asyncio.Task[None] | None = None
        self._suspecting: asyncio.Task[None] | None = None
        self._closed = False

    async def ask(
        self,
        request: bytes,
        *,
        is_head: bool = False,
        counted: bool = True,
        anew: bool = False,
        silent_s: float | None = None,
        begun: Incoming | None = None,
    ) -> Incoming:
        """Return the response to a request, once its head has arrived. `counted`: it counts towards the limit;
        `anew`: on a new connection; `begun`: it has been sent (`begin`). Raises PodGone, ApiError(overloaded)."""
        while True:
            if begun is None:
                connection = await self._connection(counted=counted, anew=anew)
                incoming = connection.ask(request, is_head=is_head, silent_s=silent_s)
            else:
                incoming, begun = begun, None
            try:
                await incoming.head()
            except PodGone as gone:
                if not gone.stale or gone.began or self.is_away:
                    raise
                # Close connections that have been idle for longer, too.
                self._drop_idle()
            except asyncio.CancelledError:
                incoming.leave()
                raise
            else:
                return incoming

    def begin(self, request: bytes) -> Incoming | None:
        """Send a request at once and return its response, not for a HEAD; None: it would have to wait."""
        connection = self._take_idle() if self._in_use < self._reach.connections else None
        if connection is None:
            return None
        self._in_use += 1
        connection.counted = True
        return connection.ask(request, is_head=False)

    def weaken(self) -> None:
        """Note that the pod reported that it is not ready."""
        if not self.is_weak:
            self.is_weak = True
            self._begin_probing()

    def lose(self, reason: object) -> None:
        """Mark the pod as away."""
        if not self.is_away and not self._closed:
            self.is_away = True
            _log.warning("pod is away", address=self.address, reason=str(reason))
            self._drop_idle()
            self._begin_probing()

    async def is_ready(self) -> bool:
        """Return whether it answers, and knows the views."""
        return await self._probe_once() and not (self.is_away or self.is_weak)

    def close(self, *, now: bool = False) -> None:
        """Send no more requests. Responses in progress continue, unless `now`."""
        self._closed = True
        self._drop_idle()
        for task in (self._probing, self._suspecting):
            if task is not None:
                task.cancel()
        for connection in list(self._all) if now else ():
            connection.close()

    # Methods of the owner of connections

    def suspect(self) -> None:
        """Probe the pod: it may be away."""
        if not self._closed and not self.is_away and (self._suspecting is None or self._suspecting.done()):
            self._suspecting = asyncio.ensure_future(self._look_after_mute())

    def free(self, connection: Connection) -> None:
        """Take back a free connection."""
        self._uncount(connection)
        if self._closed or len(self._idle) >= self._reach.connections:
            connection.close()
        else:
            self._idle.append(connection)

    def delayed(self, connection: Connection) -> None:
        """Stop counting the request: a client that reads slowly must not delay others."""
        self._uncount(connection)

    def lost(self, connection: Connection) -> None:
        """Remove a closed connection."""
        self._uncount(connection)
        self._all.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)

    async def _connection(self, *, counted: bool, anew: bool) -> Connection:
        if counted:
            await self._wait_for_turn()
        try:
            connection = (None if anew else self._take_idle()) or await self._connect()
        except BaseException:
            if counted:
                self._end_turn()
            raise
        connection.counted = counted
        return connection

    def _take_idle(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_open:
                return connection
        return None

    async def _connect(self) -> Connection:
        loop, reach = asyncio.get_running_loop(), self._reach
        try:
            async with asyncio.timeout(reach.connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: Connection(self, reach.silent_s, reach.suspect_s), *self.place
                )
        except OSError as error:
            refuse_shortage(error)
            # TimeoutError is an OSError.
            self.lose(str(error) or "it did not answer in time")
            raise PodGone("it cannot be reached") from None
        self._all.add(connection)
        return connection

    async def _wait_for_turn(self) -> None:
        if self._in_use < self._reach.connections:
            self._in_use += 1
            return
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            async with asyncio.timeout(self._reach.waiting_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self._end_turn()
            elif turn in self._waiting:
                self._waiting.remove(turn)
            if isinstance(error, TimeoutError):
                detail = "All connections to the pod are in use."
                raise ApiError("overloaded", detail, "Try again in a moment.") from None
            raise

    def _end_turn(self) -> None:
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                # Pass the turn to the next waiting request.
                turn.set_result(None)
                return
        self._in_use -= 1

    def _uncount(self, connection: Connection) -> None:
        if connection.counted:
            connection.counted = False
            self._end_turn()

    def _drop_idle(self) -> None:
        idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()

    def _begin_probing(self) -> None:
        if (self._probing is None or self._probing.done()) and not self._closed:
            self._probing = asyncio.ensure_future(self._until_well())

    async def _until_well(self) -> None:
        while self.is_away or self.is_weak:
            await asyncio.sleep(self._reach.probe_s)
            await self._probe_once()

    async def _look_after_mute(self) -> None:
        await self._probe_once(self._reach.suspect_s, anew=True)
        if self.is_away:
            for connection in [each for each in self._all if each.is_mute]:
                connection.close()

    async def _probe_once(self, silent_s: float | None = None, *, anew: bool = False) -> bool:
        """Probe the pod once; False if it gave no information."""
        request, silent_s = self._probe_anew if anew else self._probe, silent_s or self._reach.connect_timeout_s
        try:
            incoming = await self.ask(request, counted=False, anew=anew, silent_s=silent_s)
            await incoming.whole()
        except PodGone as gone:
            self.lose(gone)
            return True
        except ApiError:
            # This process cannot open another connection.
            return False
        if self.is_away:
            _log.warning("pod is back", address=self.address)
        is_weak = incoming.status == _STARTING
        if incoming.status == _WANTS_TOKEN and self.admin is not None:
            is_weak = not await is_ready(self.admin, self._reach.connect_timeout_s)
        self.is_away, self.is_weak = False, is_weak
        return True
