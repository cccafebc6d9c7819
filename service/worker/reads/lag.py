"""Handling of reads while the leaf store is further behind the database than their views allow.

Not here: the age of answers (`Answers.age_ms`), waiting and fallback (`service.engine.reads.misses`).
"""

from collections.abc import Iterable
from typing import Protocol

from service.ground.errors import ApiError
from service.leaf_store.catalog import ViewInfo
from service.leaf_store.serving_options import OnLag

#: Problems of reads that would have been answered from the leaf store but for their bound.
_UNANSWERED = frozenset({"engine_unavailable", "upstream_unavailable", "read_timeout", "version_timeout"})


class AgedRead(Protocol):
    """A view that is read."""

    info: ViewInfo
    #: Maximum age; None: unlimited.
    max_lag_ms: int | None


def bound_of(info: ViewInfo) -> int | None:
    """Return the age of a view's answers from which on it is handled."""
    return None if info.serving.on_lag is OnLag.SERVE else info.serving.max_lag_ms


def what_to_do(views: Iterable[AgedRead], age_ms: int) -> OnLag:
    """Return the handling of a read. Its answers have one version: if one of its outdated views waits, all wait."""
    lagging = {view.info.serving.on_lag for view in views if view.max_lag_ms is not None and view.max_lag_ms < age_ms}
    return OnLag.WAIT if OnLag.WAIT in lagging else lagging.pop() if lagging else OnLag.SERVE


def too_old(views: Iterable[AgedRead], age_ms: int, error: ApiError) -> ApiError:
    """Return the problem of a read that was not served from the leaf store because of its age, with that reason."""
    if error.code not in _UNANSWERED:
        return error
    bound, name = min((view.max_lag_ms, view.info.name) for view in views if view.max_lag_ms is not None)
    detail = f"Cached answers are {age_ms} ms old, and view {name!r} allows {bound} (max_lag_ms). {error.detail}"
    return ApiError(error.code, detail, error.hint, retryable=error.retryable, members=error.members)
