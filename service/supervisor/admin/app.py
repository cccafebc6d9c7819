"""The admin port: liveness, readiness, metrics, and the catalog of views. Runs in the supervisor's process.

Not here: what the operations do (`service.engine.admin.operations`, in the engine's process).
"""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Protocol

import structlog
from fastapi import FastAPI, Header, Path, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from fastapi.routing import APIRoute
from starlette.exceptions import HTTPException

from api_schemas.problem import Problem
from service.ground.errors import ApiError
from service.ground.logs import RECENT_ERRORS, merged_errors
from service.protocol.admin_models import (
    Audit,
    Evicted,
    EvictKeys,
    Footprints,
    Plan,
    PlanNode,
    PlanView,
    Prewarmed,
    PrewarmKeys,
    PrewarmList,
    PutView,
    Readiness,
    StartAudit,
    ViewList,
    ViewName,
    ViewState,
)
from service.protocol.admin_operations import (
    BeginAudit,
    BeginPrewarm,
    Control,
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
    ListPrewarms,
    ListViews,
    PutWorkload,
    RegisterView,
    RemoveView,
    operation_of,
    reply_to,
)
from service.protocol.workload import Workload, WorkloadModel
from service.settings.view_options import OptionFields
from service.supervisor.admin.graphviz import graphviz
from service.supervisor.admin.metrics import histograms_of, samples_of
from service.supervisor.admin.prometheus import prometheus_text
from service.supervisor.console.routes import add_console
from service.web.principal import ANONYMOUS
from service.web.problem_responses import (
    ADMIN_CODES,
    AUDIT_CODES,
    DROP_CODES,
    EVICT_CODES,
    GRAPH_CODES,
    ONE_VIEW_CODES,
    PLAN_CODES,
    PUT_CODES,
    WORKLOAD_CODES,
    problem_responses,
)

log = structlog.get_logger()


_ANY = problem_responses(ADMIN_CODES)
_PROBES = problem_responses(("bad_request", "method_not_allowed", "internal_error"))
_READYZ: dict[int | str, dict[str, Any]] = {
    **problem_responses(("invalid_request",)),
    **_PROBES,
    503: {"model": Readiness},
}
_DOT = {"text/vnd.graphviz": {"schema": {"type": "string"}}}
_GRAPH: dict[str, Any] = {"content": _DOT}
_PLAN: dict[str, Any] = {"content": {**_DOT, "text/plain": {"schema": {"type": "string"}}}}
Name = Annotated[ViewName, Path(description="The view's name.")]


class ChildState(Protocol):
    """State of a child process on the admin port."""

    name: str
    restarts: int
    hangs: int

    @property
    def alive(self) -> bool:
        """True if it runs right now."""
        ...

    @property
    def silent(self) -> bool:
        """True if it runs and does not say so."""
        ...


class Children(Protocol):
    """The supervisor, as the admin port sees it."""

    def children(self) -> list[Any]:
        """All child processes."""
        ...

    def served_before(self) -> bool:
        """Return whether reads were answered once: what is cached is served while the engine is away."""
        ...


#: The body of ``/metrics``.
Metrics = Callable[[], Awaitable[bytes]]


def admin_app(engine: Control, supervisor: Children, metrics: Metrics | None = None) -> FastAPI:
    """The application of the admin port; `metrics`: others than the engine's and its workers'."""
    app = _AdminApp(
        title="Upquery control plane",
        version="1",
        description="Views are registered, explained and watched here. They are read on the data plane's port.",
        docs_url=None,
        redoc_url=None,
    )
    _problems(app)
    _health(app, engine, supervisor)
    _metrics(app, metrics or _metrics_of(engine, supervisor))
    _catalog(app, engine)
    _plans(app, engine)
    _engine(app, engine)
    _filled_and_right(app, engine)
    _workload(app, engine)
    _for_gateways(app, engine)
    add_console(app)
    return app


