"""Client of the admin port of a stack, of a pod, or of a gateway."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import httpx

from load.sides.side import Side, SideError
from load.site import SiteDefinition, SiteView

#: Until all shards answer, and until all views are ready (full ones are built first).
_START_S = 120.0
_BUILD_S = 1800.0
_POLL_S = 0.1
_TIMEOUT_S = 300.0
#: A fully materialized view is at one shard; the others report it as being elsewhere.
_READY = ("ready", "elsewhere")


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
        return int(self.document["counters"][name])


class AdminClient:
    """Methods raise `SideError` for answers that are errors, and `httpx.HTTPError`."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=_TIMEOUT_S)

    @classmethod
    def of(cls, side: Side) -> Self:
        """Connects to the admin port of a side. Raises `SideError` if it has none."""
        if side.admin_url is None:
            raise SideError(f"{side.name} is no Upquery")
        return cls(side.admin_url)

    def get(self, path: str) -> Any:
        """Returns the document at a path."""
        return _document(self._client.get(path))

    def stats(self) -> ServiceStats:
        """Returns the current statistics."""
        return ServiceStats(self.get("/v1/stats"))

    def views(self) -> list[dict[str, Any]]:
        """Returns all views with their status."""
        views: list[dict[str, Any]] = self.get("/v1/catalog/views")["views"]
        return views

    def put(self, view: str, sql: str, **options: Any) -> None:
        """Install a view; it may still be building when this returns."""
        _document(self._client.put(f"/v1/catalog/views/{view}", json={"sql": sql, **options}))

    def status(self, view: str) -> str:
        """``ready``, ``building`` or ``broken``."""
        return str(self.get(f"/v1/catalog/views/{view}")["status"])

    def install(self, site: SiteDefinition, *, full: bool) -> None:
        """Put all views, and return once they are ready."""
        _wait(lambda: self._client.get("/readyz").is_success, "upquery", _START_S)
        for view in site.views:
            self._put(view, full=full)
        _wait(lambda: self._are_ready(len(site.views)), "the views", _BUILD_S)

    def state_bytes(self) -> int:
        """Returns the bytes of engine state and leaf store."""
        return self.stats().state_bytes

    def evict_all(self) -> None:
        """Evict all keys of views that are not fully materialized."""
        for view in self.views():
            if view["materialization"] != "full":
                _document(self._client.post("/v1/evict", json={"view": view["name"]}))

    def _put(self, view: SiteView, *, full: bool) -> None:
        self.put(view.name, view.sql, **{**view.options, **({"materialization": "full"} if full else {})})

    def _are_ready(self, count: int) -> bool:
        reply = self._client.get("/v1/catalog/views")
        if reply.status_code == httpx.codes.GATEWAY_TIMEOUT:
            # The engine process is busy with a large view, and answers once it is built.
            return False
        views: list[dict[str, Any]] = _document(reply)["views"]
        broken = [f"{view['name']}: {view['reason']}" for view in views if view["status"] == "broken"]
        if broken:
            raise SideError("views are broken: " + "; ".join(broken))
        return len([view for view in views if view["status"] in _READY]) >= count


def _document(reply: httpx.Response) -> Any:
    if reply.is_error:
        raise SideError(f"{reply.request.url.path}: {reply.status_code} {reply.text}")
    return reply.json()


def _wait(condition: Callable[[], bool], what: str, seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise SideError(f"{what} were not ready within {seconds:.0f} s")
        time.sleep(_POLL_S)
