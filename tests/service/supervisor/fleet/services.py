"""A service as its admin port sees it, without an engine: what it was told of views."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from service.ground.errors import ApiError
from service.protocol.admin_models import Evicted, Health, MemoryState, ViewState
from service.protocol.admin_operations import (
    Evict,
    GetHealth,
    ListChanges,
    ListViews,
    Operation,
    PutResult,
    RegisterView,
    RemoveView,
    SettleView,
    ViewChange,
)


@dataclass
class Service:
    """A pod's `Control`: what it was told of views, as `service.engine.views.registry` keeps it."""

    kept: dict[str, dict[str, Any]] = field(default_factory=dict)
    away: bool = False
    starting: bool = False
    refuses: set[str] = field(default_factory=set)
    #: It does what it is told to change, and its connection breaks before it can say so.
    breaks: bool = False
    #: It takes connections and says nothing.
    hangs: bool = False
    hangs_when_settling: bool = False
    #: What it is told to settle it does when this happens.
    settling: asyncio.Event | None = None
    #: Views, and which other one each of them reads.
    reads: dict[str, str] = field(default_factory=dict)
    #: It goes away when it is told to evict.
    evicts: bool = True
    settles: list[str] = field(default_factory=list)
    asked: list[type[Operation[Any]]] = field(default_factory=list)
    #: How many others have their turn before it has done what it was told.
    slow: Callable[[], int] = lambda: 0

    async def call(self, operation: Operation[Any]) -> Any:
        self.asked.append(type(operation))
        if self.away:
            raise ApiError("engine_unavailable", "It is away.")
        for _ in range(self.slow()):
            await asyncio.sleep(0)
        settles = isinstance(operation, SettleView)
        if settles and self.settling is not None:
            await self.settling.wait()
        if self.hangs or (settles and self.hangs_when_settling):
            raise ApiError("read_timeout", "It did not answer within 60 s.")
        answer = self._answer(operation)
        if self.breaks and isinstance(operation, RegisterView | RemoveView):
            raise ApiError("engine_unavailable", "It went away.")
        return answer

    def _answer(self, operation: Operation[Any]) -> Any:
        match operation:
            case GetHealth():
                return self._health()
            case ListChanges():
                return {name: change_of(change) for name, change in self.kept.items()}
            case ListViews():
                return self._views()
            case RegisterView():
                return self._put(operation)
            case RemoveView():
                return self._drop(operation)
            case SettleView(name, change):
                return self._settle(name, change)
            case Evict():
                return self._evict()
        raise NotImplementedError(operation)

    def _health(self) -> Health:
        memory = MemoryState(budget_bytes=1, used_bytes=0, over_budget=False)
        return Health(ready=not self.starting, streaming=True, age_ms=1, version="pg:0/1", memory=memory)

    def _views(self) -> list[ViewState]:
        return [
            ViewState(
                name=name,
                sql=change["sql"],
                origin="http",
                tier=None,
                materialization=None,
                status="ready",
                parameters=[],
                columns=[],
            )
            for name, change in self.kept.items()
            if "sql" in change
        ]

    def _put(self, wanted: RegisterView) -> PutResult:
        if wanted.create_only and "sql" in self.kept.get(wanted.name, {}):
            raise ApiError("view_exists", wanted.name)
        if self.starting:
            raise ApiError("upstream_unavailable", "There is no stream yet.")
        if wanted.name in self.refuses:
            raise ApiError("too_large", "It does not fit here.")
        self._note(wanted.name, wanted.at_ms, {"sql": wanted.sql, "options": {}})
        return PutResult(created=True, building=False)

    def _evict(self) -> Evicted:
        if not self.evicts:
            raise ApiError("engine_unavailable", "It went away.")
        return Evicted(views=1, keys=1)

    def _drop(self, wanted: RemoveView) -> None:
        if "sql" not in self.kept.get(wanted.name, {}):
            raise ApiError("view_not_found", wanted.name)
        self._note(wanted.name, wanted.at_ms, {})

    def _settle(self, name: str, change: ViewChange) -> bool:
        known = self.kept.get(name, {"at_ms": -1})
        if known["at_ms"] >= change.at_ms:
            return False
        self.settles.append(name)
        if change.sql is not None and known.get("sql") != change.sql and name in self.refuses:
            raise ApiError("too_large", "It does not fit here.")
        if change.sql is not None and name in self.reads and "sql" not in self.kept.get(self.reads[name], {}):
            raise ApiError("view_invalid", "There is no such relation.")
        self.kept[name] = {"at_ms": change.at_ms} | ({} if change.sql is None else {"sql": change.sql, "options": {}})
        return True

    def _note(self, name: str, at_ms: int | None, what: dict[str, Any]) -> None:
        assert at_ms is not None
        self.kept[name] = {"at_ms": max(at_ms, self.kept.get(name, {"at_ms": -1})["at_ms"] + 1), **what}


def change_of(change: dict[str, Any]) -> ViewChange:
    return ViewChange(change["at_ms"], change.get("sql"))
