"""Engines that cancel what somebody waits for, or forget that they cancelled it; see `table`."""

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

from dataflow.engine.abandonment import Abandonment
from dataflow.engine.flights import Flights
from dataflow.engine.refresh_leaf import Fetch
from dataflow.engine.refreshed_views import RefreshedViews


def lookup_that_others_wait_for() -> AbstractContextManager[Any]:
    """A lookup is cancelled when one of its keys is not waited for any more."""

    def mutant(self: Abandonment, sent: Any) -> bool:
        return all(self._upqueries.is_awaited(flight) for flight in sent.flight_keys())

    return patch.object(Abandonment, "_is_needed", mutant)


def cancelled_lookup_is_joined() -> AbstractContextManager[Any]:
    """Whoever comes after a lookup was cancelled waits for it."""
    look, land = Abandonment.cancel_unawaited, Flights.land

    def mutant(self: Abandonment) -> Any:
        with patch.object(Flights, "land", lambda flights, sent: None if sent.issued else land(flights, sent)):
            return look(self)

    return patch.object(Abandonment, "cancel_unawaited", mutant)


def fetch_that_is_waited_for() -> AbstractContextManager[Any]:
    """Fetches are cancelled whoever waits for them."""
    return patch.object(Fetch, "is_awaited", False)


def cancelled_fetch_is_joined() -> AbstractContextManager[Any]:
    """Whoever comes after a fetch was cancelled waits for it."""
    cancel = RefreshedViews.cancel_unawaited

    def mutant(self: RefreshedViews) -> None:
        with patch.object(RefreshedViews, "_forget", lambda refreshes, fetch: refreshes.fetches.end(fetch.id)):
            cancel(self)

    return patch.object(RefreshedViews, "cancel_unawaited", mutant)


ABANDONMENT_MUTANTS = (
    lookup_that_others_wait_for,
    cancelled_lookup_is_joined,
    fetch_that_is_waited_for,
    cancelled_fetch_is_joined,
)
