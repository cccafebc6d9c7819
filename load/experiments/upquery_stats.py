"""What a running Upquery says of itself, for experiments that look closer than at its answers."""

from dataclasses import dataclass
from typing import Any

import httpx

from load.sides.side import Side, SideError


@dataclass(frozen=True, slots=True)
class ServiceStats:
    """``GET /v1/stats``, of one moment."""

    document: dict[str, Any]

    @property
    def state_bytes(self) -> int:
        """Engine state and leaf store."""
        sizes = self.document["sizes"]
        return int(sizes["engine_state_bytes"] + sizes["leaf_bytes"])

    @property
    def engine_pid(self) -> int:
        """The engine process."""
        return int(self.document["pid"])

    @property
    def position(self) -> int:
        """How far the database's log has been applied."""
        return int(self.document["position"])

    @property
    def age_ms(self) -> float:
        """How far answers may be behind the database."""
        return float(self.document["age_ms"])

    def keys(self, view: str) -> int:
        """Keys of a view that are in memory."""
        return int(self.document["views"][view]["covered_keys"])

    def counter(self, name: str) -> int:
        """One of the service's counters."""
        return int(self.document["counters"][name])


class Admin:
    """The admin port of a side. Its methods raise `SideError` for answers that are errors, and `httpx.HTTPError`."""

    def __init__(self, side: Side) -> None:
        if side.admin_url is None:
            raise SideError(f"{side.name} is no Upquery")
        self._client = httpx.Client(base_url=side.admin_url, timeout=300)

    def stats(self) -> ServiceStats:
        """Now."""
        return ServiceStats(_document(self._client.get("/v1/stats")))

    def put(self, view: str, sql: str, **options: Any) -> None:
        """Install a view; it may still be building when this returns."""
        _document(self._client.put(f"/v1/catalog/views/{view}", json={"sql": sql, **options}))

    def status(self, view: str) -> str:
        """``ready``, ``building`` or ``broken``."""
        return str(_document(self._client.get(f"/v1/catalog/views/{view}"))["status"])


def _document(reply: httpx.Response) -> dict[str, Any]:
    if reply.is_error:
        raise SideError(f"{reply.request.url.path}: {reply.status_code} {reply.text}")
    document: dict[str, Any] = reply.json()
    return document
