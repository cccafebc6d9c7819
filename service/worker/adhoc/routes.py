"""The operation ``POST /v1/query``, and its part of the document.

Not here: its implementation (`queries`).
"""

from fastapi import FastAPI, Request
from fastapi.responses import Response

from api_schemas.query import Query, QueryRows
from service.ground.errors import ApiError
from service.web.principal import principal_of
from service.web.problem_responses import QUERY_CODES, problem_responses
from service.worker.adhoc.queries import AnyQueries


def add_query(app: FastAPI, queries: AnyQueries | None) -> None:
    """Add the operation; without `queries` it refuses them."""

    @app.post(
        "/v1/query",
        operation_id="run_query",
        response_model=QueryRows,
        responses={200: {"headers": _HEADERS}, **problem_responses(QUERY_CODES)},
        tags=["reads"],
    )
    async def run_query(request: Request, body: Query) -> Response:
        """Run an ad-hoc query: a view with the same fingerprint answers it, else the database."""
        if queries is None:
            raise ApiError("forbidden", "Ad-hoc queries are disabled.")
        reply = await queries.answer(body.sql, body.params, principal_of(request.scope), request.scope["headers"])
        headers = {name.decode(): value.decode() for name, value in reply.headers}
        return Response(reply.body, reply.status, headers)


_HEADERS = {
    "Upquery-View": {
        "description": "The view with the same fingerprint; absent if the database answered.",
        "schema": {"type": "string"},
    }
}
