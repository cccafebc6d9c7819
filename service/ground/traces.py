"""Traces of a process, if configured: OpenTelemetry is imported only then."""

from typing import TYPE_CHECKING

from service.settings.telemetry import TraceSettings

if TYPE_CHECKING:
    from service.ground.tracing import Tracing


def tracing_of(settings: TraceSettings | None, process: str) -> "Tracing | None":
    """Return the tracing of `process`; None if it is not configured."""
    if settings is None:
        return None
    from service.ground.tracing import Tracing

    return Tracing.of(settings, process)
