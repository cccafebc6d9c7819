"""The service under measurement: the demo's site, without its write load, as ``upquery demo`` starts it."""

import json
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg

from load import processes
from load.postgres_log import log_end
from load.sides.child import free_port
from load.sides.side import SideError

_START_S = 120.0
_STOP_S = 30.0
#: Stories of the demo; those of the benchmarks are among them.
STORIES = 20_000
_KEYS_A_REQUEST = 500


@dataclass(frozen=True, slots=True)
class DemoSite:
    """A running demo: where it is and which processes it is made of."""

    api: str
    admin: str
    database: str
    supervisor: int

    @property
    def port(self) -> int:
        return int(self.api.rsplit(":", 1)[1])

    @property
    def worker(self) -> int:
        """The API worker: the supervisor's child that was handed the views' socket."""
        return self._child(serving=True)

    @property
    def engine(self) -> int:
        """The engine process: the supervisor's other child."""
        return self._child(serving=False)

    def _child(self, *, serving: bool) -> int:
        found = [pid for pid in processes.children(self.supervisor) if processes.listens_on(pid, self.port) == serving]
        if len(found) != 1:
            raise SideError(f"one {'worker' if serving else 'engine'} process was expected, there are {found}")
        return found[0]

    def database_processes(self) -> list[int]:
        """PostgreSQL's processes of this moment."""
        with psycopg.connect(self.database) as connection:
            return processes.family(processes.parent(connection.info.backend_pid))

    def view_url(self, view: str, **parameters: object) -> str:
        return str(httpx.URL(f"{self.api}/v1/views/{view}", params={k: str(v) for k, v in parameters.items()}))

    def read(self, view: str, **parameters: object) -> httpx.Response:
        """One read. Raises `SideError` unless it succeeded."""
        reply = httpx.get(self.view_url(view, **parameters), timeout=30)
        if reply.status_code != httpx.codes.OK:
            raise SideError(f"{view} {parameters}: {reply.status_code} {reply.text}")
        return reply

    def warm(self, view: str, keys: Sequence[dict[str, Any]]) -> None:
        """Read many keys, so that they are in memory afterwards."""
        with httpx.Client(base_url=self.api, timeout=60) as client:
            for start in range(0, len(keys), _KEYS_A_REQUEST):
                body = {"keys": keys[start : start + _KEYS_A_REQUEST]}
                reply = client.post(f"/v1/views/{view}/query", json=body)
                if reply.status_code != httpx.codes.OK:
                    raise SideError(f"warming {view}: {reply.status_code} {reply.text}")

    def position(self) -> str:
        """The end of the database's log."""
        with psycopg.connect(self.database, autocommit=True) as connection:
            return log_end(connection)

    def has_reached(self, position: str) -> bool:
        """Return whether answers are as new as `position` already."""
        headers = {"Upquery-Min-Version": position, "Prefer": "wait=0"}
        reply = httpx.get(self.view_url("story_with_votes", id=1), headers=headers, timeout=30)
        if reply.status_code not in (httpx.codes.OK, httpx.codes.GATEWAY_TIMEOUT):
            raise SideError(f"asking for {position}: {reply.status_code} {reply.text}")
        return reply.status_code == httpx.codes.OK

    def wait_for(self, position: str, seconds: float = 60.0) -> float:
        """How long it took until answers were as new as `position`, from now."""
        started = time.perf_counter()
        deadline = started + seconds
        headers = {"Upquery-Min-Version": position, "Prefer": f"wait={seconds:.0f}"}
        while time.perf_counter() < deadline:
            url = self.view_url("story_with_votes", id=1)
            reply = httpx.get(url, headers=headers, timeout=seconds + 5)
            if reply.status_code == httpx.codes.OK:
                return time.perf_counter() - started
        raise SideError(f"{position} was not reached within {seconds:.0f} s: {reply.status_code} {reply.text}")


@contextmanager
def running_site() -> Iterator[DemoSite]:
    """A site of its own, stopped at the end."""
    command = [sys.executable, "-c", "from service.command.cli import app; app()", "demo", "--no-load", "--json"]
    ports = ["--port", str(free_port()), "--admin-port", str(free_port())]
    process = subprocess.Popen(
        [*command, *ports], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        started = _first_line(process)
        yield DemoSite(started["api"], started["admin"], started["database"], started["pid"])
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _first_line(process: subprocess.Popen[bytes]) -> dict[str, Any]:
    assert process.stdout is not None
    readable, _, _ = select.select([process.stdout], [], [], _START_S)
    line = process.stdout.readline() if readable else b""
    if not line:
        raise SideError(f"the demo did not start within {_START_S:.0f} s, or ended; it says why above")
    started: dict[str, Any] = json.loads(line)
    return started