class _AdminApp(FastAPI):
    """Errors are problems everywhere; FastAPI would document its own form for bodies that it refuses."""

    def openapi(self) -> dict[str, Any]:
        """The document, made when it is first asked for: a service starts without it."""
        if self.openapi_schema is None:
            schemas = super().openapi()["components"]["schemas"]
            schemas.pop("HTTPValidationError", None)
            schemas.pop("ValidationError", None)
            schemas["Problem"] = Problem.model_json_schema()
        return super().openapi()


def problem(error: ApiError, request: Request) -> JSONResponse:
    """RFC 9457 problem details."""
    return JSONResponse(error.problem(request.url.path), error.status, headers=error.headers)


def _problems(app: FastAPI) -> None:
    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return problem(error, request)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        return problem(ApiError("invalid_request", _first_mistake(error)), request)

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> Response:
        codes = {404: "not_found", 405: "method_not_allowed"}
        response = problem(ApiError(codes.get(error.status_code, "bad_request"), str(error.detail)), request)
        if error.status_code == 405:
            response.headers["allow"] = ", ".join(_methods(app, request.url.path))
        return response

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        log.error("admin request failed", path=request.url.path, exc_info=error)
        return problem(ApiError("internal_error", "The request failed; the supervisor's log has the reason."), request)


def _methods(app: FastAPI, path: str) -> list[str]:
    """All methods of a path. (The framework names those of its first route.)"""
    routes = [route for route in app.routes if isinstance(route, APIRoute) and route.path_regex.match(path)]
    return sorted({method for route in routes for method in route.methods or ()})


def _first_mistake(error: RequestValidationError) -> str:
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"])
    return f"{where}: {first['msg']}."


def _health(app: FastAPI, engine: Control, supervisor: Children) -> None:
    @app.get("/livez", tags=["health"], operation_id="livez", responses=_PROBES)
    async def livez() -> dict[str, str]:
        """The supervisor runs."""
        return {"status": "ok"}

    readiness = _Readinesses(engine, supervisor)

    @app.get("/readyz", tags=["health"], operation_id="readyz", responses=_READYZ, response_model=Readiness)
    async def readyz(
        request: Request,
        strict: Annotated[bool, Query(description="A lost stream or a view that is not ready fails too.")] = False,
    ) -> Response:
        """Readiness: 200 once the first catch-up is done, hot keys are filled and reads can be answered."""
        state = await readiness.now()
        ill = not state.streaming or state.building or state.quarantined or state.outdated or state.broken
        ok = state.ready and not (strict and ill)
        # Without a token, no names of views are returned.
        said = {"ready": ok} if request.scope.get(ANONYMOUS) else state.model_dump()
        return JSONResponse(said, 200 if ok else 503, headers={"cache-control": "no-store"})


def _metrics(app: FastAPI, text: Metrics) -> None:
    @app.get("/metrics", tags=["health"], operation_id="metrics", response_class=PlainTextResponse, responses=_ANY)
    async def metrics() -> Response:
        """Return metrics in Prometheus' text format."""
        return Response(await text(), media_type="text/plain; version=0.0.4; charset=utf-8")


def _metrics_of(engine: Control, supervisor: Children) -> Metrics:
    async def text() -> bytes:
        try:
            stats = await engine.call(GetStats())
        except ApiError:
            return prometheus_text(samples_of(None, supervisor.children()))
        return prometheus_text(samples_of(stats, supervisor.children()), histograms_of(stats))

    return text


