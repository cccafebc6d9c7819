"""A process's traces, where there are to be any: only then is imported what needs OpenTelemetry."""

from typing import TYPE_CHECKING

from service.settings.telemetry import TraceSettings

if TYPE_CHECKING:
    from service.traces.process import ProcessTraces


def traces_of(settings: TraceSettings | None, process: str) -> "ProcessTraces | None":
    """The traces of `process`; None if there are none."""
    if settings is None:
        return None
    from service.traces.process import ProcessTraces

    return ProcessTraces.of(settings, process)
