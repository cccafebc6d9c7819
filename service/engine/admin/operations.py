"""What the engine process does for the admin port: the control socket's operations.

Results are the JSON forms of `service.protocol.admin_models`. Everything here runs on the engine's loop, between two
steps.
"""

import asyncio
import os
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any

from dataflow.engine.events import EvictKey
from dataflow.engine.graph import Graph
from dataflow.plan.nodes import Parameter, View, column_types
from dataflow.plan.refresh import RefreshView
from dataflow.schema import SqlType
from dataflow.types import Key, NodeId, ViewId
from service.engine.admin.counts import counted, leaf_of, node_counters, subscription_counters, view_counters
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
from service.protocol.admin_models import Evicted, MemoryState, Named, PlanNode, ViewState
from service.protocol.control import Operation
from service.protocol.workload import WorkloadModel
from service.settings.view_options import OptionFields


class Operations:
    """The operations over one `Runtime`."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime

    def by_name(self) -> Mapping[str, Operation]:
        """The operations, as `ControlServer` takes them."""
        return {
            "views": self.views,
            "view": self.view,
            "put": self.put,
            "drop": self.drop,
            "kept": self.kept,
            "settle": self.settle,
            "plan": self.plan,
            "plan_sql": self.plan_sql,
            "graph": self.graph,
            "footprints": self.footprints,
            "stats": self.stats,
            "evict": self.evict,
            "audit": self.audit,
            "audited": self.audited,
            "prewarm": self.prewarm,
            "prewarmed": self.prewarmed,
            "workload": self.workload,
            "put_workload": self.put_workload,
            "drop_workload": self.drop_workload,
            "health": self.health,
        }

    async def views(self) -> list[dict[str, Any]]:
        """All registered views."""
        return [self._state(registered) for _, registered in sorted(self._runtime.registry.views.items())]

    async def view(self, name: str) -> dict[str, Any]:
        """One view."""
        return self._state(self._registered(name))

    async def put(
        self, name: str, sql: str, options: dict[str, Any], create_only: bool, at_ms: int | None = None
    ) -> dict[str, Any]:
        """Registers a view; whether it was new, and whether it is still being built."""
        put = self._runtime.changes.put(name, sql, ViewOptions(**options), create_only=create_only, at_ms=at_ms)
        return asdict(await put)

    async def drop(self, name: str, at_ms: int | None = None) -> None:
        """Forgets a view."""
        await self._runtime.changes.drop(name, at_ms)

    async def kept(self) -> dict[str, dict[str, Any]]:
        """When which views were put over HTTP, with what they are now, or dropped."""
        registry = self._runtime.registry
        kept: dict[str, dict[str, Any]] = {name: {"at_ms": at} for name, at in registry.changed_ms.items()}
        for name, registered in registry.views.items():
            definition = registered.definition
            if definition.origin is Origin.HTTP:
                options = {name: value for name, value in asdict(definition.options).items() if value is not None}
                kept[name] = {"at_ms": registry.changed_ms.get(name, 0), "sql": definition.sql, "options": options}
        return kept

    async def settle(self, name: str, sql: str | None, options: dict[str, Any], at_ms: int) -> bool:
        """Does what another service has done to a view, if that was later."""
        return await self._runtime.changes.settle(name, sql, ViewOptions(**options), at_ms)

    async def plan(self, name: str) -> dict[str, Any]:
        """How an installed view is kept."""
        registered = self._registered(name)
        engine, installed = self._runtime.dispatcher.engine, registered.installed
        if engine is None or installed is None or installed.tombstone:
            raise ApiError("view_broken", f"View {name!r} is not in the engine: {registered.status_reason}")
        graph = engine.graph
        plan = explain(installed.plan, graph.catalog, graph, graph.leaves.get(installed.id))
        self._counted(plan.nodes, graph)
        return plan.model_dump()

    async def plan_sql(self, name: str, sql: str, options: dict[str, Any]) -> dict[str, Any]:
        """How a view would be kept."""
        plan, catalog = await self._runtime.changes.plan(name, sql, ViewOptions(**options))
        engine = self._runtime.dispatcher.engine
        return explain(plan, catalog, None if engine is None else engine.graph).model_dump()

    async def graph(self, shard: int | None = None) -> list[dict[str, Any]]:
        """All nodes of the engine, which is that of `shard`, if that is said."""
        number = self._runtime.shard.number
        if shard not in (None, number):
            raise ApiError("bad_request", f"There is no shard {shard} here.", f"This is {number}.")
        self._runtime.require_engine()
        assert self._runtime.dispatcher.engine is not None
        graph = self._runtime.dispatcher.engine.graph
        return [node.model_dump() for node in self._counted(explain_all(graph), graph)]

    async def footprints(self) -> dict[str, Any]:
        """What keys of views need inside. Reads go on meanwhile."""
        self._runtime.require_engine()
        assert self._runtime.dispatcher.engine is not None
        graph = self._runtime.dispatcher.engine.graph
        return await footprints(graph, self._names(graph))

    def _counted(self, nodes: list[PlanNode], graph: Graph) -> list[PlanNode]:
        """Nodes of the running engine with what they have counted, and the names of views."""
        names = {graph.leaves[view].id: name for view, name in self._names(graph).items()}
        for node in counted(nodes, graph, self._runtime.lookup_tasks.counts):
            node.views = [names[NodeId(node.id)]] if node.id in names else []
        return nodes

    def _names(self, graph: Graph) -> dict[ViewId, str]:
        installations = self._runtime.registry.installations
        return {view: installations[view].definition.name for view in graph.leaves if view in installations}

    async def stats(self) -> dict[str, Any]:
        """Everything that is counted."""
        runtime = self._runtime
        engine = runtime.dispatcher.engine
        return {
            "counters": asdict(runtime.counters)
            | {
                "upstream_statements": runtime.lookups.statements,
                "abandoned_statements": runtime.slots.abandoned,
            }
            | runtime.asking.counters(),
            "engine": {} if engine is None else dict(engine.counters),
            "sizes": self._sizes(),
            "views": {name: view_counters(runtime, v).model_dump() for name, v in runtime.registry.views.items()},
            "upqueries": {name: v.missed.upqueries.buckets for name, v in runtime.registry.views.items()},
            "nodes": self._nodes(),
            "loads": runtime.telling.stats(),
            "recent_errors": merged_errors(RECENT_ERRORS.newest_first(), runtime.workers.errors),
            "log_left_out": REPEATS.left_out,
            "pid": os.getpid(),
            "shard": runtime.shard.number,
            "workers": len(runtime.worker_counters),
            "worker_processes": runtime.workers.counters(),
            "subscriptions": subscription_counters(runtime),
            "position": runtime.positions.applied,
            "version": version_text(runtime.positions.applied),
            "age_ms": self._age_ms(),
            "streaming": runtime.streaming,
            "resting_tables": runtime.slots.breakers.resting,
        }

    def _sizes(self) -> dict[str, float]:
        runtime = self._runtime
        engine, leaf, budget, process = runtime.dispatcher.engine, runtime.leaf, runtime.budget, process_memory()
        return {
            "budget_bytes": budget.budget_bytes,
            "limit_bytes": budget.limit_bytes,
            "used_bytes": budget.used_bytes,
            "over_budget": int(budget.exhausted),
            "engine_state_bytes": 0 if engine is None else engine.state_bytes(),
            "leaf_bytes": leaf.used_bytes,
            "leaf_free_bytes": leaf.resident_bytes - leaf.used_bytes,
            "process_own_bytes": process.own_bytes,
            "process_shared_bytes": process.shared_bytes,
            "process_grown_bytes": budget.grown_bytes,
            "longest_eviction_s": budget.longest_slice_s,
            "ring_rows": 0 if engine is None else engine.ring.rows,
            "reads_waiting": runtime.reads.pending,
            "lookups_in_flight": runtime.lookup_tasks.in_flight,
            "loads_under_way": len(runtime.loads.progress()),
            "longest_load_slice_s": runtime.loads.longest_slice_s,
        }

    def _nodes(self) -> list[dict[str, Any]]:
        engine = self._runtime.dispatcher.engine
        if engine is None:
            return []
        looked = self._runtime.lookup_tasks.counts
        return [
            {
                "id": node.id,
                "kind": kind_of(node),
                "keys": sum(len(coverage.keys) for coverage in node.coverages().values()),
                "state_bytes": node.state_bytes(),
                **node_counters(node, looked).model_dump(),
            }
            for node in engine.graph.stored()
        ]

    async def evict(
        self, view: str | None, keys: list[dict[str, str]] | None, state_bytes: int | None
    ) -> dict[str, Any]:
        """Forgets keys of a view (all of them if none are given), or what the policy names until so many bytes less
        are used."""
        self._runtime.require_engine()
        evicted = 0
        if view is not None and self._registered(view).status is not Status.ELSEWHERE:
            installed = self._installed(view)
            for key in self._keys(installed, keys):
                self._runtime.dispatcher.step(EvictKey(installed.id, key))
                evicted += 1
                if evicted % 100 == 0:
                    await asyncio.sleep(0)
        if state_bytes is not None:
            evicted += await self._runtime.budget.free(state_bytes)
        return Evicted(views=int(view is not None), keys=evicted).model_dump()

    async def audit(self, **wanted: Any) -> dict[str, Any]:
        """Starts an audit."""
        self._runtime.require_engine()
        return self._runtime.audits.begin(AuditOptions(**wanted))

    async def audited(self) -> dict[str, Any]:
        """How far the audit is, or what it found."""
        return self._runtime.audits.state()

    async def prewarm(self, view: str, keys: list[list[str | None]]) -> dict[str, Any]:
        """Begins to fill keys."""
        self._runtime.require_engine()
        return asdict(self._runtime.prewarm.begin(view, keys))

    async def workload(self) -> dict[str, Any]:
        """The workload model that is applied."""
        return self._runtime.workload.state().model_dump()

    async def put_workload(self, model: dict[str, Any]) -> dict[str, Any]:
        """Applies a model."""
        return self._runtime.workload.put(WorkloadModel(**model)).model_dump()

    async def drop_workload(self) -> None:
        """Applies none."""
        self._runtime.workload.drop()

    async def prewarmed(self) -> list[dict[str, Any]]:
        """How far filling keys is."""
        return self._runtime.prewarm.fillings()

    async def health(self) -> dict[str, Any]:
        """What ``/readyz`` says of the engine."""
        runtime = self._runtime
        views = runtime.registry.views
        return {
            "ready": runtime.ready,
            "streaming": runtime.streaming,
            "age_ms": self._age_ms(),
            "version": version_text(runtime.positions.applied),
            "memory": MemoryState(
                budget_bytes=runtime.budget.budget_bytes,
                used_bytes=runtime.budget.used_bytes,
                over_budget=runtime.budget.exhausted,
            ).model_dump(),
            "building": [n for n, v in views.items() if v.status is Status.BUILDING],
            "held_up": runtime.held_up,
            "schema_changes": runtime.schema_changes,
            "quarantined": {n: v.status_reason or "" for n, v in views.items() if v.status is Status.QUARANTINED},
            "broken": {n: v.status_reason or "" for n, v in views.items() if v.status is Status.BROKEN},
        }

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
        if keys is not None:
            return [key_of(installed.view, arguments) for arguments in keys]
        leaf = leaf_of(self._runtime, self._registered(installed.definition.name))
        return [] if leaf is None else list(leaf.coverage.keys)

    def _state(self, registered: RegisteredView) -> dict[str, Any]:
        installed = registered.installed
        plan = None if installed is None or not installed.plan.view.output else installed.plan
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
        ).model_dump()

    def _materialization(self, installed: InstalledView | None) -> Any:
        engine = self._runtime.dispatcher.engine
        leaf = engine.graph.leaves.get(installed.id) if engine is not None and installed is not None else None
        return None if leaf is None else "full" if leaf.full else "partial"


def _of_replacement(registered: RegisteredView) -> str | None:
    """How far what is built beside the view is."""
    replacement = registered.replacement
    return None if replacement is None or not replacement.reason else f"Its replacement: {replacement.reason}"


def _parameters(view: View | RefreshView) -> list[Named]:
    return [Named(name=name, type=f"{kind.sql}[]" if many else kind.sql) for name, kind, many in _all_parameters(view)]


def _columns(view: View | RefreshView) -> list[Named]:
    if isinstance(view, RefreshView):
        columns = list(view.output)
    else:
        types = column_types(view.relation)
        columns = [(output.name, types[output.column]) for output in view.output]
    names = unique_names([name for name, _ in columns])
    return [Named(name=name, type=kind.sql) for name, (_, kind) in zip(names, columns, strict=True)]


def parameters_of(view: View | RefreshView) -> list[tuple[str, SqlType, bool]]:
    """Names and types of what makes a view's key, in its order, and whether each takes a list."""
    if isinstance(view, RefreshView):
        return [(p.name, p.type, p.many) for p in view.parameters]
    return _typed(view, view.parameters)


