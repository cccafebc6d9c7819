"""A response that is not there yet, and needs no task to come: another process has been asked for it.

*Invariants*: who begins it is told once, with the response, or with None: then the request has to go the ordinary way,
whose part of it that was done already is in its scope. Whoever stands around an application (`Direct`) has its say when
the response is there.

Only gateways have such responses (`service.gateway.relaying`): what only stacks have around their applications, the
access log and traces, does not see them.
"""

from collections.abc import Callable
from typing import Protocol

from service.web.messages import Receive, Reply, Scope, Send

#: Where the scope of a request that goes the ordinary way after all has when it began, by `time.perf_counter`.
BEGAN_AT = "upquery.began_at"
Done = Callable[[Reply | None], None]


class Coming:
    """`begin` begins it, and is given who is told. Once, and at once: nothing holds what it needs."""

    __slots__ = ("begin",)

    def __init__(self, begin: Callable[[Done], None]) -> None:
        self.begin = begin

    def through(self, change: Callable[[Reply | None], Reply | None]) -> "Coming":
        """The same, but `change` is told, and says what is said."""
        return Coming(lambda done: self.begin(lambda reply: done(change(reply))))


class DirectApp(Protocol):
    """An application that can answer some requests at once (`service.web.direct_protocol`)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        ...

    def reads_body(self, scope: Scope) -> bool:
        """Whether `answer` needs the request's body."""
        ...

    def answer(self, scope: Scope, body: bytes | None) -> Reply | Coming | None:
        """The response, if it can be given at once, or without a task."""
        ...
