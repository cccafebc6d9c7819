"""The admin port's operations in the engine process, on its loop, between two steps.

Not here: requests and their replies (`service.protocol.admin_operations`).
"""

import asyncio
import os
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from itertools import product
from typing import Any, TypeVar

from dataflow.engine.events import EvictKey
from dataflow.engine.graph import Graph
from dataflow.plan.nodes import View, column_types
from dataflow.plan.refresh import RefreshView
from dataflow.schema import SqlType
from dataflow.types import Key, NodeId, ViewId
from service.engine.admin.counts import counted, leaf_of, node_counters, view_counters
from service.engine.admin.explain import explain, explain_all, kind_of
from service.engine.admin.footprints import footprints
from service.engine.audit.audits import AuditOptions
from service.engine.session.runtime import Runtime
from service.engine.views.registry import InstalledView, Origin, RegisteredView, Status, ViewOptions
from service.ground.clock import wall_ms
from service.ground.errors import ApiError
from service.ground.log_repeats import REPEATS
from service.ground.logs import RECENT_ERRORS, merged_errors
from service.ground.process_memory import process_memory
from service.ground.version import version_text
from service.leaf_store.render import unique_names
from service.protocol.admin_models import (
    Audit,
    Evicted,
    EvictKeys,
    Footprints,
    Health,
    MemoryState,
    Named,
    Plan,
    PlanNode,
    Prewarmed,
    PrewarmKeys,
    StartAudit,
    ViewState,
    WarmingUp,
)
from service.protocol.admin_operations import (
    ExplainSql,
    Operation,
    PutResult,
    RegisterView,
    RemoveView,
    SettleView,
    ViewChange,
)
from service.protocol.counters import Counters
from service.protocol.stats import EngineSizes, LoadStats, NodeStats, Stats
from service.protocol.workload import Workload, WorkloadModel
from service.settings.view_options import OptionFields

R = TypeVar("R")


