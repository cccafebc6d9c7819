"""Upquery as everybody runs it, with the application in front of the database that takes the site's writes."""

import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from load import processes
from load.sides.application import Application, running_writes
from load.sides.concurrent_start import together
from load.sides.service_process import Sections, Served, joined, memory_directory, running_service, stack_sections
from load.sides.side import Side, SideError, SiteDefinition, SiteView, StartSide, UpstreamDatabase

#: Until all shards answer, and until all views are ready (full ones are built first).
_START_S = 120.0
_BUILD_S = 1800.0
_POLL_S = 0.1
#: A view that is kept whole is at one shard; the others have nothing to do for it.
_THERE = ("ready", "elsewhere")


def upquery(
    memory: str = "1GiB",
    full: bool = False,
    workers: int = 1,
    name: str | None = None,
    sections: Sections | None = None,
) -> StartSide:
    """Upquery with a memory budget; `full`: every view is kept whole.
    `sections`: more settings, by table."""
    engine = {"memory": memory}
    title = name or ("Upquery, full" if full else "Upquery")

    @contextmanager
    def start(upstream: UpstreamDatabase, site: SiteDefinition) -> Iterator[Side]:
        with (
            tempfile.TemporaryDirectory(prefix="upquery-load-") as directory,
            tempfile.TemporaryDirectory(prefix="upquery-load-", dir=memory_directory()) as run,
        ):
            usual = stack_sections(upstream.url, Path(directory), run, engine, workers)
            service = running_service(Path(directory) / "upquery.toml", joined(usual, sections or {}))
            with together(running_writes(upstream, site), service) as (application, served):
                AdminClient(served.admin).install(site, full=full)
                yield _side(title, upstream, application, served, Path(run))

    return start


def _side(title: str, upstream: UpstreamDatabase, application: Application | None, served: Served, run: Path) -> Side:
    admin = AdminClient(served.admin)
    applications = [] if application is None else [application.pid]
    return Side(
        name=title,
        reads_url=served.http,
        writes_url=served.http if application is None else application.url,
        pids=lambda: [*processes.family(served.pid), *applications, *upstream.pids()],
        resident_bytes=lambda: processes.resident_bytes(processes.family(served.pid)) + processes.stored_bytes(run),
        state_bytes=admin.state_bytes,
        flush=admin.evict_all,
        admin_url=served.admin,
    )


class AdminClient:
    """The admin port of a stack, of a pod, or of a gateway."""

    def __init__(self, url: str) -> None:
        self._client = httpx.Client(base_url=url, timeout=60)

    def install(self, site: SiteDefinition, *, full: bool) -> None:
        """Put all views, and return once they are ready. Raises `SideError`."""
        self._wait(self._is_ready, "upquery", _START_S)
        for view in site.views:
            self._put(view, full=full)
        self._wait(lambda: self._are_ready(len(site.views)), "the views", _BUILD_S)

    def state_bytes(self) -> int:
        """What it says it holds."""
        sizes = self._json(self._client.get("/v1/stats"))["sizes"]
        return int(sizes["engine_state_bytes"]) + int(sizes["leaf_bytes"])

    def evict_all(self) -> None:
        """Forget all keys of views that are not kept whole."""
        for view in self._views():
            if view["materialization"] != "full":
                self._json(self._client.post("/v1/evict", json={"view": view["name"]}))

    def _put(self, view: SiteView, *, full: bool) -> None:
        options = {**view.options, **({"materialization": "full"} if full else {})}
        body = {"sql": view.sql, **options}
        self._json(self._client.put(f"/v1/catalog/views/{view.name}", json=body), view.name)

    def _is_ready(self) -> bool:
        return self._client.get("/readyz").is_success

    def _are_ready(self, count: int) -> bool:
        reply = self._client.get("/v1/catalog/views")
        if reply.status_code == httpx.codes.GATEWAY_TIMEOUT:
            # The engine process is busy with a large view; it says nothing until it has it.
            return False
        views: list[dict[str, Any]] = self._json(reply)["views"]
        broken = [f"{view['name']}: {view['reason']}" for view in views if view["status"] == "broken"]
        if broken:
            raise SideError("views are broken: " + "; ".join(broken))
        return len([view for view in views if view["status"] in _THERE]) >= count

    def _views(self) -> list[dict[str, Any]]:
        views: list[dict[str, Any]] = self._json(self._client.get("/v1/catalog/views"))["views"]
        return views

    def _json(self, reply: httpx.Response, what: str = "upquery") -> dict[str, Any]:
        if reply.is_error:
            raise SideError(f"{what}: {reply.status_code} {reply.text}")
        body: dict[str, Any] = reply.json()
        return body

    def _wait(self, condition: Any, what: str, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise SideError(f"{what} were not ready within {seconds:.0f} s")
            time.sleep(_POLL_S)
