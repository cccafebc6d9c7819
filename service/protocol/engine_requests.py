"""Messages between a worker and the engine process: requests, notices, and their frames.

*Theory*: a message is a value; its frame is a line with the message's name and number, then its JSON. A reply has its
request's number; replies may arrive in any order. `EngineService` has a method for each request; the server's `match`
over `WorkerMessage` lets mypy find a message that is not handled.

Not here: the sockets (`engine_server`, `engine_client`).
"""

import re
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Protocol, TypeVar, get_args

import orjson

from cdc.gtid import Gtids, parse_gtids
from dataflow.types import Key, Position, ViewId
from service.ground.errors import ApiError
from service.protocol.adhoc import Match
from service.protocol.codec import Codec, Request, codec_of, reply_codec_of
from service.protocol.counters import ReadCounters, SubscriptionCounts, WorkerCounts
from service.protocol.frames import error_fields, error_of
from service.protocol.reads import ReadItem, ReadReply, StoredReply

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

#: A key that was read, and how many of the counted hits it had.
Touch = tuple[ViewId, Key, int]
#: Callback for the numbers of touched topics, and a position at which they are known to be touched.
Tell = Callable[[set[int], Position], None]


class EngineCall(Request[R_co]):
    """A request that is performed as a task of its own, which ends when the worker no longer waits. (No `ABC`, whose
    `isinstance` is slow; mypy treats it as one.)"""

    __slots__ = ()

    @abstractmethod
    async def perform(self, engine: "EngineService") -> R_co: ...


@dataclass(frozen=True, slots=True)
class FillRequest(EngineCall[ReadReply | StoredReply]):
    """Fills what is missing; answers all items, at one version, if they are not stored."""

    items: list[ReadItem]

    async def perform(self, engine: "EngineService") -> ReadReply | StoredReply:
        return await engine.fill(self.items)


@dataclass(frozen=True, slots=True)
class ReadRequest(EngineCall[ReadReply]):
    """Fills what is missing and answers all items at one version."""

    items: list[ReadItem]

    async def perform(self, engine: "EngineService") -> ReadReply:
        return await engine.read(self.items)


@dataclass(frozen=True, slots=True)
class ForwardRequest(EngineCall[ReadReply]):
    """Has the upstream answer all items."""

    items: list[ReadItem]
    minimum: Position | None

    async def perform(self, engine: "EngineService") -> ReadReply:
        return await engine.forward(self.items, self.minimum)


@dataclass(frozen=True, slots=True)
class QueryRequest(EngineCall[Match | ReadReply]):
    """An ad-hoc query. `given`: its parameters, as in the client's JSON."""

    sql: str
    given: dict[str, Any]
    minimum: Position | None
    run: bool

    async def perform(self, engine: "EngineService") -> Match | ReadReply:
        return await engine.query(self.sql, self.given, self.minimum, run=self.run)


@dataclass(frozen=True, slots=True)
class ReachRequest(EngineCall[None]):
    """Waits for a position."""

    position: Position

    async def perform(self, engine: "EngineService") -> None:
        await engine.reach(self.position)


@dataclass(frozen=True, slots=True)
class ReachGtidsRequest(EngineCall[None]):
    """Waits for transactions, by their global ids as text."""

    gtids: str

    async def perform(self, engine: "EngineService") -> None:
        await engine.reach_gtids(parse_gtids(self.gtids))


@dataclass(frozen=True, slots=True)
class CheckpointRequest(EngineCall[Position]):
    """The upstream's position."""

    async def perform(self, engine: "EngineService") -> Position:
        return await engine.checkpoint()


@dataclass(frozen=True, slots=True)
class StreamRequest(Request[None]):
    """Has the upstream answer an item; parts of its rows precede the reply. Alone on its connection."""

    item: ReadItem
    minimum: Position | None


@dataclass(frozen=True, slots=True)
class PinRequest(Request[None]):
    """Follows a topic: keys of a view of `epoch`."""

    topic: int
    epoch: str
    view: ViewId
    keys: list[Key]


