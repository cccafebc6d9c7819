"""Upquery as everybody runs it, with the application in front of the database that takes the site's writes."""

import json
import os
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from load import processes
from load.peers.configuration import PeerConfiguration
from load.sides.application import running_application
from load.sides.child import running
from load.sides.side import Side, SideError, SiteDefinition, SiteView, StartSide, Upstream

#: Until it says that it is ready, and until all views are (full ones are built first).
_START_S = 120.0
_BUILD_S = 1800.0
_POLL_S = 0.1
_MEMORY = "/dev/shm"


def upquery(
    memory: str = "1GiB", full: bool = False, eviction: str | None = None, workers: int = 1, name: str | None = None,
    sections: Mapping[str, Mapping[str, Any]] | None = None,
) -> StartSide:  # fmt: skip
    """Upquery with a memory budget; `full`: every view is kept whole. `eviction`: a policy, if not the default.
    `sections`: more settings, by table."""
    engine = {"memory": memory} | ({} if eviction is None else {"eviction": eviction})
    title = name or ("Upquery, full" if full else "Upquery")

    @contextmanager
    def start(upstream: Upstream, site: SiteDefinition) -> Iterator[Side]:
        with (
            running_application(PeerConfiguration("direct", site, upstream.url)) as writes,
            tempfile.TemporaryDirectory(prefix="upquery-load-") as directory,
            tempfile.TemporaryDirectory(prefix="upquery-load-", dir=_memory()) as run,
        ):
            config = Path(directory) / "upquery.toml"
            text = _toml(upstream.url, directory, engine | {"directory": run}, workers, sections or {})
            config.write_text(text, encoding="utf-8")
            command = [sys.executable, "-c", "from service.cli import app; app()", "serve", "--json"]
            with running([*command, "--config", str(config)], output=subprocess.PIPE) as process:
                ready = _first_line(process)
                admin = _Admin(ready["admin"])
                admin.install(site, full=full)
                yield Side(
                    name=title,
                    reads_url=ready["http"],
                    writes_url=writes.url,
                    pids=lambda: [*processes.family(process.pid), writes.pid, *upstream.pids()],
                    resident_bytes=lambda: (
                        processes.resident_bytes(processes.family(process.pid)) + processes.stored_bytes(Path(run))
                    ),
                    state_bytes=admin.state_bytes,
                    flush=admin.evict_all,
                    admin_url=ready["admin"],
                )

    return start


def _memory() -> str | None:
    """Where the service keeps its leaf store unless told otherwise, if there is such a place."""
    return _MEMORY if os.access(_MEMORY, os.W_OK | os.X_OK) else None


def _toml(
    url: str, directory: str, engine: dict[str, str], workers: int, more: Mapping[str, Mapping[str, Any]]
) -> str:  # fmt: skip
    # A JSON string is a TOML string.
    sections: dict[str, dict[str, Any]] = {
        "upstream": {"url": url},
        "cdc": {"set_replica_identity": True},
        "http": {"port": 0, "admin_port": 0, "workers": workers},
        "engine": engine,
        "state": {"directory": str(Path(directory) / "state")},
        "log": {"level": "warning"},
    }
    for name, values in more.items():
        sections[name] = {**sections.get(name, {}), **values}
    lines = []
    for name, values in sections.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in values.items())]
    return "\n".join(lines) + "\n"


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], _START_S)
    line = process.stdout.readline() if readable else b""
    if not line:
        raise SideError(f"upquery did not start within {_START_S:.0f} s, or ended; it says why above")
    said: dict[str, Any] = json.loads(line)
    if said["event"] != "ready":
        raise SideError(f"upquery does not start: {said['message']}")
    return said


class _Admin:
    """The admin port."""

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
        return len([view for view in views if view["status"] == "ready"]) >= count

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
