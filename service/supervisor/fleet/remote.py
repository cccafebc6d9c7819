"""The operations of a service on another machine, over its admin port (`POST /internal/control`), for a gateway.

*Invariants*: whatever goes wrong on the way is ``engine_unavailable``, with what to do where somebody can do something,
or ``read_timeout`` if it may have been done; what the service refuses is as it says it.

Not here: what the operations do (`operations`); which service is asked (`replicas`).
"""

from collections.abc import Callable
from typing import TypeVar

import httpx
import orjson

from service.ground.errors import KINDS, ApiError
from service.protocol.admin_operations import Operation, request_of, result_of
from service.settings.errors import SettingsError

R = TypeVar("R")
PATH = "/internal/control"
#: An operation may take as long as on the machine itself (`control.ControlClient`).
_TIMEOUT_S = 60.0
#: The pods of a gateway that are asked at once.
_CONNECTIONS = 256


def remote_client(connect_timeout_s: float) -> httpx.AsyncClient:
    """For all services of a gateway."""
    return httpx.AsyncClient(
        timeout=httpx.Timeout(_TIMEOUT_S, connect=connect_timeout_s, pool=_TIMEOUT_S),
        limits=httpx.Limits(max_connections=_CONNECTIONS, max_keepalive_connections=_CONNECTIONS),
        # Nobody's proxy is to see what goes to the pods.
        trust_env=False,
    )


class RemoteControl:
    """A `Control`. `token` is called for each request, as the token may change."""

    def __init__(self, address: str, client: httpx.AsyncClient, token: Callable[[], str | None]) -> None:
        self.address = address
        self._client = client
        self._token = token

    async def call(self, operation: Operation[R]) -> R:
        """The operation's reply. Raises its ApiError, ApiError(engine_unavailable) or ApiError(read_timeout)."""
        try:
            response = await self._client.post(
                self.address + PATH, content=request_of(operation), headers=self._headers()
            )
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout):
            raise ApiError("engine_unavailable", f"{self.address} cannot be reached.") from None
        except httpx.ReadTimeout:
            raise ApiError("read_timeout", f"{self.address} did not answer within {_TIMEOUT_S:g} s.") from None
        except httpx.HTTPError as error:
            raise ApiError(
                "engine_unavailable", f"{self.address} closed the connection: {type(error).__name__}."
            ) from None
        return self._result(operation, response)

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/json"}
        try:
            token = self._token()
        except SettingsError as error:
            raise ApiError("engine_unavailable", str(error)) from None
        return headers if token is None else headers | {"authorization": f"Bearer {token}"}

    def _result(self, operation: Operation[R], response: httpx.Response) -> R:
        try:
            reply = orjson.loads(response.content)
        except ValueError:
            reply = None
        if response.status_code in (401, 403):
            raise ApiError(
                "engine_unavailable",
                f"{self.address} rejects the gateway's token.",
                "Set [gateway] admin_token or admin_token_file to a token with the right admin.",
            )
        if response.status_code == 413:
            raise ApiError("too_large", f"{self.address} rejects the request as too large.")
        if not isinstance(reply, dict) or not reply.keys() & {"result", "error"}:
            raise ApiError("engine_unavailable", f"{self.address} answered with status {response.status_code}.")
        if "error" in reply and reply["error"]["code"] not in KINDS:
            raise ApiError("internal_error", f"{self.address} says: {reply['error']['detail']}")
        try:
            return result_of(operation, reply)
        except ValueError:
            raise ApiError("engine_unavailable", f"{self.address} is of another version than the gateway.") from None
