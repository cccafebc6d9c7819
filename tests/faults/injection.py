"""Faults, injected into a `Bed` one at a time, and what is seen of them."""

import re
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from tests.faults.bed import Bed, Probe
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


_ROW = "{:44}{:>12}{:>12}{:>12}{:>12}{:>13}{:>12}"
HEAD = _ROW.format("fault", "hits", "p99 before", "during, ms", "misses", "right after", "said after")


@dataclass(frozen=True, slots=True)
class Seen:
    """Effects of a fault."""

    fault: str
    hits: list[Probe] = field(repr=False)
    misses: list[Probe] = field(repr=False)
    before: list[Probe] = field(repr=False)
    healed_s: float
    #: After how long it could be read of; None: not at all.
    said_s: float | None

    def row(self) -> str:
        """A line of the table."""
        return _ROW.format(
            self.fault,
            _answered(self.hits),
            f"{_p99_ms(self.before):.1f}",
            f"{_p99_ms(self.hits):.1f}",
            _answered(self.misses),
            f"{self.healed_s:.1f} s",
            "-" if self.said_s is None else f"{self.said_s:.1f} s",
        )


def _answered(probes: list[Probe]) -> str:
    return f"{sum(probe.status == 200 for probe in probes)}/{len(probes)}"


def _p99_ms(probes: list[Probe]) -> float:
    took = sorted(probe.took_s for probe in probes if probe.status == 200) or [0.0]
    return took[int(len(took) * 0.99)] * 1000


def _said(bed: Bed, fault: Fault, from_byte: int, began: float) -> float | None:
    """How long it took, if it can be read of now."""
    found = fault.says and re.search(fault.says, bed.said(from_byte))
    return time.monotonic() - began if found else None


def inject(bed: Bed, fault: Fault) -> Seen:
    """Break it, hold it, repair it, and wait until every answer is right and the service is whole.

    AssertionError: an answer was wrong, what should go on did not, or nobody could see what was broken.
    """
    load, from_byte = bed.load, bed.service.log.stat().st_size
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
    until(load.is_right, RECOVERY_S)
    until(bed.is_whole, RECOVERY_S)
    healed_s = time.monotonic() - ended
    said_s = said_s or _said(bed, fault, from_byte, began)
    load.disturbed.clear()
    commits = load.commits
    until(lambda: load.check() is None and load.commits > commits)
    hits = bed.hits.between(began, ended)
    seen = Seen(
        fault.name, hits, bed.misses.between(began, ended), bed.hits.between(began - 5, began), healed_s, said_s
    )
    assert not fault.hits_go_on or any(probe.status == 200 for probe in hits), f"no hit was answered: {seen.row()}"
    assert not fault.says or said_s is not None, f"nobody said anything of it: {seen.row()}"
    return seen
