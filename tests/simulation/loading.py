"""Lookups of everything that are answered in slices: at any legal snapshot, late, a few rows at a time."""

from collections.abc import Iterator
from random import Random

from dataflow.engine.events import Event, LoadBegun, LoadDone, LoadRows, LookupFailed
from tests.simulation.configuration import Flight
from tests.simulation.world import LookupResult


def may_be_sliced(flight: Flight) -> bool:
    """Return whether a lookup that ran is one of everything, and what it saw is exact."""
    lookup, result = flight.lookup, flight.result
    return result is not None and not lookup.columns and lookup.part is None and result.snapshot.exact


def slices(flight: Flight, result: LookupResult, rng: Random) -> Iterator[Event]:
    """Yield the slices as events of the engine; `rng` decides each anew."""
    lookup = flight.lookup.id
    yield LoadBegun(lookup, result.snapshot, result.bound)
    rows = list(result.rows or ())
    while rows:
        some = rng.randint(0, 3)
        yield LoadRows(lookup, rows[:some])
        rows = rows[some:]
    if result.rows is None:
        yield LookupFailed(lookup, "integer out of range", True, evaluation=True)
    else:
        yield LoadDone(lookup)
