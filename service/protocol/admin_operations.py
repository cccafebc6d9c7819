"""Operations of the admin port: requests, the types of their replies, and the JSON of both.

*Theory*: an operation is a value. `Control.call` takes it to whatever performs it (an engine process, another machine,
several of them) and returns its reply; `Operation.perform` calls the method of `AdminOperations` for it. The reply's
type is declared once, as the argument of `Operation`: mypy checks both ends by it, and the codec reads it.

Not here: the models of replies (`admin_models`, `stats`, `workload`); the Unix socket (`control`).
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import orjson

from service.ground.errors import ApiError
from service.protocol.admin_models import (
    Audit,
    Evicted,
    EvictKeys,
    Footprints,
    Health,
    Plan,
    PlanNode,
    Prewarmed,
    PrewarmKeys,
    StartAudit,
    ViewState,
)
from service.protocol.codec import Request, codec_of, reply_codec_of
from service.protocol.frames import error_fields, error_of
from service.protocol.stats import Stats
from service.protocol.workload import Workload, WorkloadModel
from service.settings.view_options import OptionFields

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


@dataclass(frozen=True, slots=True)
class PutResult:
    """Outcome of a PUT: whether the view is new, and whether it is still being built."""

    created: bool
    building: bool


@dataclass(frozen=True, slots=True)
class ViewChange:
    """The latest change of a view over HTTP; `sql` is None if it was dropped."""

    at_ms: int
    sql: str | None = None
    options: OptionFields = field(default_factory=OptionFields)


class Operation(Request[R_co], ABC):
    """A request whose reply is an `R_co`."""

    __slots__ = ()

    @abstractmethod
    async def perform(self, performer: "AdminOperations") -> R_co:
        """Has `performer` perform it."""


class Control(Protocol):
    """Performs operations: one engine process, or several that act as one (`service.supervisor.admin.engines`)."""

    async def call(self, operation: Operation[R]) -> R:
        """The operation's reply. Raises its ApiError, or ApiError(engine_unavailable)."""
        ...


@dataclass(frozen=True, slots=True)
class ListViews(Operation[list[ViewState]]):
    """All registered views."""

    async def perform(self, performer: "AdminOperations") -> list[ViewState]:
        return await performer.views()


@dataclass(frozen=True, slots=True)
class GetView(Operation[ViewState]):
    """One view."""

    name: str

    async def perform(self, performer: "AdminOperations") -> ViewState:
        return await performer.view(self.name)


@dataclass(frozen=True, slots=True)
class RegisterView(Operation[PutResult]):
    """Registers or replaces a view. `at_ms`: time of the change, if several services make it."""

    name: str
    sql: str
    options: OptionFields = field(default_factory=OptionFields)
    create_only: bool = False
    at_ms: int | None = None

    async def perform(self, performer: "AdminOperations") -> PutResult:
        return await performer.register(self)


@dataclass(frozen=True, slots=True)
class RemoveView(Operation[None]):
    """Drops a view. `at_ms`: time of the change, if several services make it."""

    name: str
    at_ms: int | None = None

    async def perform(self, performer: "AdminOperations") -> None:
        await performer.remove(self)


@dataclass(frozen=True, slots=True)
class ListChanges(Operation[dict[str, ViewChange]]):
    """The latest change of each view that was put or dropped over HTTP."""

    async def perform(self, performer: "AdminOperations") -> dict[str, ViewChange]:
        return await performer.changes()


@dataclass(frozen=True, slots=True)
class SettleView(Operation[bool]):
    """Makes a change that another service has made, unless a later one is known; whether it was made."""

    name: str
    change: ViewChange

    async def perform(self, performer: "AdminOperations") -> bool:
        return await performer.settle(self)


@dataclass(frozen=True, slots=True)
class ExplainView(Operation[Plan]):
    """The plan of an installed view."""

    name: str

    async def perform(self, performer: "AdminOperations") -> Plan:
        return await performer.plan(self.name)


@dataclass(frozen=True, slots=True)
class ExplainSql(Operation[Plan]):
    """The plan that a view would have."""

    name: str
    sql: str
    options: OptionFields

    async def perform(self, performer: "AdminOperations") -> Plan:
        return await performer.plan_sql(self)


@dataclass(frozen=True, slots=True)
class GetGraph(Operation[list[PlanNode]]):
    """All nodes of an engine: that of `shard`, or of the first one."""

    shard: int | None = None

    async def perform(self, performer: "AdminOperations") -> list[PlanNode]:
        return await performer.graph(self.shard)


@dataclass(frozen=True, slots=True)
class GetFootprints(Operation[Footprints]):
    """State behind the keys of views. Reads continue meanwhile."""

    async def perform(self, performer: "AdminOperations") -> Footprints:
        return await performer.footprints()


@dataclass(frozen=True, slots=True)
class GetStats(Operation[Stats]):
    """All counters."""

    async def perform(self, performer: "AdminOperations") -> Stats:
        return await performer.stats()


@dataclass(frozen=True, slots=True)
class GetHealth(Operation[Health]):
    """The engine's part of ``/readyz``."""

    async def perform(self, performer: "AdminOperations") -> Health:
        return await performer.health()


