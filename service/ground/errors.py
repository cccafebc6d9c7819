"""Errors that clients see: one table of codes, statuses and titles (RFC 9457 problem details).

*Invariants*: a problem never carries upstream internals, credentials or stack traces, and is never cached.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """Properties of all problems of one code. `retry_after_s` is sent as Retry-After."""

    status: int
    title: str
    retryable: bool = False
    retry_after_s: int | None = None


#: All codes. `ApiError` accepts no other.
KINDS: dict[str, ProblemKind] = {
    "bad_request": ProblemKind(400, "The request is malformed"),
    "request_timeout": ProblemKind(408, "The request did not arrive in time"),
    "head_too_large": ProblemKind(431, "The request's headers are too large"),
    "not_found": ProblemKind(404, "The path does not exist"),
    "method_not_allowed": ProblemKind(405, "The path does not support this method"),
    "parameter_missing": ProblemKind(422, "A parameter of the view is missing"),
    "parameter_unknown": ProblemKind(422, "A parameter is unknown to the view"),
    "parameter_type": ProblemKind(422, "A parameter's value does not fit its type"),
    "invalid_request": ProblemKind(422, "The request's body does not match its schema"),
    "view_unsupported": ProblemKind(422, "This SQL cannot be a view"),
    "view_invalid": ProblemKind(422, "The database rejects this SQL"),
    "query_invalid": ProblemKind(422, "This SQL is not supported as an ad-hoc query"),
    "query_failed": ProblemKind(422, "The query fails on the current data"),
    "unauthenticated": ProblemKind(401, "Credentials are missing or wrong"),
    "forbidden": ProblemKind(403, "These credentials do not allow this"),
    "view_not_found": ProblemKind(404, "The view does not exist"),
    "view_exists": ProblemKind(409, "A view of this name exists"),
    "view_in_use": ProblemKind(409, "Other views read this one"),
    "audit_running": ProblemKind(409, "An audit is already running", retryable=True, retry_after_s=5),
    "must_refetch": ProblemKind(410, "The change log does not reach back that far"),
    "too_large": ProblemKind(413, "The request or its answer is too large"),
    "rate_limited": ProblemKind(429, "Too many requests", retryable=True, retry_after_s=1),
    "view_building": ProblemKind(503, "The view is still being built", retryable=True, retry_after_s=1),
    "view_broken": ProblemKind(503, "The view is broken and cannot be maintained", retry_after_s=1),
    "versions_apart": ProblemKind(
        503, "The shards have no common version at the moment", retryable=True, retry_after_s=1
    ),
    "host_refused": ProblemKind(421, "The service does not accept this Host"),
    "misdirected": ProblemKind(421, "The view is on another shard", retryable=True, retry_after_s=1),
    "upstream_unavailable": ProblemKind(503, "The database does not answer", retryable=True, retry_after_s=2),
    "upstream_refused": ProblemKind(503, "The database refused the query"),
    "overloaded": ProblemKind(503, "Too many requests are waiting", retryable=True, retry_after_s=1),
    "auth_unavailable": ProblemKind(503, "Tokens cannot be verified at the moment", retryable=True, retry_after_s=2),
    "engine_unavailable": ProblemKind(503, "The engine is not running", retryable=True, retry_after_s=1),
    "read_timeout": ProblemKind(504, "The answer could not be computed in time", retryable=True, retry_after_s=1),
    "version_timeout": ProblemKind(
        504, "The requested version was not reached in time", retryable=True, retry_after_s=1
    ),
    "internal_error": ProblemKind(500, "The service failed; the request is not at fault"),
}


#: Problems in the answers of this process, by code.
PROBLEMS: Counter[str] = Counter()


def without_stop(reason: str) -> str:
    """Return a reason without its full stop, for the end of another sentence."""
    return reason.removesuffix(".")


class ApiError(Exception):
    """A problem for the client: `code` of `KINDS`, `detail` of this case, `hint` with the remedy.

    `members` are further members of the problem (``parameter``, ``span``, ``progress`` …).
    `retryable` overrides the kind's.
    """

    def __init__(
        self,
        code: str,
        detail: str,
        hint: str | None = None,
        *,
        retryable: bool | None = None,
        members: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.kind = KINDS[code]
        self.detail = detail
        self.hint = hint
        self.retryable = self.kind.retryable if retryable is None else retryable
        self.members = members or {}

    @property
    def status(self) -> int:
        return self.kind.status

    @property
    def headers(self) -> dict[str, str]:
        headers = {"cache-control": "no-store", "content-type": "application/problem+json"}
        if self.retryable and self.kind.retry_after_s is not None:
            headers["retry-after"] = str(self.kind.retry_after_s)
        if self.code == "unauthenticated":
            headers["www-authenticate"] = 'Bearer realm="upquery"'
        return headers

    def problem(self, instance: str) -> dict[str, Any]:
        """Return the body, for the request path `instance`, and count it in `PROBLEMS`."""
        PROBLEMS[self.code] += 1
        return {
            "type": f"urn:upquery:problem:{self.code}",
            "title": self.kind.title,
            "status": self.kind.status,
            "detail": self.detail,
            "instance": instance,
            "code": self.code,
            "hint": self.hint,
            "retryable": self.retryable,
            **self.members,
        }


def building_view(name: str, progress: str | None) -> ApiError:
    """The problem of a view that is being loaded."""
    detail = f"View {name!r} is being built{': ' + without_stop(progress) if progress else ''}."
    return ApiError("view_building", detail, "Try again in a moment.", members={"progress": progress})


def broken_view(name: str, reason: str | None) -> ApiError:
    """The problem of a view whose SQL the database rejects, or that does not fit into memory."""
    return ApiError(
        "view_broken",
        f"View {name!r} is broken: {without_stop(reason or 'the reason is unknown')}.",
        "Register a corrected view under this name, or undo the change of its tables: the view is then repaired "
        "automatically.",
    )
