"""Applications that answer without a task: at once, or deferred, when another process has answered.

*Invariants*: a deferred response is completed exactly once, with the reply, or with None: then the request is served by
a task, which finds the work done so far in the scope. Wrappers of an application (`DirectApp`) see the reply when it
completes.

Gateways defer reads (`service.gateway.relaying`), workers misses (`service.worker.routes.hot`). The access log, and
traces of sampled requests, leave deferred responses to a task.
"""

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from service.web.messages import Receive, Reply, Scope, Send

#: Scope key of the time, by `time.perf_counter`, at which a request began that is served by a task after all.
BEGAN_AT = "upquery.began_at"
#: Interval at which the token of a request that is served by a task is checked again (`service.web.auth.guard`). No
#: other response with access control is deferred for longer.
WATCH_S = 5.0
Done = Callable[[Reply | None], None]


class DeferredReply:
    """A response that is completed by a callback. `begin` is called once, immediately: no resources are held before."""

    __slots__ = ("begin",)

    def __init__(self, begin: Callable[[Done], None]) -> None:
        self.begin = begin

    def mapped(self, change: Callable[[Reply | None], Reply | None]) -> "DeferredReply":
        """Return a response that passes this one's reply through `change`."""
        return DeferredReply(lambda done: self.begin(lambda reply: done(change(reply))))


@runtime_checkable
class DirectApp(Protocol):
    """An ASGI application that answers some requests without a task (`service.web.direct_protocol`)."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None: ...

    def reads_body(self, scope: Scope) -> bool:
        """Return whether `answer` needs the request's body."""
        ...

    def answer(self, scope: Scope, body: bytes | None) -> Reply | DeferredReply | None:
        """Return the response, a deferred one, or None: the request must be served by a task. Must not wait.

        `body` is None unless `reads_body` is true.
        """
        ...
