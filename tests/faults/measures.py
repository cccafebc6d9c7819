"""Effects of a fault, as a row of the table: what was compared, what was evicted, and what readers had to wait for.

*Theory*: a read that succeeds, and a version that is newer than the last one, are moments. The longest time between two
of them, from the fault's beginning until all is well again, is the time without hits, misses or changes that a reader
sees; some hundredths of a second are the probers' own pauses.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise

from tests.faults.bed import HELD, Bed, Probe
from tests.fixtures.service import until
from tests.integration.news_workload import ALL_KEYS

#: Sessions that began, and those of them that began with what was in a checkpoint.
_BEGAN, _RESTORED = re.compile("stream started"), re.compile("the checkpoint was read")
_ROW = "{:60}{:>6}{:>6}{:>6}{:>9}{:>10}{:>7}{:>9}{:>8}{:>9}{:>8}{:>8}{:>7}{:>7}"
#: Columns of the table below those that group them.
HEAD = "\n".join(
    (
        f"evicted: how many of {HELD} keys that nobody writes or reads; all: the cache began empty",
        "hits after: how many of them are hits once all processes run; hot keys may have been filled again",
        "longest seconds without: a hit, an answered miss, an answer of a newer version",
        "seconds to heal: until every answer is right again; to say: until log, probes or metrics say what is broken",
        "",
        "{:60}{:>18}{:>19}{:>7}{:>26}{:>16}{:>14}".format(
            "", "compared", "", "hits", "longest seconds without", "p99 of hits, ms", "seconds to"
        ),
        _ROW.format(
            *("fault", "wrong", "keys", "rows", "commits", "evicted", "after"),
            *("hits", "misses", "changes", "before", "during", "heal", "say"),
        ),
    )
)


@dataclass(frozen=True, slots=True)
class Tally:
    """Counts of a bed at one time."""

    rounds: int
    rows: int
    commits: int
    began: int
    restored: int

    @classmethod
    def of(cls, bed: Bed) -> "Tally":
        log = "".join(service.log.read_text(errors="replace") for service in bed.services)
        load = bed.load
        began, restored = (len(pattern.findall(log)) for pattern in (_BEGAN, _RESTORED))
        return cls(load.rounds, load.rows, load.commits, began, restored)

    def evicted(self, before: "Tally", kept: int, engines: int) -> str:
        """Return how much of the cache was, since `before`: of the keys that are held, unless a session began empty."""
        empty = self.began - before.began - (self.restored - before.restored)
        if empty > 0:
            return "all" if empty >= engines else f"{empty}/{engines}"
        return f"{HELD - kept} of {HELD}"


def kept_keys(bed: Bed) -> int:
    """Read the keys that nobody else reads, each once; return how many of them were in memory."""
    hits: list[bool] = []
    for key in bed.held_keys():
        until(lambda key=key: bed.read_held(key, hits))
    return sum(hits)


def longest_s(moments: Iterable[float], begin_s: float, end_s: float) -> float:
    """Return the longest time between two moments that is in a period at least in part."""
    known = sorted(moments)
    first = max((moment for moment in known if moment <= begin_s), default=begin_s)
    last = min((moment for moment in known if moment >= end_s), default=end_s)
    within = [first, *(moment for moment in known if begin_s < moment < end_s), last]
    return max(after - before for before, after in pairwise(within))


def successes(probes: Iterable[Probe]) -> list[float]:
    """Return when reads were answered."""
    return [probe.at_s + probe.took_s for probe in probes if probe.status == 200]


def hits_of(probes: Iterable[Probe]) -> list[float]:
    """Return when reads were answered from memory."""
    return successes(probe for probe in probes if probe.version)


def changes(probes: Iterable[Probe]) -> list[float]:
    """Return when a hit had a version that none before it had."""
    first: dict[str, Probe] = {}
    for probe in probes:
        first.setdefault(probe.version, probe)
    return successes(probe for version, probe in first.items() if version)


@dataclass(frozen=True, slots=True)
class Seen:
    """Effects of a fault."""

    fault: str
    before: Tally
    after: Tally
    evicted: str
    kept: int
    without_s: tuple[float, float, float]
    p99_ms: tuple[float, float]
    healed_s: float
    #: After how long it could be read of; None: not at all.
    said_s: float | None

    def row(self) -> str:
        """A line of the table. No row is of a wrong answer: the first one ends everything."""
        return _ROW.format(
            self.fault,
            0,
            (self.after.rounds - self.before.rounds) * len(ALL_KEYS),
            self.after.rows - self.before.rows,
            self.after.commits - self.before.commits,
            self.evicted,
            f"{100 * self.kept // HELD} %",
            *(f"{seconds:.2f}" for seconds in self.without_s),
            *(f"{ms:.1f}" for ms in self.p99_ms),
            f"{self.healed_s:.1f}",
            "-" if self.said_s is None else f"{self.said_s:.1f}",
        )


def p99_ms(probes: Iterable[Probe]) -> float:
    """Return the time within which 99 of 100 answers came."""
    took = sorted(probe.took_s for probe in probes if probe.status == 200) or [0.0]
    return took[int(len(took) * 0.99)] * 1000
