"""Recorded keys are those that a visit reads, and those in the file."""

from pathlib import Path

import orjson
import pytest

from load.driver.visit import HttpReply, Visit, get, read_keys, read_many, write
from load.site import SiteView
from load.traces import vote
from load.traces.recorder import KEY_BYTES, Recorder, costs_of
from load.traces.trace import Trace, TracedKey, TraceError, read_trace, write_trace
from load.workloads.vote import VoteSpec

ROWS = [{"id": 1}, {"id": 2}]
ROWS_BYTES = len(orjson.dumps(ROWS))


def visit() -> Visit:
    """Reads in all ways, and depends on what it is told."""
    (reply,) = yield [get("story", {"id": 7})]
    found = orjson.loads(reply.body)["rows"][0]["id"]
    yield [write("vote", {"story": found}), read_keys("story", [{"id": found}, {"id": 7}])]
    yield [read_many([("by_ids", {"ids": [3, 4], "user": 5}), ("front", {})])]


def results(count: int) -> HttpReply:
    return HttpReply(200, orjson.dumps({"results": [{"rows": ROWS}] * count}), None)


def make_recorded(recorder: Recorder) -> None:
    made = recorder.recorded(visit())
    assert next(made) == [get("story", {"id": 7})]
    calls = made.send([HttpReply(200, orjson.dumps({"rows": ROWS}), True)])
    assert calls[0] == write("vote", {"story": 1})
    made.send([HttpReply(200, b'{"version": "x"}', None), results(2)])
    with pytest.raises(StopIteration):
        made.send([results(2)])


def test_a_visit_is_recorded_key_by_key() -> None:
    recorder = Recorder({"front": 3.0})
    make_recorded(recorder)
    trace = recorder.trace("a", "b")
    read = [(trace.keys[number].view, orjson.loads(trace.keys[number].key)) for number in trace.reads]
    assert read == [
        ("story", {"id": "7"}),
        ("story", {"id": "1"}),
        ("story", {"id": "7"}),
        ("by_ids", {"ids": "3", "user": "5"}),
        ("by_ids", {"ids": "4", "user": "5"}),
        ("front", {}),
    ]
    assert {key.view: key.cost for key in trace.keys} == {"story": 1.0, "by_ids": 1.0, "front": 3.0}
    assert trace.keys[-1].weight_bytes == KEY_BYTES + ROWS_BYTES
    assert trace.keys[-2].weight_bytes == KEY_BYTES + ROWS_BYTES // 2


def test_what_failed_read_nothing() -> None:
    recorder = Recorder()
    made = recorder.recorded(iter_one())
    next(made)
    with pytest.raises(StopIteration):
        made.send([HttpReply(503, b"{}", None)])
    assert len(recorder) == 0


def iter_one() -> Visit:
    yield [get("story", {"id": 7})]


def test_a_key_costs_its_tables() -> None:
    joined = SiteView("both", "SELECT 1 FROM a join b ON true LEFT JOIN c ON true", {})
    assert costs_of([joined, SiteView("one", "SELECT 1 FROM a", {})]) == {"both": 3.0, "one": 1.0}


def some_trace() -> Trace:
    return vote.steady(VoteSpec(500), 25_000, 1)


def test_a_file_has_the_trace(tmp_path: Path) -> None:
    trace = some_trace()
    write_trace(trace, tmp_path / "a.gz")
    again = read_trace(tmp_path / "a.gz")
    assert (again.name, again.about, list(again.reads)) == (trace.name, trace.about, list(trace.reads))
    assert list(again.keys) == list(trace.keys)
    assert isinstance(again.keys[0], TracedKey)


@pytest.mark.parametrize("kept", [0, 10, 2000, -10])
def test_half_a_file_is_no_trace(tmp_path: Path, kept: int) -> None:
    path = tmp_path / "a.gz"
    write_trace(some_trace(), path)
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(TraceError):
        read_trace(path)


def test_the_same_seed_makes_the_same_trace() -> None:
    first, again, other = (vote.steady(VoteSpec(500), 1000, seed) for seed in (1, 1, 2))
    assert (first.reads, first.keys) == (again.reads, again.keys)
    assert first.reads != other.reads


def test_a_scan_reads_each_story_once() -> None:
    spec = VoteSpec(50_000)
    extra = len(vote.scanned(spec, 9000, 1).keys) - len(vote.steady(spec, 9000, 1).keys)
    assert 500 < extra < 1500


def test_a_shifting_working_set_leaves_old_stories_behind() -> None:
    trace = vote.shifting(VoteSpec(5000, alpha=1.4, shift_every=5), 20_000, 1)
    early, late = set(trace.reads[:2000]), set(trace.reads[-2000:])
    steady = vote.steady(VoteSpec(5000, alpha=1.4), 20_000, 1)
    assert len(early & late) < 0.5 * len(set(steady.reads[:2000]) & set(steady.reads[-2000:]))