class _Readinesses:
    """Readiness of reads. *State*: `_served`, whether they could be answered once; `_starting`, whether the engine
    answered last that they could not."""

    def __init__(self, engine: Control, supervisor: Children) -> None:
        self._engine = engine
        self._supervisor = supervisor
        self._served = self._starting = False

    async def now(self) -> Readiness:
        children = self._supervisor.children()
        workers = sum(1 for c in children if c.alive and not c.silent and c.name.startswith("worker"))
        silent = [c.name for c in children if c.silent]
        try:
            health = await self._engine.call(GetHealth())
        except ApiError:
            # Readers go on serving what is cached while the engine process hangs, or is started again.
            served = self._served or (not self._starting and self._supervisor.served_before())
            ready = served and workers > 0
            return Readiness(ready=ready, engine=False, streaming=False, workers=workers, silent=silent)
        # One that was started again waits for the change stream to begin, which long transactions hold up.
        self._served = self._served or (health.ready and health.warming_up is None)
        self._starting = not self._served
        ready = self._served and workers > 0
        return Readiness(engine=True, workers=workers, silent=silent, **dict(health) | {"ready": ready})


def _catalog(app: FastAPI, engine: Control) -> None:
    @app.get("/v1/catalog/views", tags=["catalog"], operation_id="list_views", responses=_ANY)
    async def list_views() -> ViewList:
        """List the registered views."""
        return ViewList(views=await engine.call(ListViews()))

    @app.get(
        "/v1/catalog/views/{name}",
        tags=["catalog"],
        operation_id="get_view",
        responses=problem_responses(ONE_VIEW_CODES),
    )
    async def get_view(name: Name) -> ViewState:
        """Return one view."""
        return await engine.call(GetView(name))

    @app.put(
        "/v1/catalog/views/{name}",
        tags=["catalog"],
        operation_id="put_view",
        response_model=ViewState,
        responses={201: {"model": ViewState}, 202: {"model": ViewState}, **problem_responses(PUT_CODES)},
    )
    async def put_view(name: Name, body: PutView, if_none_match: Annotated[str | None, Header()] = None) -> Response:
        """Register or replace a view: 201 if it is new, 200 if it existed, 202 while it is being built."""
        options = OptionFields.of(body.options())
        result = await engine.call(RegisterView(name, body.sql, options, create_only=if_none_match == "*"))
        state = await engine.call(GetView(name))
        status = 202 if result.building else 201 if result.created else 200
        return JSONResponse(state.model_dump(), status)

    @app.delete(
        "/v1/catalog/views/{name}",
        tags=["catalog"],
        operation_id="drop_view",
        status_code=204,
        responses=problem_responses(DROP_CODES),
    )
    async def drop_view(name: Name) -> Response:
        """Drop a view."""
        await engine.call(RemoveView(name))
        return Response(status_code=204)


def _plans(app: FastAPI, engine: Control) -> None:
    @app.get(
        "/v1/catalog/views/{name}/plan",
        tags=["plans"],
        operation_id="explain_view",
        response_model=Plan,
        responses={200: _PLAN, **problem_responses(ONE_VIEW_CODES)},
    )
    async def explain_view(name: Name, request: Request) -> Response:
        """Return the plan of a view; as text or Graphviz by Accept."""
        return _plan_response(await engine.call(ExplainView(name)), request)

    @app.post(
        "/v1/catalog/plan",
        tags=["plans"],
        operation_id="explain_sql",
        response_model=Plan,
        responses={200: _PLAN, **problem_responses(PLAN_CODES)},
    )
    async def explain_sql(body: PlanView, request: Request) -> Response:
        """Return the plan of an SQL text without installing it."""
        wanted = ExplainSql(body.name, body.sql, OptionFields.of(body.options()))
        return _plan_response(await engine.call(wanted), request)

    @app.get(
        "/v1/graph",
        tags=["plans"],
        operation_id="graph",
        response_model=list[PlanNode],
        responses={200: _GRAPH, **problem_responses(GRAPH_CODES)},
    )
    async def graph(
        request: Request,
        shard: Annotated[
            int | None, Query(description="Whose, where there are several: the first one's.", ge=0, le=63)
        ] = None,
    ) -> Response:
        """Return all nodes of an engine; as Graphviz by Accept."""
        nodes = await engine.call(GetGraph(shard))
        if "graphviz" in request.headers.get("accept", ""):
            return Response(graphviz(nodes), media_type="text/vnd.graphviz")
        return JSONResponse([node.model_dump() for node in nodes])


