"""Configuration of an API worker's process, apart from the worker's modules, which the supervisor does not need."""

from dataclasses import dataclass, field
from pathlib import Path

from service.settings.auth import AuthSettings
from service.settings.sections import HttpSettings, SubscriptionSettings
from service.settings.telemetry import AccessLogSettings, TraceSettings


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """Configuration of an API worker; picklable, for a spawned process."""

    #: 0, 1, … : which worker this is, in its reports.
    number: int
    leaf_path: Path
    engine_socket: Path
    http: HttpSettings = field(default_factory=HttpSettings)
    #: How long requests that are being answered have when the worker is stopped.
    graceful_shutdown_s: float = 3.0
    #: Who is let in; None: everybody.
    auth: AuthSettings | None = None
    subscriptions: SubscriptionSettings = field(default_factory=SubscriptionSettings)
    #: Whether queries may name no view.
    adhoc: bool = False
    #: What is read is written down; None: it is not. Claims are hashed with this key.
    access_log: AccessLogSettings | None = None
    claims_key: bytes | None = None
    traces: TraceSettings | None = None
    #: What takes longer is logged.
    slow_ms: float = 1000.0
    #: Of further shards, the leaf store and the engine's socket.
    others: tuple[tuple[Path, Path], ...] = ()
