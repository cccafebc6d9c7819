"""What of a process is traced, in one place."""

from pathlib import Path

from service.auth.guard import DirectApp
from service.settings.telemetry import TraceSettings
from service.traces.traced_app import TracedApp
from service.traces.traced_engine import TracedEngineClient, traced_lookups
from service.traces.tracing import Tracing
from service.upstream.upstream import Lookups
from service.wire import EngineClient


class ProcessTraces(Tracing):
    """The traces of a worker, or of the engine's process."""

    def app(self, app: DirectApp, settings: TraceSettings) -> DirectApp:
        """A worker's application, traced."""
        return TracedApp(app, self, settings.sample_rate)

    def engine_client(self, path: Path) -> EngineClient:
        """A worker's client of the engine, traced."""
        return TracedEngineClient(path, self)

    def lookups(self, lookups: Lookups) -> Lookups:
        """What the engine looks up, traced."""
        return traced_lookups(lookups, self)
