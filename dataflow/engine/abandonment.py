"""Cancellation of lookups by keys, and of fetches, that nobody waits for; lookups that were not sent are dropped.

*Theory*: a reader who has gone holds the upstream no longer than a moment. The moment is for readers who come back as
they were told to (``Retry-After``), and for lookups that are about to end: cancelling one takes connections. It is
`Limits.unawaited_looks` looks in a row, which the shell has at a pace of its own.

*Invariants*: a lookup goes on while a read, a pin, a load or a refill waits for one of its keys.

Not here: lookups of everything, which go on (begun anew for each reader they might never end); forwarded reads, which
the shell runs and ends.
"""

from dataflow.engine.context import Context
from dataflow.engine.flights import Flights, LookupQuery
from dataflow.engine.refreshed_views import RefreshedViews
from dataflow.engine.upquery import Upqueries


class Abandonment:
    """Ends what nobody waits for."""

    def __init__(
        self,
        context: Context,
        flights: Flights,
        upqueries: Upqueries,
        refreshes: RefreshedViews,
    ) -> None:
        self._counters = context.counters
        self._flights = flights
        self._upqueries = upqueries
        self._refreshes = refreshes

    def cancel_unawaited(self) -> None:
        """Looks once; cancels what nobody has waited for at several looks."""
        self._counters["unsent"] += self._flights.forget_unsent(self._upqueries.take_left())
        for sent in self._flights.outstanding.unawaited_queries(self._is_needed):
            self._counters["unawaited"] += 1
            self._flights.abandon(sent)
            self._flights.land(sent)
        self._refreshes.cancel_unawaited()

    def _is_needed(self, sent: LookupQuery) -> bool:
        if sent.paused or sent.of_everything:
            return True
        return any(self._upqueries.is_awaited(flight) for flight in sent.flight_keys())
