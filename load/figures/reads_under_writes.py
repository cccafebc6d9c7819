"""Reads while the engine is saturated: do they keep their throughput?

The API worker and wrk share core 0 throughout; the engine and the database have core 1. The recorded stream is a
backlog of votes in the database's log, large enough that the engine is at it for the whole turn.
"""

from load import processes
from load.figures.backlog import stopped_engine, warm_all_stories
from load.figures.demo_site import DemoSite
from load.figures.votes import cast_votes
from load.progress import number
from load.report.figures import Figure, Measurement, Result, Skipped
from load.sides.side import SideError
from load.wrk import run_wrk

BENCH = "reads under writes"
STORY = 7
ROUNDS = 3
#: More than an engine can drain in one turn.
CHANGES_PER_S = 150_000


def run(site: DemoSite, seconds: int, cores: tuple[int, int] | None) -> list[Result]:
    """Quiet and saturated turns, one after the other."""
    if cores is None:
        return [Skipped(BENCH, "needs two cores")]
    warm_all_stories(site)
    url = site.view_url("story_with_votes", id=STORY)
    engine, database = site.engine, site.database_processes()
    processes.pin([site.worker], cores[0])
    processes.pin([engine, *database], cores[1])
    quiet, saturated, shares = [], [], []
    run_wrk(url, 1, cores[0])
    for _ in range(ROUNDS):
        quiet.append(run_wrk(url, seconds, cores[0]).per_second)
        with stopped_engine(site):
            cast_votes(site.database, CHANGES_PER_S * seconds)
            position = site.position()
        before = processes.cpu_seconds([engine])
        saturated.append(run_wrk(url, seconds, cores[0]).per_second)
        shares.append((processes.cpu_seconds([engine]) - before) / seconds)
        if site.has_reached(position):
            raise SideError("the engine was done before the turn was: it was not saturated")
        site.wait_for(position)
    ratios = [busy / idle for busy, idle in zip(saturated, quiet, strict=True)]
    detail = (
        f"{number(Measurement.of(saturated).median)}/s against {number(Measurement.of(quiet).median)}/s;"
        f" the engine had {Measurement.of(shares).median:.0%} of the other core, beside the database"
    )
    return [Figure(BENCH, "reads under a saturated engine / quiet", Measurement.of(ratios), "x", 0.8, detail=detail)]
