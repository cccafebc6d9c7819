"""A service as its admin port sees it, without an engine: what it was told of views."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from service.ground.errors import ApiError


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
    asked: list[str] = field(default_factory=list)
    #: How many others have their turn before it has done what it was told.
    slow: Callable[[], int] = lambda: 0

    async def call(self, operation: str, **arguments: Any) -> Any:
        self.asked.append(operation)
        if self.away:
            raise ApiError("engine_unavailable", "It is away.")
        for _ in range(self.slow()):
            await asyncio.sleep(0)
        if operation == "settle" and self.settling is not None:
            await self.settling.wait()
        if self.hangs or (operation == "settle" and self.hangs_when_settling):
            raise ApiError("read_timeout", "It did not answer within 60 s.")
        answer = getattr(self, f"_{operation}")(**arguments)
        if self.breaks and operation in ("put", "drop"):
            raise ApiError("engine_unavailable", "It went away.")
        return answer

    def _health(self) -> dict[str, Any]:
        return {
            "ready": not self.starting,
            "streaming": True,
            "age_ms": 1,
            "version": "pg:0/1",
            "building": [],
            "quarantined": {},
            "broken": {},
            "memory": {"budget_bytes": 1, "used_bytes": 0, "over_budget": False},
        }

    def _kept(self) -> dict[str, Any]:
        return {name: dict(change) for name, change in self.kept.items()}

    def _views(self) -> list[dict[str, Any]]:
        return [
            {"name": name, "origin": "http", "status": "ready", "replacing": False, "counters": {}, **change}
            for name, change in self.kept.items()
            if "sql" in change
        ]

    def _put(self, name: str, sql: str, options: Any, create_only: bool, at_ms: int) -> dict[str, Any]:
        if create_only and "sql" in self.kept.get(name, {}):
            raise ApiError("view_exists", name)
        if self.starting:
            raise ApiError("upstream_unavailable", "There is no stream yet.")
        if name in self.refuses:
            raise ApiError("too_large", "It does not fit here.")
        self._note(name, at_ms, {"sql": sql, "options": options})
        return {"name": name, "building": False}

    def _evict(self, **wanted: Any) -> dict[str, int]:  # noqa: ARG002
        if not self.evicts:
            raise ApiError("engine_unavailable", "It went away.")
        return {"views": 1, "keys": 1}

    def _drop(self, name: str, at_ms: int) -> None:
        if "sql" not in self.kept.get(name, {}):
            raise ApiError("view_not_found", name)
        self._note(name, at_ms, {})

    def _settle(self, name: str, sql: str | None, options: dict[str, Any], at_ms: int) -> bool:
        known = self.kept.get(name, {"at_ms": -1})
        if known["at_ms"] >= at_ms:
            return False
        self.settles.append(name)
        if sql is not None and known.get("sql") != sql and name in self.refuses:
            raise ApiError("too_large", "It does not fit here.")
        if sql is not None and name in self.reads and "sql" not in self.kept.get(self.reads[name], {}):
            raise ApiError("view_invalid", "There is no such relation.")
        self.kept[name] = {"at_ms": at_ms} | ({} if sql is None else {"sql": sql, "options": options})
        return True

    def _note(self, name: str, at_ms: int, what: dict[str, Any]) -> None:
        self.kept[name] = {"at_ms": max(at_ms, self.kept.get(name, {"at_ms": -1})["at_ms"] + 1), **what}