@dataclass(frozen=True, slots=True)
class UnpinRequest:
    """Stops following a topic."""

    topic: int


@dataclass(frozen=True, slots=True)
class CancelRequest:
    """The worker no longer waits for the request of this number."""


@dataclass(frozen=True, slots=True)
class Report:
    """Counters of a worker since its start. `touches`: a sample of the keys read since its last report; `errors`:
    lines of its log since then. Confirmed by `ReplyKind.REPORTED`."""

    worker: int
    reads: dict[str, ReadCounters] = field(default_factory=dict)
    touches: list[Touch] = field(default_factory=list)
    subscriptions: SubscriptionCounts = field(default_factory=SubscriptionCounts)
    process: WorkerCounts | None = None
    errors: list[dict[str, str]] = field(default_factory=list)


WorkerMessage = (
    FillRequest
    | ReadRequest
    | ForwardRequest
    | QueryRequest
    | ReachRequest
    | ReachGtidsRequest
    | CheckpointRequest
    | StreamRequest
    | PinRequest
    | UnpinRequest
    | CancelRequest
    | Report
)


class FollowedTopics(Protocol):
    """The topics that a worker follows: its numbers for keys of views."""

    def pin(self, topic: int, epoch: str, view: ViewId, keys: Sequence[Key]) -> None:
        """Keep these keys of a view of `epoch`, and tell when a commit has touched them. ApiError."""
        ...

    def unpin(self, topic: int) -> None:
        """Stops following a topic."""
        ...

    def close(self) -> None:
        """Ends it: the worker has disconnected."""
        ...


class EngineService(Protocol):
    """Services of the engine process for workers.

    Each call runs as its own task; it is cancelled when the worker has gone or no longer waits. An `ApiError` that a
    call raises reaches the worker's client as it is; any other exception is logged and becomes ``internal_error``.
    """

    async def fill(self, items: Sequence[ReadItem]) -> ReadReply | StoredReply:
        """Fill what is missing; then all items were stored at one version. Otherwise answer them, as `read`."""
        ...

    async def read(self, items: Sequence[ReadItem]) -> ReadReply:
        """Fill what is missing and answer all items in one step, at one version."""
        ...

    async def forward(self, items: Sequence[ReadItem], minimum: Position | None) -> ReadReply:
        """Have the upstream answer all items, at one snapshot of now, whatever the stream has brought so far.

        `minimum`: the snapshot sees all that a leaf store at this position has; it is waited for. The reply's position
        is one that contains all that the answers show; they are not exact at any that is known.
        """
        ...

    async def stream(self, item: ReadItem, minimum: Position | None, send: Callable[[bytes], Awaitable[None]]) -> None:
        """Have the upstream answer an item whose rows are too many to be held, as `forward` does: `send` gets some of
        them at a time, as JSON objects with commas between them."""
        ...

    async def query(self, sql: str, given: dict[str, Any], minimum: Position | None, *, run: bool) -> Match | ReadReply:
        """The view that a query means; if none does, or it is to `run` anyhow, the upstream's answer to it, with
        all of `minimum`."""
        ...

    async def reach(self, position: Position) -> None:
        """Return once a commit of the leaf store has at least `position`; push the stream if it is idle."""
        ...

    async def reach_gtids(self, gtids: Gtids) -> None:
        """Return once the leaf store has all of these transactions; push the stream if it is idle."""
        ...

    async def checkpoint(self) -> Position:
        """The upstream's position now; makes an idle stream get there."""
        ...

    def report(self, report: Report) -> None:
        """Take a worker's report. Once a second; must not block."""
        ...

    def subscriber(self, tell: Tell) -> FollowedTopics:
        """The topics of a worker, none yet; `tell` gets the numbers of those that a commit has touched, after it."""
        ...


