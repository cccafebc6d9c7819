"""Subscriptions in the OpenAPI document, which describes streams and WebSockets in prose only."""

from typing import Any

from pydantic import BaseModel

from api_schemas.subscriptions import Change, Changes, Snapshot, Subscribe, Unsubscribe
from service.web.problem_responses import READ_CODES, problem_responses
from service.worker.subscriptions.messages import PATH

_CODES = (*READ_CODES, "must_refetch")
_SOCKET_CODES = ("bad_request", "unauthenticated", "forbidden", "internal_error", "engine_unavailable")
_MODELS: tuple[type[BaseModel], ...] = (Snapshot, Change, Changes, Subscribe, Unsubscribe)
_EVENTS = (
    "`snapshot` (Snapshot), then for one or more whole transactions at a time `change` (Change) ended by `up-to-date` "
    "(`{version}`); `up-to-date` alone at intervals; `must-refetch` (`{reason}`) when the sequence of changes is "
    "broken: the stream ends, and the next one begins with a snapshot."
)
_MESSAGES = (
    "One WebSocket for many subscriptions. The client sends Subscribe and Unsubscribe; each message to it has the `id` "
    "of its subscription and a `type`: `snapshot`, `change`, `up-to-date` and `must-refetch` with the members of the "
    "events of these names and a `token` to resume with, `problem` with a `problem` (Problem), `unsubscribed`."
)
_PARAMETERS: list[dict[str, Any]] = [
    {"name": "view", "in": "path", "required": True, "schema": {"type": "string"}},
    {
        "name": "params",
        "in": "query",
        "style": "form",
        "explode": True,
        "description": "Parameters of the view, by name.",
        "schema": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    {
        "name": "live",
        "in": "query",
        "description": "`poll`: one JSON answer as soon as the rows change, instead of a stream.",
        "schema": {"type": "string", "enum": ["poll"]},
    },
    {
        "name": "after",
        "in": "query",
        "description": "Resume point: an event's id, a poll's token, or the version of an answer.",
        "schema": {"type": "string"},
    },
    {"name": "Last-Event-ID", "in": "header", "description": "As `after`.", "schema": {"type": "string"}},
    {
        "name": "Prefer",
        "in": "header",
        "description": "`wait=20`: maximum seconds that a poll waits.",
        "schema": {"type": "string"},
    },
]


def add_subscriptions(document: dict[str, Any]) -> None:
    """Add the paths and their schemas."""
    reference = {"$ref": f"#/components/schemas/{Changes.__name__}"}
    template = "#/components/schemas/{model}"
    for model in _MODELS:
        schema = model.model_json_schema(ref_template=template)
        schema.pop("$defs", None)
        document["components"]["schemas"][model.__name__] = schema
    document["paths"]["/v1/views/{view}/subscribe"] = {
        "get": {
            "tags": ["subscriptions"],
            "summary": "Subscribe to a view",
            "description": "Also `GET /v1/views/{view}` with `Accept: text/event-stream`, or with `live=poll`.",
            "operationId": "subscribe_view",
            "parameters": _PARAMETERS,
            "responses": {
                "200": {
                    "description": _EVENTS,
                    "content": {
                        "text/event-stream": {"schema": {"type": "string"}},
                        "application/json": {"schema": reference},
                    },
                },
                **problem_responses(_CODES),
            },
        }
    }
    document["paths"][PATH] = {
        "get": {
            "tags": ["subscriptions"],
            "summary": "Subscribe to many views",
            "description": _MESSAGES,
            "operationId": "subscribe",
            "responses": {"101": {"description": "A WebSocket."}, **problem_responses(_SOCKET_CODES)},
        }
    }