@dataclass(frozen=True, slots=True)
class Evict(Operation[Evicted]):
    """Evicts keys of a view (all of them if none are given), or what the policy chooses until enough is free."""

    wanted: EvictKeys

    async def perform(self, performer: "AdminOperations") -> Evicted:
        return await performer.evict(self.wanted)


@dataclass(frozen=True, slots=True)
class BeginAudit(Operation[Audit]):
    """Starts an audit."""

    wanted: StartAudit

    async def perform(self, performer: "AdminOperations") -> Audit:
        return await performer.audit(self.wanted)


@dataclass(frozen=True, slots=True)
class GetAudit(Operation[Audit]):
    """Progress of the audit that runs, or results of the last one."""

    async def perform(self, performer: "AdminOperations") -> Audit:
        return await performer.audited()


@dataclass(frozen=True, slots=True)
class BeginPrewarm(Operation[Prewarmed]):
    """Starts to fill keys."""

    wanted: PrewarmKeys

    async def perform(self, performer: "AdminOperations") -> Prewarmed:
        return await performer.prewarm(self.wanted)


@dataclass(frozen=True, slots=True)
class ListPrewarms(Operation[list[Prewarmed]]):
    """Progress of the last requests to fill keys."""

    async def perform(self, performer: "AdminOperations") -> list[Prewarmed]:
        return await performer.prewarmed()


@dataclass(frozen=True, slots=True)
class GetWorkload(Operation[Workload]):
    """The workload model that is applied."""

    async def perform(self, performer: "AdminOperations") -> Workload:
        return await performer.workload()


@dataclass(frozen=True, slots=True)
class PutWorkload(Operation[Workload]):
    """Applies a workload model in place of the last one."""

    model: WorkloadModel

    async def perform(self, performer: "AdminOperations") -> Workload:
        return await performer.put_workload(self.model)


@dataclass(frozen=True, slots=True)
class DropWorkload(Operation[None]):
    """Applies no workload model any more."""

    async def perform(self, performer: "AdminOperations") -> None:
        await performer.drop_workload()


class AdminOperations(Protocol):
    """One method for each operation. Each raises the operation's ApiError."""

    async def views(self) -> list[ViewState]: ...
    async def view(self, name: str) -> ViewState: ...
    async def register(self, wanted: RegisterView) -> PutResult: ...
    async def remove(self, wanted: RemoveView) -> None: ...
    async def changes(self) -> dict[str, ViewChange]: ...
    async def settle(self, wanted: SettleView) -> bool: ...
    async def plan(self, name: str) -> Plan: ...
    async def plan_sql(self, wanted: ExplainSql) -> Plan: ...
    async def graph(self, shard: int | None) -> list[PlanNode]: ...
    async def footprints(self) -> Footprints: ...
    async def stats(self) -> Stats: ...
    async def health(self) -> Health: ...
    async def evict(self, wanted: EvictKeys) -> Evicted: ...
    async def audit(self, wanted: StartAudit) -> Audit: ...
    async def audited(self) -> Audit: ...
    async def prewarm(self, wanted: PrewarmKeys) -> Prewarmed: ...
    async def prewarmed(self) -> list[Prewarmed]: ...
    async def workload(self) -> Workload: ...
    async def put_workload(self, model: WorkloadModel) -> Workload: ...
    async def drop_workload(self) -> None: ...


_KINDS: Mapping[str, type[Operation[Any]]] = {
    kind.__name__: kind
    for kind in (
        ListViews,
        GetView,
        RegisterView,
        RemoveView,
        ListChanges,
        SettleView,
        ExplainView,
        ExplainSql,
        GetGraph,
        GetFootprints,
        GetStats,
        GetHealth,
        Evict,
        BeginAudit,
        GetAudit,
        BeginPrewarm,
        ListPrewarms,
        GetWorkload,
        PutWorkload,
        DropWorkload,
    )
}


def request_of(operation: Operation[Any]) -> bytes:
    """The JSON of an operation."""
    kind: Any = type(operation)
    return b'{"operation":"%b","arguments":%b}' % (kind.__name__.encode(), codec_of(kind).write(operation))


def operation_of(request: bytes) -> Operation[Any]:
    """The operation of a request. Raises ValueError."""
    try:
        fields = orjson.loads(request)
        operation: Operation[Any] = codec_of(_KINDS[fields["operation"]]).of_fields(fields["arguments"])
    except (KeyError, TypeError) as error:
        raise ValueError(f"not an operation of this version: {error!r}") from None
    return operation


async def reply_to(operation: Operation[Any], control: Control) -> bytes:
    """The JSON of a reply: the result of the operation, or its ApiError."""
    try:
        result = await control.call(operation)
    except ApiError as error:
        return orjson.dumps({"error": error_fields(error)})
    return b'{"result":%b}' % reply_codec_of(operation).write(result)


def result_of(operation: Operation[R], reply: dict[str, Any]) -> R:
    """The result in a reply. Raises the ApiError that is in it, or ValueError if it is no reply to this operation."""
    if "error" in reply:
        raise error_of(reply["error"])
    result: R = reply_codec_of(operation).of_fields(reply["result"])
    return result
