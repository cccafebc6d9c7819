"""Configuration of a gateway's worker process, apart from the worker's modules, which its supervisor does not need."""

from dataclasses import dataclass
from pathlib import Path

from service.settings.auth import AuthSettings
from service.settings.gateway import GatewaySettings
from service.settings.sections import HttpSettings


@dataclass(frozen=True, slots=True)
class GatewayWorkerConfig:
    """Configuration of one worker; picklable, for a spawned process."""

    #: 0, 1, … : which worker this is, in its reports.
    number: int
    settings: GatewaySettings
    #: The file of the settings, which is followed; None: they stay as they are.
    path: Path | None = None
    #: A Unix datagram socket that is told once a second what was counted; None: nobody is.
    report_path: Path | None = None
    #: How long requests that are being answered have when the worker is stopped.
    graceful_shutdown_s: float = 3.0

    @property
    def http(self) -> HttpSettings:
        """Bounds of requests and connections."""
        return self.settings.http

    @property
    def auth(self) -> AuthSettings | None:
        """Settings of authentication; None: the gateway lets everybody in."""
        return self.settings.auth

    @property
    def slow_ms(self) -> float:
        """Duration in milliseconds from which requests are logged."""
        return self.settings.log.slow_ms
