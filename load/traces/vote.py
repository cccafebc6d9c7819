"""Traces of the vote workload. They need no side: a visit does not depend on the replies."""

from contextlib import suppress
from itertools import count
from random import Random

import orjson

from load.driver.visit import HttpReply, Visit, get
from load.traces.recorder import Recorder, costs_of
from load.traces.trace import Trace
from load.workloads.vote import SITE, VIEW, VoteSpec

#: An answer of one story.
_ANSWER = HttpReply(200, orjson.dumps({"rows": [{"id": 1, "author": 1, "title": "t" * 30, "url": "u" * 40}]}), None)


def steady(spec: VoteSpec, reads: int, seed: int) -> Trace:
    return _trace("vote", spec, reads, seed, "")


def shifting(spec: VoteSpec, reads: int, seed: int) -> Trace:
    """New stories become popular all the time, as `spec.shift_every` says."""
    return _trace("vote, shifting", spec, reads, seed, f", a new most popular story each {spec.shift_every} visits")


def scanned(spec: VoteSpec, reads: int, seed: int) -> Trace:
    """While people read, something reads every story once, in order: every other read in the middle third."""
    return _trace("vote, scanned", spec, reads, seed, ", every other read of the middle third a scan's", scan=True)


def _trace(name: str, spec: VoteSpec, reads: int, seed: int, how: str, *, scan: bool = False) -> Trace:
    recorder = Recorder(costs_of(SITE.views))
    random, workload, scanner = Random(seed), spec.start(0, 1), count(1)
    while len(recorder) < reads:
        _, visit = workload.visit(random)
        _run(recorder.recorded(visit))
        if scan and reads <= 3 * len(recorder) < 2 * reads:
            _run(recorder.recorded(_read(next(scanner) % spec.stories + 1)))
    about = f"{spec.stories:,} stories, alpha {spec.alpha}, {spec.read_share:.0%} reads{how}; seed {seed}"
    return recorder.trace(name, about)


def _run(visit: Visit) -> None:
    with suppress(StopIteration):
        calls = next(visit)
        while True:
            calls = visit.send([_ANSWER] * len(calls))


def _read(story: int) -> Visit:
    yield (get(VIEW, {"id": story}),)
