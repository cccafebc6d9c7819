"""Runs ``upquery serve`` for the demo: the service as everybody runs it, in a process of its own.

*Maintains*: after `stop` no process of the service is left. The service runs in its own session, so that a Ctrl-C in
the terminal reaches the demo only, which then stops things in their order.
"""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import IO

import httpx

from service.demo.views import VIEWS
from service.web.auth.tokens import entry_text

#: Time for processes to stop after SIGTERM.
_STOP_S = 15.0
_START_S = 60.0


class ServiceError(Exception):
    """The service did not start, or ended by itself; the message has the end of its log."""


@dataclass(frozen=True, slots=True)
class ServiceConfig:
    """Settings of the demo; everything else is the service's default."""

    upstream_url: str
    port: int
    admin_port: int
    workers: int = 1
    #: What the service asks for, if it asks for one.
    token: str | None = None
    #: Name and SQL of each view.
    views: tuple[tuple[str, str], ...] = tuple((view.name, view.sql.strip()) for view in VIEWS)

    @property
    def headers(self) -> dict[str, str]:
        """Headers of every request."""
        return {} if self.token is None else {"authorization": f"Bearer {self.token}"}

    def toml(self, state_directory: Path, tokens_file: Path) -> str:
        # A JSON string is a TOML string.
        lines = [
            "[upstream]",
            f"url = {json.dumps(self.upstream_url)}",
            "[http]",
            f"port = {self.port}",
            f"admin_port = {self.admin_port}",
            f"workers = {self.workers}",
            "[state]",
            f"directory = {json.dumps(str(state_directory))}",
        ]
        if self.token is not None:
            lines += ["[auth]", f"tokens_file = {json.dumps(str(tokens_file))}"]
        for name, sql in self.views:
            lines += ["[[views]]", f"name = {json.dumps(name)}", f"sql = {json.dumps(sql)}"]
        return "\n".join(lines) + "\n"


class ServiceProcess:
    """A running ``upquery serve``."""

    def __init__(self, directory: Path, config: ServiceConfig) -> None:
        self._directory = directory
        self._config = config
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def log_path(self) -> Path:
        return self._directory / "service.log"

    @property
    def config_path(self) -> Path:
        """The configuration that it runs with."""
        return self._directory / "upquery.toml"

    @property
    def url(self) -> str:
        """Data port's URL."""
        return f"http://127.0.0.1:{self._config.port}"

    @property
    def admin_url(self) -> str:
        """Admin port's URL."""
        return f"http://127.0.0.1:{self._config.admin_port}"

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        """Start it, and return when it answers. Raises `ServiceError`."""
        self._directory.mkdir(parents=True, exist_ok=True)
        tokens_file = self._directory / "tokens.toml"
        if self._config.token is not None:
            rights = {"rights": '["read", "admin"]'}
            tokens_file.write_text(entry_text("demo", self._config.token, rights), encoding="utf-8")
        self.config_path.write_text(self._config.toml(self._directory / "state", tokens_file), encoding="utf-8")
        with self.log_path.open("wb") as log:
            self._process = self._spawn(log)
        deadline = time.monotonic() + _START_S
        while not self._answers():
            self.check_alive()
            if time.monotonic() > deadline:
                raise ServiceError(f"the service was not ready within {_START_S:.0f} s\n{self.log_tail()}")
            time.sleep(0.05)

    def _spawn(self, log: IO[bytes]) -> subprocess.Popen[bytes]:
        # Settings of the caller's own service must not leak into the demo's.
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UPQUERY_")}
        return subprocess.Popen(
            [
                sys.executable,
                "-c",
                "from service.command.cli import app; app()",
                "serve",
                "--config",
                str(self.config_path),
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=environment,
            start_new_session=True,
        )

    def _answers(self) -> bool:
        """Return whether it is ready, and every view's first state is loaded."""
        try:
            if httpx.get(f"{self.admin_url}/readyz", timeout=5.0).status_code != httpx.codes.OK:
                return False
            headers = self._config.headers
            views = httpx.get(f"{self.admin_url}/v1/catalog/views", headers=headers, timeout=5.0).json()
        except (httpx.HTTPError, ValueError):
            return False
        states = views["views"] if isinstance(views, dict) else views
        broken = [f"{state['name']}: {state.get('reason')}" for state in states if state["status"] == "broken"]
        if broken:
            raise ServiceError("views are broken: " + "; ".join(broken))
        return len(states) >= len(self._config.views) and all(state["status"] == "ready" for state in states)

    def check_alive(self) -> None:
        """Raise `ServiceError` if it ended by itself."""
        if self._process is not None and self._process.poll() is not None:
            raise ServiceError(f"the service ended with code {self._process.returncode}\n{self.log_tail()}")

    def log_tail(self, lines: int = 30) -> str:
        """The end of its log."""
        text = self.log_path.read_text(encoding="utf-8", errors="replace")
        return "\n".join(text.splitlines()[-lines:])

    def stop(self) -> None:
        """Stop it with all its children."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            # Its own session: the whole group, and nothing else.
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._process = None
