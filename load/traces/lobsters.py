"""A trace of the Lobsters workload, recorded while its pages are visited one after another, on the database itself.

The ids that a page asks for come out of earlier answers, so there is no trace without a side; they are the same on all
sides, and this one is not slower while it is cold. It has counter columns: a front page would take seconds without.
"""

from random import Random

from load.driver.connection import Broken, SingleConnection
from load.driver.visit import Visit
from load.progress import Tell
from load.sides.direct import direct
from load.sides.postgres import running_upstream
from load.traces.recorder import Recorder, costs_of
from load.traces.trace import Trace, TraceError
from load.workloads.lobsters.bulk_load import load
from load.workloads.lobsters.dataset import LobstersSize
from load.workloads.lobsters.site import lobsters
from load.workloads.lobsters.workload import LobstersSpec

#: Visits between two progress messages.
_TOLD_VISITS = 100
#: More failed visits than that are not the workload any more.
_FAILED = 0.05


def record(size: LobstersSize, visits: int, seed: int, tell: Tell) -> Trace:
    """So many visits of a site of that size."""
    site = lobsters()
    recorder = Recorder(costs_of(site.views))
    random = Random(seed)
    failed = 0
    tell("lobsters: writing the site")
    with (
        running_upstream(site, lambda url: load(url, size, counter_columns=True)) as upstream,
        direct(upstream, site) as side,
    ):
        workload = LobstersSpec(size).start(0, 1)
        with SingleConnection(side.reads_url, side.writes_url) as connection:
            for number in range(visits):
                if number % _TOLD_VISITS == 0:
                    tell(f"lobsters: visit {number:,} of {visits:,}, {len(recorder):,} keys read")
                failed += not _make(connection, recorder.recorded(workload.visit(random)[1]))
    if failed > _FAILED * visits:
        raise TraceError(f"{failed} of {visits} visits of lobsters failed")
    about = f"{visits:,} visits of the site at scale {size.scale:g} ({failed} of them cut short), seed {seed}"
    return recorder.trace("lobsters", about)


def _make(connection: SingleConnection, visit: Visit) -> bool:
    """Return whether the visit was made to its end: a page may find what another has taken away."""
    try:
        connection.make(visit)
    except (Broken, LookupError, OSError, ValueError):
        return False
    return True