class ReplyKind(StrEnum):
    """Messages of the engine, by the contents of their frames."""

    #: The reply to a request, as JSON.
    RESULT = "result"
    #: A `ReadReply`.
    ROWS = "rows"
    #: A `StoredReply`, as the digits of its position.
    STORED = "stored"
    #: An `ApiError`.
    PROBLEM = "problem"
    #: A part of the rows of a `StreamRequest`.
    PART = "part"
    #: A report has been taken.
    REPORTED = "reported"
    #: `Changed`.
    CHANGED = "changed"


@dataclass(frozen=True, slots=True)
class Changed:
    """Topics that were touched by commits of the leaf store, up to that of `position`."""

    topics: list[int]
    position: Position


def _name_of(kind: type) -> str:
    return re.sub("(?<!^)(?=[A-Z])", "_", kind.__name__.removesuffix("Request")).lower()


_NAMES: Mapping[type, str] = {kind: _name_of(kind) for kind in get_args(WorkerMessage)}
_KINDS: Mapping[bytes, type] = {name.encode(): kind for kind, name in _NAMES.items()}
#: Made while a process starts: the first read that misses does not wait for them.
_CODECS: Mapping[type, Codec] = {kind: codec_of(kind) for kind in _NAMES}
_REPLY_KINDS: Mapping[bytes, ReplyKind] = {kind.encode(): kind for kind in ReplyKind}


def name_of(message: Request[Any] | WorkerMessage) -> str:
    """The name of a message's kind, for metrics and traces."""
    return _NAMES[type(message)]


def message_frame(message: Request[Any] | WorkerMessage, number: int = 0, trace: str = "") -> bytes:
    """The frame of a worker's message. `trace`: the ``traceparent`` of its span; empty: not traced."""
    kind: Any = type(message)
    return b"%b %d %b\n%b" % (_NAMES[kind].encode(), number, trace.encode(), _CODECS[kind].write(message))


def message_of(frame: bytes) -> tuple[WorkerMessage, int, str]:
    """A worker's message, its number and its trace. Raises ValueError."""
    head, _, json = frame.partition(b"\n")
    name, number, trace = head.split(b" ")
    if (kind := _KINDS.get(name)) is None:
        raise ValueError(f"not a message of this version: {name!r}")
    message: WorkerMessage = _CODECS[kind].read(json)
    return message, int(number), trace.decode()


def reply_frame(kind: ReplyKind, number: int = 0, body: bytes = b"") -> bytes:
    """The frame of a message of the engine."""
    return b"%b %d\n%b" % (kind.encode(), number, body)


def result_frame(request: Request[R], number: int, result: R) -> bytes:
    """The frame of a reply."""
    if isinstance(result, ReadReply):
        return reply_frame(ReplyKind.ROWS, number, result.to_bytes())
    if isinstance(result, StoredReply):
        return reply_frame(ReplyKind.STORED, number, b"%d" % result.position)
    return reply_frame(ReplyKind.RESULT, number, reply_codec_of(request).write(result))


def problem_frame(number: int, error: ApiError) -> bytes:
    """The frame of an error."""
    return reply_frame(ReplyKind.PROBLEM, number, orjson.dumps(error_fields(error)))


def reply_of(frame: bytes) -> tuple[ReplyKind, int, bytes]:
    """Kind, number and body of a message of the engine. Raises ValueError."""
    head, _, body = frame.partition(b"\n")
    name, number = head.split(b" ")
    if (kind := _REPLY_KINDS.get(name)) is None:
        raise ValueError(f"not a reply of this version: {name!r}")
    return kind, int(number), body


def result_of(request: Request[R], kind: ReplyKind, body: bytes) -> R:
    """The result in a reply. Raises the ApiError that is in it."""
    result: Any
    if kind is ReplyKind.ROWS:
        result = ReadReply.of(body)
    elif kind is ReplyKind.STORED:
        result = StoredReply(int(body))
    elif kind is ReplyKind.PROBLEM:
        raise error_of(orjson.loads(body))
    else:
        result = reply_codec_of(request).read(body)
    found: R = result
    return found
