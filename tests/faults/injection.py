"""Faults, injected into a `Bed` one at a time, and what is seen of them."""

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from tests.faults.bed import Bed
from tests.faults.measures import Seen, Tally, changes, hits_of, kept_keys, longest_s, p99_ms, successes
from tests.fixtures.service import until
from tests.integration.consistency import RECOVERY_S

#: Within so long an operator sees what is broken, on a busy machine too.
SAID_S = 40.0


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that is broken for a while. `says`: what an operator can read of it, somewhere."""

    name: str
    broken: Callable[[Bed], AbstractContextManager[None]]
    hold_s: float
    says: str
    #: Whether what is in memory is answered meanwhile.
    hits_go_on: bool = True
    #: Whether some of the other ones cannot be injected afterwards.
    last: bool = False


def _said(bed: Bed, fault: Fault, from_byte: int, began: float) -> float | None:
    """How long it took, if it can be read of now."""
    found = fault.says and re.search(fault.says, bed.said(from_byte))
    return time.monotonic() - began if found else None


def inject(bed: Bed, fault: Fault) -> Seen:
    """Break it, hold it, repair it, and wait until every answer is right and the service is whole.

    AssertionError: an answer was wrong, what should go on did not, or nobody could see what was broken.
    """
    load, from_byte = bed.load, bed.service.log.stat().st_size
    bed.hold_keys()
    before = Tally.of(bed)
    began = time.monotonic()
    load.disturbed.set()
    said_s: float | None = None
    with fault.broken(bed):
        while (held_s := time.monotonic() - began) < fault.hold_s or (
            fault.says and said_s is None and held_s < SAID_S
        ):
            load.pause(0.2)
            said_s = said_s or _said(bed, fault, from_byte, began)
    ended = time.monotonic()
    until(bed.is_whole, RECOVERY_S)
    kept = kept_keys(bed)
    until(load.is_right, RECOVERY_S)
    until(bed.is_whole, RECOVERY_S)
    healed = time.monotonic()
    said_s = said_s or _said(bed, fault, from_byte, began)
    load.disturbed.clear()
    commits = load.commits
    until(lambda: load.check() is None and load.commits > commits)
    load.compare()
    hits, after = bed.hits.between(began, ended), Tally.of(bed)
    moments = (hits_of(bed.hits.probes), successes(bed.misses.probes), changes(bed.hits.probes))
    hits_s, misses_s, changes_s = (longest_s(each, began, healed) for each in moments)
    seen = Seen(
        fault.name,
        before,
        after,
        after.evicted(before, kept, bed.engines),
        kept,
        (hits_s, misses_s, changes_s),
        (p99_ms(bed.hits.between(began - 5, began)), p99_ms(hits)),
        healed - ended,
        said_s,
    )
    assert not fault.hits_go_on or any(probe.status == 200 for probe in hits), f"no hit was answered: {seen.row()}"
    assert not fault.says or said_s is not None, f"nobody said anything of it: {seen.row()}"
    return seen
