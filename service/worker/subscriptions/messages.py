"""Parsing of clients' WebSocket messages.

Gateways parse them as pods do, so that they forward only messages that concern a subscription.

Not here: execution (`websocket`, `service.gateway.sockets`); views and parameters (`requests`).
"""

from typing import Any

import orjson

from service.ground.errors import ApiError

#: Path of WebSockets.
PATH = "/v1/subscribe"
SUBSCRIBE, UNSUBSCRIBE = "subscribe", "unsubscribe"
_MAX_ID_CHARS = 64
Id = str | int | None


def no_socket_at(path: str) -> ApiError:
    """Return the problem of a WebSocket at another path."""
    return ApiError("not_found", f"{path} does not accept WebSockets.", f"Subscribe at {PATH}.")


def parsed(text: str | bytes) -> dict[str, Any]:
    """Parse a message. Raises ApiError(bad_request)."""
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError:
        raise ApiError("bad_request", "The message is not JSON.") from None
    if not isinstance(message, dict):
        raise ApiError("bad_request", "The message is not a JSON object.")
    return message


def id_of(message: dict[str, Any]) -> Id:
    """Return the id of a message's subscription. Raises ApiError(bad_request)."""
    number = message.get("id")
    if isinstance(number, bool) or not isinstance(number, str | int) or len(str(number)) > _MAX_ID_CHARS:
        raise ApiError(
            "bad_request", f"A message's 'id' must be a number, or a string of at most {_MAX_ID_CHARS} characters."
        )
    return number


def type_of(message: dict[str, Any]) -> str:
    """Return `SUBSCRIBE` or `UNSUBSCRIBE`. Raises ApiError(bad_request)."""
    found = message.get("type")
    if found not in (SUBSCRIBE, UNSUBSCRIBE):
        raise ApiError("bad_request", "A message's 'type' must be 'subscribe' or 'unsubscribe'.")
    return str(found)


def wanted_of(message: dict[str, Any]) -> tuple[str, dict[str, Any], str | None]:
    """Return the view's name, the parameters, and the token to resume after. Raises ApiError(bad_request)."""
    view, params, after = message.get("view"), message.get("params", {}), message.get("after")
    if not isinstance(view, str) or not isinstance(params, dict) or not isinstance(after, str | None):
        raise ApiError(
            "bad_request",
            "A message 'subscribe' must have a view's name; 'params', an object, and 'after', a token, are optional.",
            'For example {"type": "subscribe", "id": 1, "view": "story", "params": {"id": 7}}.',
        )
    return view, params, after


def id_in_use(number: Id) -> ApiError:
    """Return the problem of an id that is in use."""
    return ApiError("bad_request", f"A subscription with the id {number!r} exists already.")


def unknown_id(number: Id) -> ApiError:
    """Return the problem of an unknown id."""
    return ApiError("bad_request", f"Subscription {number!r} does not exist.")