class Operations:
    """The operations over one `Runtime`: `AdminOperations`, and a `Control`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    async def call(self, operation: Operation[R]) -> R:
        """Performs an operation. Raises its ApiError."""
        return await operation.perform(self)

    async def views(self) -> list[ViewState]:
        return [self._state(registered) for _, registered in sorted(self._runtime.registry.views.items())]

    async def view(self, name: str) -> ViewState:
        return self._state(self._registered(name))

    async def register(self, wanted: RegisterView) -> PutResult:
        options = _view_options(wanted.options)
        create_only, at_ms = wanted.create_only, wanted.at_ms
        return await self._runtime.changes.put(wanted.name, wanted.sql, options, create_only=create_only, at_ms=at_ms)

    async def remove(self, wanted: RemoveView) -> None:
        await self._runtime.changes.drop(wanted.name, wanted.at_ms)

    async def changes(self) -> dict[str, ViewChange]:
        registry = self._runtime.registry
        changes = {name: ViewChange(at_ms) for name, at_ms in registry.changed_ms.items()}
        for name, registered in registry.views.items():
            definition = registered.definition
            if definition.origin is Origin.HTTP:
                options = OptionFields.of(asdict(definition.options))
                changes[name] = ViewChange(registry.changed_ms.get(name, 0), definition.sql, options)
        return changes

    async def settle(self, wanted: SettleView) -> bool:
        change = wanted.change
        options = _view_options(change.options)
        return await self._runtime.changes.settle(wanted.name, change.sql, options, change.at_ms)

    async def plan(self, name: str) -> Plan:
        registered = self._registered(name)
        engine, installed = self._runtime.dispatcher.engine, registered.installed
        if engine is None or installed is None or installed.tombstone:
            raise ApiError("view_broken", f"View {name!r} is not in the engine: {registered.status_reason}")
        graph = engine.graph
        plan = explain(installed.plan, graph.catalog, graph, graph.leaves.get(installed.id))
        self._counted(plan.nodes, graph)
        return plan

    async def plan_sql(self, wanted: ExplainSql) -> Plan:
        plan, catalog = await self._runtime.changes.plan(wanted.name, wanted.sql, _view_options(wanted.options))
        engine = self._runtime.dispatcher.engine
        return explain(plan, catalog, None if engine is None else engine.graph)

    async def graph(self, shard: int | None = None) -> list[PlanNode]:
        number = self._runtime.shard.number
        if shard not in (None, number):
            raise ApiError("bad_request", f"There is no shard {shard} here.", f"This is {number}.")
        graph = self._graph()
        return self._counted(explain_all(graph), graph)

    async def footprints(self) -> Footprints:
        graph = self._graph()
        return await footprints(graph, self._names(graph))

    def _graph(self) -> Graph:
        """The running engine's graph. Raises ApiError if there is none."""
        self._runtime.require_engine()
        assert self._runtime.dispatcher.engine is not None
        return self._runtime.dispatcher.engine.graph

    def _counted(self, nodes: list[PlanNode], graph: Graph) -> list[PlanNode]:
        """Nodes of the running engine with their counters and the names of views."""
        names = {graph.leaves[view].id: name for view, name in self._names(graph).items()}
        for node in counted(nodes, graph, self._runtime.lookup_tasks.counts):
            node.views = [names[NodeId(node.id)]] if node.id in names else []
        return nodes

    def _names(self, graph: Graph) -> dict[ViewId, str]:
        installations = self._runtime.registry.installations
        return {view: installations[view].definition.name for view in graph.leaves if view in installations}

    async def stats(self) -> Stats:
        runtime = self._runtime
        engine, views = runtime.dispatcher.engine, runtime.registry.views
        return Stats(
            counters=self._counters(),
            engine={} if engine is None else dict(engine.counters),
            sizes=self._sizes(),
            views={name: view_counters(runtime, view) for name, view in views.items()},
            upqueries={name: view.missed.upqueries.buckets for name, view in views.items()},
            nodes=self._nodes(),
            loads=[LoadStats(**load) for load in runtime.load_reports.stats()],
            recent_errors=merged_errors(RECENT_ERRORS.newest_first(), runtime.workers.errors),
            log_left_out=REPEATS.left_out,
            pid=os.getpid(),
            shard=runtime.shard.number,
            workers=runtime.workers.number,
            worker_processes=runtime.workers.processes(),
            subscriptions=runtime.workers.subscriptions(),
            position=runtime.positions.applied,
            version=version_text(runtime.positions.applied),
            age_ms=self._age_ms(),
            streaming=runtime.streaming,
            resting_tables=runtime.slots.breakers.resting,
        )

    def _counters(self) -> Counters:
        runtime = self._runtime
        return replace(
            runtime.counters,
            upstream_statements=runtime.lookups.statements,
            abandoned_statements=runtime.slots.abandoned,
            **runtime.adhoc.counters(),
        )

    def _sizes(self) -> EngineSizes:
        runtime = self._runtime
        engine, leaf, budget, process = runtime.dispatcher.engine, runtime.leaf, runtime.budget, process_memory()
        return EngineSizes(
            budget_bytes=budget.budget_bytes,
            limit_bytes=budget.limit_bytes,
            used_bytes=budget.used_bytes,
            over_budget=int(budget.exhausted),
            engine_state_bytes=0 if engine is None else engine.state_bytes(),
            leaf_bytes=leaf.used_bytes,
            leaf_free_bytes=leaf.resident_bytes - leaf.used_bytes,
            process_own_bytes=process.own_bytes,
            process_shared_bytes=process.shared_bytes,
            process_grown_bytes=budget.grown_bytes,
            longest_eviction_s=budget.longest_slice_s,
            ring_rows=0 if engine is None else engine.ring.rows,
            reads_waiting=runtime.reads.pending,
            lookups_in_flight=runtime.lookup_tasks.in_flight,
            loads_under_way=len(runtime.loads.progress()),
            longest_load_slice_s=runtime.loads.longest_slice_s,
        )

    def _nodes(self) -> list[NodeStats]:
        engine = self._runtime.dispatcher.engine
        if engine is None:
            return []
        looked = self._runtime.lookup_tasks.counts
        return [
            NodeStats(
                id=node.id,
                kind=kind_of(node),
                keys=sum(len(coverage.keys) for coverage in node.coverages().values()),
                state_bytes=node.state_bytes(),
                **node_counters(node, looked).model_dump(),
            )
            for node in engine.graph.stored()
        ]

    async def evict(self, wanted: EvictKeys) -> Evicted:
        self._runtime.require_engine()
        # What is evicted must not be answered as it was before the last start either.
        self._runtime.leaf.withdraw_previous()
        self._runtime.leaf.commit_catalog()
        view, evicted = wanted.view, 0
        if view is not None and self._registered(view).status is not Status.ELSEWHERE:
            installed = self._installed(view)
            for key in self._keys(installed, wanted.keys):
                self._runtime.dispatcher.step(EvictKey(installed.id, key))
                evicted += 1
                if evicted % 100 == 0:
                    await asyncio.sleep(0)
        if wanted.state_bytes is not None:
            evicted += await self._runtime.budget.free(wanted.state_bytes)
        return Evicted(views=int(view is not None), keys=evicted)

    async def audit(self, wanted: StartAudit) -> Audit:
        self._runtime.require_engine()
        return Audit(**self._runtime.audits.begin(AuditOptions(**dict(wanted))))

    async def audited(self) -> Audit:
        return Audit(**self._runtime.audits.state())

    async def prewarm(self, wanted: PrewarmKeys) -> Prewarmed:
        self._runtime.require_engine()
        return Prewarmed(**asdict(self._runtime.prewarm.begin(wanted.view, wanted.keys)))

    async def prewarmed(self) -> list[Prewarmed]:
        return [Prewarmed(**filling) for filling in self._runtime.prewarm.fillings()]

    async def workload(self) -> Workload:
        return self._runtime.workload.state()

    async def put_workload(self, model: WorkloadModel) -> Workload:
        return self._runtime.workload.put(model)

    async def drop_workload(self) -> None:
        self._runtime.workload.drop()

    async def health(self) -> Health:
        runtime = self._runtime
        views, warming = runtime.registry.views, runtime.warm_up.progress
        return Health(
            ready=runtime.ready,
            streaming=runtime.streaming,
            age_ms=self._age_ms(),
            version=version_text(runtime.positions.applied),
            memory=MemoryState(
                budget_bytes=runtime.budget.budget_bytes,
                used_bytes=runtime.budget.used_bytes,
                over_budget=runtime.budget.exhausted,
            ),
            warming_up=None if warming is None else WarmingUp(keys=warming.keys, filled=warming.filled),
            building=[n for n, v in views.items() if v.status is Status.BUILDING],
            held_up=runtime.held_up,
            schema_changes=runtime.schema_changes,
            quarantined={n: v.status_reason or "" for n, v in views.items() if v.status is Status.QUARANTINED},
            outdated={n: v.status_reason or "" for n, v in views.items() if v.status is Status.OUTDATED},
            broken={n: v.status_reason or "" for n, v in views.items() if v.status is Status.BROKEN},
        )

    def _age_ms(self) -> int:
        return max(0, wall_ms() - self._runtime.ages.exact_at_ms)

    def _registered(self, name: str) -> RegisteredView:
        registered = self._runtime.registry.views.get(name)
        if registered is None:
            raise ApiError("view_not_found", f"View {name!r} does not exist.")
        return registered

    def _installed(self, name: str) -> InstalledView:
        registered = self._registered(name)
        if registered.installed is None or registered.installed.is_buried:
            raise ApiError("view_broken", f"View {name!r} is broken: {registered.status_reason}")
        return registered.installed

    def _keys(self, installed: InstalledView, keys: list[dict[str, str]] | None) -> list[Key]:
        view = installed.view
        wanted = None if keys is None else [key for arguments in keys for key in keys_of(view, arguments)]
        times = 0 if isinstance(view, RefreshView) else len(view.clock_keys)
        if wanted is not None and not times:
            return wanted
        leaf = leaf_of(self._runtime, self._registered(installed.definition.name))
        covered: Iterable[Key] = () if leaf is None else leaf.coverage.keys
        return [key for key in covered if wanted is None or key[times:] in wanted]

    def _state(self, registered: RegisteredView) -> ViewState:
        installed = registered.installed
        plan = None if installed is None or not installed.plan.is_known else installed.plan
        view = None if plan is None else plan.view
        refreshed = view if isinstance(view, RefreshView) else None
        ttl_ms = None if refreshed is None else refreshed.ttl_ms
        return ViewState(
            name=registered.definition.name,
            sql=registered.definition.sql,
            origin=registered.definition.origin.value,
            tier=None if plan is None else plan.tier.value,
            materialization=self._materialization(installed),
            status=registered.status.value,
            reason=registered.status_reason
            or _of_replacement(registered)
            or (None if refreshed is None else refreshed.reason),
            ttl=None if ttl_ms is None else ttl_ms / 1000,
            options=OptionFields.of(asdict(registered.definition.options)),
            replacing=registered.replacement is not None,
            resting_tables=[] if plan is None else sorted(plan.shared_by & {*self._runtime.slots.breakers.resting}),
            parameters=[] if view is None else _parameters(view),
            columns=[] if view is None else _columns(view),
            counters=view_counters(self._runtime, registered),
        )

    def _materialization(self, installed: InstalledView | None) -> Any:
        engine = self._runtime.dispatcher.engine
        leaf = engine.graph.leaves.get(installed.id) if engine is not None and installed is not None else None
        return None if leaf is None else "full" if leaf.full else "partial"


