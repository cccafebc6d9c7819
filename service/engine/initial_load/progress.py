"""Progress reports of loads: in the status of waiting views, in the log, and in `/v1/stats`.

*Invariants*: the catalog, which every worker reads when it changes, is changed at most every `PERIOD_S`.

Not here: the counters (`loads`, `dataflow.engine.backfills`).
"""

import asyncio
from collections.abc import Callable
from time import perf_counter
from typing import Any

import structlog

from dataflow.types import ViewId
from service.engine.initial_load.load import LoadProgress
from service.engine.initial_load.loads import InitialLoads
from service.engine.views.registry import Status, ViewRegistry

log = structlog.get_logger()

PERIOD_S = 1.0
#: Maximum loads listed for one view.
_SAID = 3


class LoadReports:
    """Periodic reports. *State*: `_began_s`, since when each view has been seen loading."""

    def __init__(self, loads: InitialLoads, registry: ViewRegistry, say: Callable[[ViewId, str], None]) -> None:
        self._loads = loads
        self._registry = registry
        self._say = say
        self._began_s: dict[ViewId, float] = {}

    async def run(self) -> None:
        """Reports periodically until cancelled."""
        try:
            while True:
                await asyncio.sleep(PERIOD_S)
                self.update()
        finally:
            self._began_s.clear()

    def update(self) -> None:
        """Updates the progress of all views."""
        by_view: dict[ViewId, list[LoadProgress]] = {}
        for progress in self._loads.progress():
            for view in progress.state.views:
                by_view.setdefault(view, []).append(progress)
        for view, found in by_view.items():
            installation = self._registry.installations.get(view)
            if installation is not None and installation.status is Status.BUILDING:
                self._began_s.setdefault(view, perf_counter())
                self._say(view, text_of(found))
        self._note_loaded()

    def _note_loaded(self) -> None:
        for view, began_s in list(self._began_s.items()):
            installation = self._registry.installations.get(view)
            if installation is not None and installation.status is Status.BUILDING:
                continue
            del self._began_s[view]
            if installation is not None and installation.status is Status.READY:
                seconds = round(perf_counter() - began_s, 1)
                log.info("view loaded", view=installation.definition.name, seconds=seconds)

    def stats(self) -> list[dict[str, Any]]:
        """Returns the loads' part of ``/v1/stats``."""
        return [self._stats_of(progress) for progress in self._loads.progress()]

    def _stats_of(self, progress: LoadProgress) -> dict[str, Any]:
        state, installations = progress.state, self._registry.installations
        names = {installations[view].definition.name for view in state.views if view in installations}
        return {
            "views": sorted(names),
            "node": state.node,
            "table": state.table,
            "phase": state.phase,
            "way": progress.way,
            "rows": state.rows,
            "rows_left": state.rows_left,
            "expected_rows": progress.expected_rows,
            "seconds": None if progress.seconds is None else round(progress.seconds, 1),
            "text": progress.text,
        }


def text_of(found: list[LoadProgress]) -> str:
    """Formats the progress of the loads that a view waits for."""
    said = [progress.text for progress in found[:_SAID]]
    return "; ".join(said) + (f"; and {len(found) - _SAID} more" if len(found) > _SAID else "")
