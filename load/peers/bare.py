"""The peers' HTTP without a framework, for what is compared as an ideal."""

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from load.peers.requests import Requests, Response

_VIEWS, _QUERY, _READ, _WRITES = "/v1/views/", "/query", "/v1/read", "/writes/"
_JSON = (b"content-type", b"application/json")
_HIT = (b"cache-status", b"peer; hit")
_MISS = (b"cache-status", b"peer; fwd=miss; stored")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]


class BareApplication:
    def __init__(self, requests: Requests) -> None:
        self._requests = requests

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        response = await self._response(scope, receive)
        headers = [_JSON, (b"content-length", b"%d" % len(response.body))]
        if response.hit is not None:
            headers.append(_HIT if response.hit else _MISS)
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        await send({"type": "http.response.body", "body": response.body})

    async def _response(self, scope: MutableMapping[str, Any], receive: Receive) -> Response:
        path: str = scope["path"]
        if path.startswith(_VIEWS):
            view = path[len(_VIEWS) :]
            if scope["method"] == "GET":
                return await self._requests.get(view, scope["query_string"])
            return await self._requests.query(view.removesuffix(_QUERY), await _body(receive))
        if path == _READ:
            return await self._requests.read(await _body(receive))
        if path.startswith(_WRITES):
            return await self._requests.write(path[len(_WRITES) :], await _body(receive))
        return Response(404, b"{}")


async def _body(receive: Receive) -> bytes:
    body = bytearray()
    while True:
        message = await receive()
        body += message.get("body", b"")
        if not message.get("more_body"):
            return bytes(body)