def _view_options(options: OptionFields) -> ViewOptions:
    return ViewOptions(**options.options())


def _of_replacement(registered: RegisteredView) -> str | None:
    """Progress of the replacement that is built beside the view."""
    replacement = registered.replacement
    return None if replacement is None or not replacement.reason else f"Its replacement: {replacement.reason}"


def _parameters(view: View | RefreshView) -> list[Named]:
    """Parameters of the key and those that select rows of it, by name."""
    if isinstance(view, RefreshView):
        return [Named(name=p.name, type=f"{p.type.sql}[]" if p.many else p.type.sql) for p in view.parameters]
    types = column_types(view.relation)
    named = [
        (name, types[p.column].sql + ("[]" if p.many and p.members is None else ""))
        for p in view.parameters + view.within
        for name in p.names
    ]
    return [Named(name=name, type=sql) for name, sql in sorted(named)]


def _columns(view: View | RefreshView) -> list[Named]:
    if isinstance(view, RefreshView):
        columns = list(view.output)
    else:
        answer = view.answer
        types = column_types(answer.relation)
        columns = [(output.name, types[output.column]) for output in answer.output]
    names = unique_names([name for name, _ in columns])
    return [Named(name=name, type=kind.sql) for name, (_, kind) in zip(names, columns, strict=True)]


