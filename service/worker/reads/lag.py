"""What a read does when the leaf store is further behind the database than its views allow.

Not here: how far behind answers are (`Answers.age_ms`), waiting and forwarding (`service.engine.reads.misses`).
"""

from collections.abc import Iterable
from typing import Protocol

from service.leaf_store.catalog import ViewInfo
from service.leaf_store.serving_options import OnLag


class AgedRead(Protocol):
    """A view that is read."""

    info: ViewInfo
    #: None if it is served however old it is.
    max_lag_ms: int | None


def bound_of(info: ViewInfo) -> int | None:
    """How old answers of a view may be before anything is done about it."""
    return None if info.serving.on_lag is OnLag.SERVE else info.serving.max_lag_ms


def what_to_do(views: Iterable[AgedRead], age_ms: int) -> OnLag:
    """Answers of one read are of one version: if one of its lagging views waits, all do."""
    lagging = {view.info.serving.on_lag for view in views if view.max_lag_ms is not None and view.max_lag_ms < age_ms}
    return OnLag.WAIT if OnLag.WAIT in lagging else lagging.pop() if lagging else OnLag.SERVE
