"""The data port's FastAPI application: all routes except reads of one key, and the document of all routes."""

import time

import structlog
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException

from api_schemas.reads import Checkpoint, ReadResults, ViewKeys
from api_schemas.reads import Reads as ReadsRequest
from service.ground.errors import ApiError
from service.ground.version import version_text
from service.web.messages import Reply
from service.web.principal import Right, principal_of, readable
from service.web.problem_responses import BODY_CODES, CHECKPOINT_CODES, MANY_CODES, problem_responses
from service.worker.adhoc.queries import AnyQueries
from service.worker.adhoc.routes import add_query
from service.worker.reads.batches import AnyBatches, Item
from service.worker.reads.known_views import KnownViews
from service.worker.routes.openapi import document

_log = structlog.get_logger(__name__)


def documented_app(reads: KnownViews, batches: AnyBatches, queries: AnyQueries | None = None) -> FastAPI:
    """Return the application behind the fast routes."""
    app = FastAPI(title="Upquery", version="1", docs_url=None, redoc_url=None, openapi_url=None, redirect_slashes=False)
    _handle_problems(app)
    _add_reads(app, reads, batches)
    add_query(app, queries)

    @app.get("/openapi.json", include_in_schema=False)
    async def openapi(request: Request) -> JSONResponse:
        reads.refresh()
        principal = principal_of(request.scope)
        names = readable(principal, list(reads.routes))
        infos = [reads.routes[name].info for name in names]
        shown = [info for info in infos if not info.serving.hidden]
        sql = principal is None or Right.ADMIN in principal.rights
        return JSONResponse(document(app, shown, guarded=principal is not None, sql=sql))

    return app


def _add_reads(app: FastAPI, reads: KnownViews, batches: AnyBatches) -> None:
    @app.post(
        "/v1/views/{view}/query",
        operation_id="query_view",
        response_model=ReadResults,
        responses=problem_responses(BODY_CODES),
        tags=["reads"],
    )
    async def query_view(request: Request, view: str, body: ViewKeys) -> Response:
        """Read several keys of one view at one version."""
        started = time.perf_counter_ns()
        reads.refresh()
        wanted = batches.keys(view, body.keys, principal_of(request.scope))
        return _response(await batches.answer(wanted, request.scope["headers"], started))

    @app.post(
        "/v1/read",
        operation_id="read_many",
        response_model=ReadResults,
        responses=problem_responses(MANY_CODES),
        tags=["reads"],
    )
    async def read_many(request: Request, body: ReadsRequest) -> Response:
        """Read keys of several views at one version."""
        started = time.perf_counter_ns()
        reads.refresh()
        items = [Item(read.view, read.params, read.limit, read.after) for read in body.reads]
        wanted = batches.items(items, principal_of(request.scope))
        return _response(await batches.answer(wanted, request.scope["headers"], started))

    @app.post(
        "/v1/checkpoint",
        operation_id="create_checkpoint",
        response_model=Checkpoint,
        responses=problem_responses(CHECKPOINT_CODES),
        tags=["reads"],
    )
    async def create_checkpoint() -> Response:
        """Return the upstream's current position, for Upquery-Min-Version, and advance an idle stream to it."""
        version = version_text(await reads.checkpoint())
        return JSONResponse({"version": version}, headers={"cache-control": "no-store"})


def _response(reply: Reply) -> Response:
    headers = {name.decode(): value.decode() for name, value in reply.headers}
    return Response(reply.body, reply.status, headers)


def _handle_problems(app: FastAPI) -> None:
    def problem(request: Request, error: ApiError, headers: dict[str, str] | None = None) -> Response:
        return JSONResponse(error.problem(request.url.path), error.status, headers={**(headers or {}), **error.headers})

    @app.exception_handler(ApiError)
    async def api_error(request: Request, error: ApiError) -> Response:
        return problem(request, error)

    @app.exception_handler(RequestValidationError)
    async def invalid(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        where = ".".join(str(part) for part in first["loc"])
        return problem(request, ApiError("invalid_request", f"{where}: {first['msg']}.", "See /openapi.json."))

    @app.exception_handler(HTTPException)
    async def routing(request: Request, error: HTTPException) -> Response:
        if error.status_code == 404:
            return problem(
                request, ApiError("not_found", f"Path {request.url.path} does not exist.", "See /openapi.json.")
            )
        if error.status_code == 405:
            refused = ApiError("method_not_allowed", f"{request.url.path} does not support {request.method}.")
            return problem(request, refused, dict(error.headers or {}))
        return problem(request, ApiError("too_large" if error.status_code == 413 else "bad_request", str(error.detail)))

    @app.exception_handler(Exception)
    async def bug(request: Request, error: Exception) -> Response:
        _log.error("request_failed", path=request.url.path, exc_info=error)
        return problem(request, ApiError("internal_error", "The request failed; the log has the reason."))
