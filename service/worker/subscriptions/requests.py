"""Parsing of subscription requests.

``live`` and ``after`` of the query string belong to the subscription, unless the view has a parameter of that name;
then they are parameters, and the header ``Last-Event-ID`` has the token.
"""

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote_plus

from service.ground.errors import ApiError
from service.web.messages import Headers
from service.web.principal import Principal
from service.worker.reads.known_views import KnownViews
from service.worker.reads.reads import ViewRoute, WantedRead
from service.worker.subscriptions.messages import wanted_of

EVENT_STREAM = b"text/event-stream"
_LIVE = "live"
_AFTER = "after"
_POLL = "poll"


@dataclass(frozen=True, slots=True)
class SubscriptionRequest:
    """The followed answer and the token; `polls`: only until the next change."""

    wanted: WantedRead
    after: str | None = None
    polls: bool = False


def wants_events(headers: Headers) -> bool:
    """Return whether a request accepts server-sent events."""
    # A gateway runs this before each read: a generator would take three times as long.
    for name, value in headers:  # noqa: SIM110
        if name == b"accept" and EVENT_STREAM in value:
            return True
    return False


def is_live(query: bytes) -> bool:
    """Return whether a query string contains ``live``."""
    return b"live=" in query and any(part.startswith(b"live=") for part in query.split(b"&"))


def has_own_live(route: ViewRoute) -> bool:
    """Return whether ``live`` is a parameter of the view."""
    return _LIVE in _own(route)


def asked_of(route: ViewRoute, query: bytes, headers: Headers, principal: Principal | None) -> SubscriptionRequest:
    """Parse a GET. Raises ApiError(parameter_…, forbidden)."""
    own = _own(route)
    rest, taken = _without(query, {_LIVE, _AFTER} - own)
    live = taken.get(_LIVE)
    if live not in (None, _POLL):
        raise ApiError(
            "parameter_type",
            f"Parameter 'live' cannot be {live[:40]!r}.",
            "Expected 'poll'; for a stream of events leave it out, and send Accept: text/event-stream.",
            members={"parameter": _LIVE},
        )
    if live is not None and route.info.timed:
        raise ApiError(
            "parameter_type",
            f"View {route.info.name!r} depends on the current time, so that no token of a poll identifies its rows.",
            "Read it again, or subscribe to its events.",
            members={"parameter": _LIVE},
        )
    values, window = route.arguments.parse(rest, principal)
    if window is not None:
        raise ApiError(
            "parameter_unknown",
            "A subscription covers all rows of a key; pages are not supported.",
            "Omit 'limit'; a LIMIT in the view's SQL applies.",
            members={"parameter": "limit"},
        )
    after = taken.get(_AFTER) or _last_event_id(headers)
    return SubscriptionRequest(WantedRead(route, values), after, live is not None)


def asked_of_message(reads: KnownViews, message: dict[str, Any], principal: Principal | None) -> SubscriptionRequest:
    """Parse a WebSocket message. Raises ApiError."""
    view, params, after = wanted_of(message)
    route = reads.route(view, principal)
    return SubscriptionRequest(WantedRead(route, route.arguments.values(params, principal)), after)


def _own(route: ViewRoute) -> set[str]:
    return {parameter.name for parameter in route.info.given}


def _without(query: bytes, names: set[str]) -> tuple[bytes, dict[str, str]]:
    """Remove these arguments from a query string and return both. Raises ApiError(parameter_type)."""
    kept, taken = [], {}
    for part in query.split(b"&"):
        raw_name, _, raw_value = part.partition(b"=")
        name = unquote_plus(raw_name.decode("latin-1"))
        if name not in names:
            kept.append(part)
        elif name in taken:
            raise ApiError(
                "parameter_type", f"Parameter {name!r} must be given only once.", members={"parameter": name}
            )
        else:
            taken[name] = unquote_plus(raw_value.decode("latin-1"))
    return b"&".join(kept), taken


def _last_event_id(headers: Headers) -> str | None:
    return next((value.decode("latin-1").strip() for name, value in headers if name == b"last-event-id"), None) or None
