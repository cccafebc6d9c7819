"""Operations that other engines perform, for classes that perform some operations themselves."""

from abc import ABC, abstractmethod
from typing import TypeVar

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
from service.protocol.admin_operations import (
    BeginAudit,
    BeginPrewarm,
    DropWorkload,
    Evict,
    ExplainSql,
    ExplainView,
    GetAudit,
    GetFootprints,
    GetGraph,
    GetHealth,
    GetStats,
    GetView,
    GetWorkload,
    ListChanges,
    ListPrewarms,
    ListViews,
    Operation,
    PutResult,
    PutWorkload,
    RegisterView,
    RemoveView,
    SettleView,
    ViewChange,
)
from service.protocol.stats import Stats
from service.protocol.workload import Workload, WorkloadModel

R = TypeVar("R")


class DelegatedOperations(ABC):
    """A `Control`, and `AdminOperations` of which a subclass overrides those that it performs itself."""

    async def call(self, operation: Operation[R]) -> R:
        """Performs an operation. Raises its ApiError, or ApiError(engine_unavailable)."""
        return await operation.perform(self)

    @abstractmethod
    async def delegate(self, operation: Operation[R]) -> R:
        """Has another `Control` perform an operation that is not overridden."""

    async def views(self) -> list[ViewState]:
        return await self.delegate(ListViews())

    async def view(self, name: str) -> ViewState:
        return await self.delegate(GetView(name))

    async def register(self, wanted: RegisterView) -> PutResult:
        return await self.delegate(wanted)

    async def remove(self, wanted: RemoveView) -> None:
        await self.delegate(wanted)

    async def changes(self) -> dict[str, ViewChange]:
        return await self.delegate(ListChanges())

    async def settle(self, wanted: SettleView) -> bool:
        return await self.delegate(wanted)

    async def plan(self, name: str) -> Plan:
        return await self.delegate(ExplainView(name))

    async def plan_sql(self, wanted: ExplainSql) -> Plan:
        return await self.delegate(wanted)

    async def graph(self, shard: int | None) -> list[PlanNode]:
        return await self.delegate(GetGraph(shard))

    async def footprints(self) -> Footprints:
        return await self.delegate(GetFootprints())

    async def stats(self) -> Stats:
        return await self.delegate(GetStats())

    async def health(self) -> Health:
        return await self.delegate(GetHealth())

    async def evict(self, wanted: EvictKeys) -> Evicted:
        return await self.delegate(Evict(wanted))

    async def audit(self, wanted: StartAudit) -> Audit:
        return await self.delegate(BeginAudit(wanted))

    async def audited(self) -> Audit:
        return await self.delegate(GetAudit())

    async def prewarm(self, wanted: PrewarmKeys) -> Prewarmed:
        return await self.delegate(BeginPrewarm(wanted))

    async def prewarmed(self) -> list[Prewarmed]:
        return await self.delegate(ListPrewarms())

    async def workload(self) -> Workload:
        return await self.delegate(GetWorkload())

    async def put_workload(self, model: WorkloadModel) -> Workload:
        return await self.delegate(PutWorkload(model))

    async def drop_workload(self) -> None:
        await self.delegate(DropWorkload())