def _all_parameters(view: View | RefreshView) -> list[tuple[str, SqlType, bool]]:
    """As `parameters_of`, with those that pick rows of a key, by name."""
    if isinstance(view, RefreshView):
        return parameters_of(view)
    return _typed(view, sorted(view.parameters + view.within, key=lambda p: p.name))


def _typed(view: View, parameters: Iterable[Parameter]) -> list[tuple[str, SqlType, bool]]:
    types = column_types(view.relation)
    return [(p.name, types[p.column], p.many) for p in parameters]


def _within_a_key(view: View | RefreshView) -> set[str | None]:
    if isinstance(view, RefreshView):
        return set()
    picking = {r.name for r in view.ranges} | {p.name for p in view.within}
    return {view.limit_parameter, view.offset_parameter} | picking


def key_of(view: View | RefreshView, arguments: dict[str, str]) -> Key:
    """The key of parameters given by name. Raises `ApiError`. Those that only say which of a key's rows are wanted may
    be given, as a read gives them: the whole key is meant."""
    parameters = parameters_of(view)
    unknown = arguments.keys() - {name for name, _, _ in parameters} - _within_a_key(view)
    if unknown:
        raise ApiError("parameter_unknown", f"View {view.name!r} has no parameter {min(unknown)!r}.")
    key: list[str | None] = []
    for name, kind, _ in parameters:
        if name not in arguments:
            raise ApiError("parameter_missing", f"Parameter {name!r} is missing.")
        text = arguments[name]
        try:
            if kind.takes_parameters:
                text = kind.parse(text)
        except ValueError as error:
            raise ApiError("parameter_type", f"Parameter {name!r}: {error}") from None
        form = None if isinstance(view, RefreshView) else kind.normal_form
        key.append(text if form is None else form(text))
    return tuple(key)