def _plan_response(plan: Plan, request: Request) -> Response:
    accept = request.headers.get("accept", "")
    if "graphviz" in accept:
        return Response(plan.dot, media_type="text/vnd.graphviz")
    if "text/plain" in accept:
        return PlainTextResponse(plan.text)
    return JSONResponse(plan.model_dump())


def _engine(app: FastAPI, engine: Control) -> None:
    @app.get("/v1/stats", tags=["engine"], operation_id="stats", responses=_ANY)
    async def stats() -> dict[str, Any]:
        """Return all statistics."""
        stats = await engine.call(GetStats())
        errors = merged_errors(stats.recent_errors, RECENT_ERRORS.newest_first())
        return stats.model_dump() | {"recent_errors": errors}

    @app.get("/v1/footprints", tags=["engine"], operation_id="footprints", responses=problem_responses(GRAPH_CODES))
    async def footprints() -> Footprints:
        """Which keys inside the keys of views have read, for workload models. Takes a while where there are many."""
        return await engine.call(GetFootprints())

    @app.post("/v1/evict", tags=["engine"], operation_id="evict", responses=problem_responses(EVICT_CODES))
    async def evict(body: EvictKeys) -> Evicted:
        """Evict keys; they are filled again when they are read."""
        if body.view is None and body.state_bytes is None:
            raise ApiError("bad_request", "The request must name a view, or state_bytes, to evict.")
        return await engine.call(Evict(body))


def _filled_and_right(app: FastAPI, engine: Control) -> None:
    @app.post(
        "/v1/audit", tags=["engine"], operation_id="audit", status_code=202, responses=problem_responses(AUDIT_CODES)
    )
    async def audit(body: StartAudit) -> Audit:
        """Start an audit: a comparison of cached keys with the database at one snapshot."""
        return await engine.call(BeginAudit(body))

    @app.get("/v1/audit", tags=["engine"], operation_id="audited", responses=_ANY)
    async def audited() -> Audit:
        """How far the audit is, or what the last one found."""
        return await engine.call(GetAudit())

    @app.post(
        "/v1/prewarm",
        tags=["engine"],
        operation_id="prewarm",
        status_code=202,
        responses=problem_responses(EVICT_CODES),
    )
    async def prewarm(body: PrewarmKeys) -> Prewarmed:
        """Start prewarming: fill keys before they are read."""
        return await engine.call(BeginPrewarm(body))

    @app.get("/v1/prewarm", tags=["engine"], operation_id="prewarmed", responses=_ANY)
    async def prewarmed() -> PrewarmList:
        """How far filling keys is."""
        return PrewarmList(prewarmed=await engine.call(ListPrewarms()))


def _workload(app: FastAPI, engine: Control) -> None:
    @app.put("/v1/workload", tags=["engine"], operation_id="put_workload", responses=problem_responses(WORKLOAD_CODES))
    async def put_workload(body: WorkloadModel) -> Workload:
        """Apply a workload model: pin its keys and fill others, now and after each restart."""
        return await engine.call(PutWorkload(body))

    @app.get("/v1/workload", tags=["engine"], operation_id="workload", responses=_ANY)
    async def workload() -> Workload:
        """The workload model that is applied."""
        return await engine.call(GetWorkload())

    @app.delete("/v1/workload", tags=["engine"], operation_id="drop_workload", status_code=204, responses=_ANY)
    async def drop_workload() -> Response:
        """Applies none any more."""
        await engine.call(DropWorkload())
        return Response(status_code=204)


def _for_gateways(app: FastAPI, engine: Control) -> None:
    @app.post("/internal/control", include_in_schema=False)
    async def control(request: Request) -> Response:
        """Run an operation of a gateway of the same version."""
        try:
            operation = operation_of(await request.body())
        except ValueError as error:
            raise ApiError("invalid_request", f"The request is not an operation: {error}") from None
        return Response(await reply_to(operation, engine), media_type="application/json")
