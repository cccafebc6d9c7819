"""Lookups by keys, and fetches, that nobody waits for any more are cancelled; lookups that were not sent are forgotten.

*Theory*: a reader who has gone holds the upstream no longer than a moment. The moment is for readers who come back as
they were told to (``Retry-After``), and for lookups that are about to end: cancelling one takes connections. It is
`Limits.unawaited_looks` looks in a row, which the shell has at a pace of its own.

*Invariants*: a lookup goes on while a read, a pin, a load or a refill waits for one of its keys.

Not here: lookups of everything, which go on (begun anew for each reader they might never end); forwarded reads, which
the shell runs and ends.
"""

from collections import Counter

from dataflow.engine.effects import Effect
from dataflow.engine.flights import Flights, Sent
from dataflow.engine.limits import Limits
from dataflow.engine.refreshed_views import RefreshedViews
from dataflow.engine.upquery import Upqueries


class Abandonment:
    """Looks at all of them."""

    def __init__(
        self,
        flights: Flights,
        upqueries: Upqueries,
        refreshes: RefreshedViews,
        limits: Limits,
        counters: "Counter[str]",
    ) -> None:
        self._flights = flights
        self._upqueries = upqueries
        self._refreshes = refreshes
        self._limits = limits
        self._counters = counters

    def look(self) -> list[Effect]:
        """One look; what is cancelled."""
        effects: list[Effect] = []
        self._counters["unsent"] += self._flights.forget_unsent(self._upqueries.take_left())
        for sent in list(self._flights.in_flight.values()):
            sent.unawaited = 0 if self._is_needed(sent) else sent.unawaited + 1
            if sent.unawaited >= self._limits.unawaited_looks:
                self._counters["unawaited"] += 1
                effects += self._flights.abandon(sent)
                self._flights.land(sent)
        self._refreshes.cancel_unawaited()
        return effects

    def _is_needed(self, sent: Sent) -> bool:
        return sent.of_everything or any(self._upqueries.is_awaited(flight) for flight in sent.flight_keys())
