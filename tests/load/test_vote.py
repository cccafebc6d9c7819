"""The vote workload: what its visits ask for."""

from collections import Counter
from random import Random

import orjson

from load.driver.visit import READS, WRITES, HttpCall, get
from load.workloads.vote import VIEW, VoteSpec, VoteWorkload
from load.workloads.zipf import Zipf


def visited(workload: VoteWorkload, visits: int) -> list[tuple[str, HttpCall]]:
    """Pages and their only calls."""
    random = Random(1)
    made = []
    for _ in range(visits):
        page, visit = workload.visit(random)
        (call,) = next(visit)
        made.append((page, call))
    return made


def test_a_read_is_the_request_that_everybody_makes() -> None:
    ((page, call),) = visited(VoteSpec(1, read_share=1.0).start(0, 1), 1)
    assert (page, call) == ("read", get(VIEW, {"id": 1}))


def test_reads_and_votes_come_in_their_shares() -> None:
    calls = visited(VoteSpec(1000, read_share=0.9).start(0, 1), 5000)
    pages = Counter(page for page, _ in calls)
    assert 400 < pages["vote"] < 600
    assert all(call.server == (WRITES if page == "vote" else READS) for page, call in calls)


def test_a_batch_is_one_request_of_several_keys() -> None:
    ((_, call),) = visited(VoteSpec(1000, read_share=1.0, batch=5).start(0, 1), 1)
    keys = body(call)["keys"]
    assert len(keys) == 5
    assert all(1 <= key["id"] <= 1000 for key in keys)


def test_the_working_set_moves_on() -> None:
    spec = VoteSpec(100_000, alpha=8.0, read_share=1.0, shift_every=20)
    # With that skew the most popular is nearly all; two processes share the visits.
    stories = [call.request for _, call in visited(spec.start(0, 2), 25)]
    zipf = Zipf(100_000, 8.0)
    for number, shift in ((3, 0), (15, 1), (23, 2)):
        assert (
            Counter(stories[number - 3 : number + 2]).most_common(1)[0][0]
            == get(VIEW, {"id": zipf.id_of(1, shift)}).request
        )


def body(call: HttpCall) -> dict[str, object]:
    """Return the body of a POST."""
    document: dict[str, object] = orjson.loads(call.request.partition(b"\r\n\r\n")[2])
    return document
