"""Problems of operations in OpenAPI documents: one response a status, with its codes."""

from collections.abc import Iterable
from typing import Any

from service.ground.errors import KINDS

#: Codes of every request.
_ALWAYS = (
    "bad_request",
    "host_refused",
    "unauthenticated",
    "forbidden",
    "method_not_allowed",
    "rate_limited",
    "internal_error",
    "auth_unavailable",
    "engine_unavailable",
)
#: Codes of every request to the data port.
_SERVED = (*_ALWAYS, "overloaded", "request_timeout", "head_too_large")
#: Codes of reads of any number of keys and views.
READ_CODES = (
    *_SERVED,
    "view_not_found",
    "parameter_missing",
    "parameter_unknown",
    "parameter_type",
    "too_large",
    "view_building",
    "view_broken",
    "upstream_unavailable",
    "upstream_refused",
    "read_timeout",
    "version_timeout",
    "misdirected",
    "query_failed",
)
#: Codes of requests with a body.
BODY_CODES = (*READ_CODES, "invalid_request")
#: Codes of reads of several views.
MANY_CODES = (*BODY_CODES, "versions_apart")
QUERY_CODES = (*BODY_CODES, "query_invalid")
CHECKPOINT_CODES = (*_SERVED, "invalid_request", "upstream_unavailable", "read_timeout")
#: Codes of the admin port.
ADMIN_CODES = (*_ALWAYS, "read_timeout")
ONE_VIEW_CODES = (*ADMIN_CODES, "invalid_request", "view_not_found", "view_broken")
DROP_CODES = (*ONE_VIEW_CODES, "view_in_use", "upstream_unavailable")
PLAN_CODES = (
    *ADMIN_CODES,
    "invalid_request",
    "view_unsupported",
    "view_invalid",
    "upstream_unavailable",
    "upstream_refused",
    "query_failed",
    "too_large",
)
PUT_CODES = (*PLAN_CODES, "view_exists", "view_in_use", "view_not_found", "view_broken")
GRAPH_CODES = (*ADMIN_CODES, "bad_request", "invalid_request")
AUDIT_CODES = (*ADMIN_CODES, "invalid_request", "view_not_found", "audit_running")
EVICT_CODES = (*ONE_VIEW_CODES, "parameter_missing", "parameter_unknown", "parameter_type")
WORKLOAD_CODES = (*ADMIN_CODES, "invalid_request", "view_not_found", "too_large")
_CONTENT = {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}}


def problem_responses(codes: Iterable[str]) -> dict[int | str, dict[str, Any]]:
    """Return OpenAPI responses by status, in ascending order."""
    by_status: dict[int, list[str]] = {}
    for code in codes:
        by_status.setdefault(KINDS[code].status, []).append(code)
    return {str(status): _response(by_status[status]) for status in sorted(by_status)}


def _response(codes: list[str]) -> dict[str, Any]:
    lines = [f"- `{code}`: {KINDS[code].title}." for code in codes]
    response: dict[str, Any] = {"description": "\n".join(lines), "content": _CONTENT}
    if any(KINDS[code].retry_after_s for code in codes):
        seconds = {"type": "integer", "minimum": 0}
        response["headers"] = {"Retry-After": {"description": "Seconds until a retry may succeed.", "schema": seconds}}
    return response
