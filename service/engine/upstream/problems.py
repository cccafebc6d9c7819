"""Upstream failures as problems for clients (RFC 9457)."""

import structlog

from service.engine.upstream.results import UpstreamError
from service.ground.errors import ApiError

log = structlog.get_logger()

#: Problem codes of those `UpstreamError` codes that denote a permanent error of the query, not one that an
#: administrator can repair.
_REFUSALS = {"invalid": "query_failed", "parameter": "parameter_type", "too_large": "too_large"}


def no_stream() -> ApiError:
    """The problem of a missed read while there is no change stream."""
    return ApiError(
        "upstream_unavailable",
        "The change stream of the database is down; cached keys are still answered.",
        "Try again in a moment: the stream restarts automatically.",
    )


def forward_problem(error: BaseException) -> ApiError:
    """The problem of a read whose fallback to the database failed, which is also logged."""
    if isinstance(error, ApiError):
        return error
    if isinstance(error, UpstreamError):
        log.warning("forwarded read failed", reason=error.detail, code=error.code)
        return upstream_problem(error)
    log.error("forwarded read failed", exc_info=error)
    return ApiError("internal_error", "The fallback to the database failed.")


def upstream_problem(error: UpstreamError) -> ApiError:
    """The problem of a failure of the upstream."""
    return ApiError(upstream_code(error), error.public_text, retryable=error.retryable)


def upstream_code(error: UpstreamError) -> str:
    if error.retryable:
        return "upstream_unavailable"
    return _REFUSALS.get(error.code, "upstream_refused")