def _key_parameters(view: View | RefreshView) -> list[tuple[tuple[str, ...], SqlType]]:
    """The parts of a view's key, in its order: the parameters that give one, any of several, and its type."""
    if isinstance(view, RefreshView):
        return [((p.name,), p.type) for p in view.parameters]
    types = column_types(view.relation)
    return [(p.names, types[p.column]) for p in view.parameters]


def _within_a_key(view: View | RefreshView) -> set[str | None]:
    if isinstance(view, RefreshView):
        return set()
    picking = {r.name for r in view.ranges} | {name for p in view.within for name in p.names}
    return {view.answer.limit_parameter, view.answer.offset_parameter} | picking


def keys_of(view: View | RefreshView, arguments: dict[str, str]) -> list[Key]:
    """The keys of parameters given by name. Raises `ApiError`. Those that only say which of a key's rows are wanted may
    be given, as a read gives them: the whole key is meant. Of several that are members of one list, some suffice."""
    parameters = _key_parameters(view)
    unknown = arguments.keys() - {name for names, _ in parameters for name in names} - _within_a_key(view)
    if unknown:
        raise ApiError("parameter_unknown", f"View {view.name!r} has no parameter {min(unknown)!r}.")
    parts: list[list[str | None]] = []
    for names, kind in parameters:
        given = [name for name in names if name in arguments]
        if not given:
            raise ApiError("parameter_missing", f"Parameter {names[0]!r} is missing.")
        form = None if isinstance(view, RefreshView) else kind.normal_form
        parts.append([_key_value(name, arguments[name], kind, form) for name in given])
    return list(dict.fromkeys(product(*parts)))


def _key_value(name: str, text: str, kind: SqlType, form: Callable[[str], str] | None) -> str | None:
    try:
        if kind.takes_parameters:
            text = kind.parse(text)
    except ValueError as error:
        raise ApiError("parameter_type", f"Parameter {name!r}: {error}") from None
    return text if form is None else form(text)
