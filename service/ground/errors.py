"""Errors that clients see: one table of codes, statuses and titles (RFC 9457 problem details).

*Invariants*: a problem never carries upstream internals, credentials or stack traces, and is never cached.
"""

from collections import Counter
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """What all problems of one code have in common. `retry_after_s` is sent as Retry-After."""

    status: int
    title: str
    retryable: bool = False
    retry_after_s: int | None = None


#: The one table. A code that is not here cannot be raised.
KINDS: dict[str, ProblemKind] = {
    "bad_request": ProblemKind(400, "The request cannot be understood"),
    "request_timeout": ProblemKind(408, "The request did not arrive in time"),
    "head_too_large": ProblemKind(431, "The request's headers are too large"),
    "not_found": ProblemKind(404, "There is nothing at this path"),
    "method_not_allowed": ProblemKind(405, "This path does not take this method"),
    "parameter_missing": ProblemKind(422, "A parameter of the view is missing"),
    "parameter_unknown": ProblemKind(422, "The view has no such parameter"),
    "parameter_type": ProblemKind(422, "A parameter has a value that its type does not allow"),
    "invalid_request": ProblemKind(422, "The request's body does not have the documented form"),
    "view_unsupported": ProblemKind(422, "This SQL cannot be a view"),
    "view_invalid": ProblemKind(422, "The upstream would not run this SQL"),
    "query_invalid": ProblemKind(422, "This SQL is not run here"),
    "query_failed": ProblemKind(422, "The query fails on the data as it is"),
    "unauthenticated": ProblemKind(401, "Credentials are missing or wrong"),
    "forbidden": ProblemKind(403, "These credentials do not allow this"),
    "view_not_found": ProblemKind(404, "There is no such view"),
    "view_exists": ProblemKind(409, "There is a view of this name already"),
    "view_in_use": ProblemKind(409, "Other views read this one"),
    "audit_running": ProblemKind(409, "An audit is running already", retryable=True, retry_after_s=5),
    "must_refetch": ProblemKind(410, "The change log does not reach back that far"),
    "too_large": ProblemKind(413, "The request or its answer is too large"),
    "rate_limited": ProblemKind(429, "Too many requests", retryable=True, retry_after_s=1),
    "view_building": ProblemKind(503, "The view is still being built", retryable=True, retry_after_s=1),
    "view_broken": ProblemKind(503, "The view cannot be kept up to date"),
    "versions_apart": ProblemKind(
        503, "The shards have no version in common just now", retryable=True, retry_after_s=1
    ),
    "host_refused": ProblemKind(421, "The service does not answer to that name"),
    "misdirected": ProblemKind(421, "Another shard keeps this view", retryable=True, retry_after_s=1),
    "upstream_unavailable": ProblemKind(503, "The database does not answer", retryable=True, retry_after_s=2),
    "upstream_refused": ProblemKind(503, "The database refused the query"),
    "overloaded": ProblemKind(503, "More requests wait than can be served", retryable=True, retry_after_s=1),
    "auth_unavailable": ProblemKind(503, "Tokens cannot be verified just now", retryable=True, retry_after_s=2),
    "engine_unavailable": ProblemKind(503, "The engine does not run", retryable=True, retry_after_s=1),
    "read_timeout": ProblemKind(504, "The answer could not be computed in time", retryable=True, retry_after_s=1),
    "version_timeout": ProblemKind(504, "The view is not that new yet", retryable=True, retry_after_s=1),
    "internal_error": ProblemKind(500, "Something went wrong here, not with the request"),
}


#: Problems that this process has answered with, by code.
PROBLEMS: Counter[str] = Counter()


def without_stop(reason: str) -> str:
    """A reason, which may be a sentence, for the end of another sentence."""
    return reason.removesuffix(".")


class ApiError(Exception):
    """A problem for the client: `code` of `KINDS`, `detail` for this case, `hint`: what to do about it.

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
        """The HTTP status."""
        return self.kind.status

    @property
    def headers(self) -> dict[str, str]:
        """Headers of the problem response."""
        headers = {"cache-control": "no-store", "content-type": "application/problem+json"}
        if self.retryable and self.kind.retry_after_s is not None:
            headers["retry-after"] = str(self.kind.retry_after_s)
        if self.code == "unauthenticated":
            headers["www-authenticate"] = 'Bearer realm="upquery"'
        return headers

    def problem(self, instance: str) -> dict[str, Any]:
        """The body, for the request path `instance`. It counts as answered."""
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
