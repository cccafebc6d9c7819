"""Applied workload model: pins and fills its keys, in this engine and in later ones.

*Invariants*: a model is written to disk before it is applied, and applied again after a restart. `_pinned` lists all
pins made for the model; they are removed when the model is replaced or dropped; a replaced view is pinned and filled
again.

Not here: filling (`service.engine.reads.prewarm`), the model's format (`service.protocol.workload`), its purpose
(docs/workload.md).
"""

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog
from pydantic import ValidationError

from dataflow.engine.events import Pin, Unpin
from dataflow.types import Key, Position, ViewId
from service.engine.loop.dispatcher import Dispatcher
from service.engine.reads.prewarm import Prewarm, items_of
from service.engine.views.registry import Status, ViewRegistry
from service.ground.errors import ApiError
from service.leaf_store.request import request_of
from service.leaf_store.writer import LeafWriter
from service.protocol.workload import AppliedState, AppliedView, Workload, WorkloadModel

log = structlog.get_logger()

_FILE = "workload.json"


@dataclass(frozen=True, slots=True)
class _AppliedView:
    """Application to a view: its id, the pinned keys, and the number of texts that are not keys."""

    id: ViewId
    pinned: Sequence[Key]
    refused: int


class AppliedWorkload:
    """Workload model of one service.

    *State*: `_model`, None without one; `_done` by view, for the engine `_engine`.
    """

    def __init__(
        self, dispatcher: Dispatcher, registry: ViewRegistry, leaf: LeafWriter, prewarm: Prewarm, directory: Path
    ) -> None:
        self._dispatcher = dispatcher
        self._registry = registry
        self._leaf = leaf
        self._prewarm = prewarm
        self._path = directory / _FILE
        self._model: WorkloadModel | None = None
        self._engine: object = None
        self._done: dict[str, _AppliedView] = {}
        dispatcher.on_move(self._moved)

    def load(self) -> None:
        """Loads the stored model. An invalid file is left unchanged and logged."""
        try:
            self._model = WorkloadModel.model_validate_json(self._path.read_bytes())
        except FileNotFoundError:
            pass
        except (OSError, ValidationError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not a workload model of this version"
            log.warning("the workload model cannot be read; no model is applied", path=str(self._path), reason=reason)

    def put(self, model: WorkloadModel) -> Workload:
        """Replaces the model. Raises `ApiError`."""
        for view in model.views:
            if view not in self._registry.views:
                raise ApiError(
                    "view_not_found",
                    f"View {view!r} of the model does not exist in this service.",
                    "Check that the model is of this service. If the view was dropped, create a new model.",
                )
        self._keep(model)
        self._undo()
        self._model = model
        self._apply()
        return self.state()

    def drop(self) -> None:
        """Drops the model. Raises `ApiError`."""
        try:
            self._path.unlink(missing_ok=True)
        except OSError as error:
            raise ApiError("internal_error", f"{self._path} cannot be removed: {error.strerror}.") from None
        self._undo()
        self._model = None

    def state(self) -> Workload:
        """Returns the applied model and its progress."""
        if self._model is None:
            return Workload(applied=False, views=[])
        sizes = self._leaf.bytes_by_view()
        return Workload(
            applied=True, views=[self._state(name, view, sizes) for name, view in sorted(self._model.views.items())]
        )

    def _state(self, name: str, view: AppliedView, sizes: Mapping[ViewId, int]) -> AppliedState:
        done = self._done.get(name)
        return AppliedState(
            view=name,
            budget_bytes=view.budget_bytes,
            used_bytes=0 if done is None else sizes.get(done.id, 0),
            pins=len(view.pin),
            pinned=0 if done is None else len(done.pinned),
            refused=0 if done is None else done.refused,
            prewarm=len(view.prewarm),
        )

    def _keep(self, model: WorkloadModel) -> None:
        beside = self._path.with_suffix(".tmp")
        try:
            beside.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("wb") as file:
                file.write(model.model_dump_json().encode())
                file.flush()
                os.fsync(file.fileno())
            beside.replace(self._path)
        except OSError as error:
            raise ApiError("internal_error", f"The model cannot be stored in {self._path}: {error.strerror}.") from None

    def _moved(self, _: Position) -> None:
        """Handles a new engine or a changed view."""
        if self._model is not None and self._is_due():
            # Not within the step that reports the change.
            asyncio.get_running_loop().call_soon(self._apply)

    def _is_due(self) -> bool:
        assert self._model is not None
        if self._engine is not self._dispatcher.engine:
            return True
        return any(self._id_of(name) not in (None, self._id_done(name)) for name in self._model.views)

    def _id_done(self, name: str) -> ViewId | None:
        done = self._done.get(name)
        return None if done is None else done.id

    def _id_of(self, name: str) -> ViewId | None:
        """Returns the id of a view that answers reads."""
        registered = self._registry.views.get(name)
        installed = None if registered is None else registered.installed
        ready = installed is not None and installed.status is Status.READY
        return installed.id if ready and installed is not None else None

    def _apply(self) -> None:
        if self._model is None or not self._dispatcher.running:
            return
        if self._engine is not self._dispatcher.engine:
            # A new engine has none of the pins.
            self._engine = self._dispatcher.engine
            self._done.clear()
        for name, view in self._model.views.items():
            id_ = self._id_of(name)
            if id_ is not None and id_ != self._id_done(name):
                self._done[name] = self._pin(id_, view)
                if view.prewarm:
                    self._prewarm.begin(name, view.prewarm)

    def _pin(self, id_: ViewId, view: AppliedView) -> _AppliedView:
        info = self._leaf.info(id_)
        items = items_of(info, view.pin)
        keys = list(dict.fromkeys(key for item in items for key in request_of(info, item.values).keys))
        for key in keys:
            self._dispatcher.step(Pin(id_, key))
        return _AppliedView(id_, keys, len(view.pin) - len(items))

    def _undo(self) -> None:
        """Removes the model's pins."""
        if self._engine is self._dispatcher.engine:
            for done in self._done.values():
                for key in done.pinned:
                    self._dispatcher.step(Unpin(done.id, key))
        self._done.clear()
