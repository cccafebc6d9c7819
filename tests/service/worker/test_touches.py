"""The sample of what is read: which keys, how many hits of each, and never too many."""

from collections import Counter
from random import Random

from dataflow.types import Key, ViewId
from service.worker.reads.touches import Touches
from service.worker.routes.hot import HotRoute
from tests.service.worker.conftest import AUTHOR_ID, LIST_ID, RANGE_ID, REFRESH_ID, STORY_ID, TOP_ID, Run, Service


def taken(service: Service) -> Counter[tuple[ViewId, Key]]:
    app: HotRoute = service.http._transport.app  # type: ignore[attr-defined]
    touches: Counter[tuple[ViewId, Key]] = Counter()
    for view, key, times in app.take_touches():
        touches[view, key] += times
    return touches


def test_hits_of_both_routes_are_noted_and_misses_are_not(run: Run) -> None:
    async def test(service: Service) -> None:
        await service.http.get("/v1/views/story?id=7")
        assert not taken(service)
        for query in ("7", "07", "7"):
            await service.http.get(f"/v1/views/story?id={query}")
        await service.http.get("/v1/views/story?id=7", headers={"Upquery-Min-Version": "0/0"})
        assert taken(service) == {(STORY_ID, ("7",)): 4}
        assert not taken(service)

    run(test)


def test_every_kind_of_read_says_its_keys(run: Run) -> None:
    async def test(service: Service) -> None:
        paths = {
            "top": [(TOP_ID, ())],
            "stories_of?author=ann": [(AUTHOR_ID, ("ann",))],
            "stories_of?author=ann&limit=2": [(AUTHOR_ID, ("ann",))],
            "between?author=ann&least=1&below=3": [(RANGE_ID, ("ann",))],
            "of_authors?authors=ann&authors=bob": [(LIST_ID, ("ann",)), (LIST_ID, ("bob",))],
            "refreshed?authors=b&authors=a&authors=b&votes:null": [(REFRESH_ID, ("{b,a,b}", None))],
        }
        for path in paths:
            await service.http.get(f"/v1/views/{path}")
            taken(service)
        for path, keys in paths.items():
            for _ in range(2):
                assert (await service.http.get(f"/v1/views/{path}")).headers["cache-status"] == "upquery; hit"
            assert taken(service) == dict.fromkeys(keys, 2)

    run(test)


def test_key_whose_entry_is_a_hash(run: Run) -> None:
    async def test(service: Service) -> None:
        long = "a" * 300
        for _ in range(3):
            await service.http.get(f"/v1/views/stories_of?author={long}")
        assert taken(service) == {(AUTHOR_ID, (long,)): 2}

    run(test)


def test_keys_that_are_too_large_to_be_held_are_not_kept_here_either(run: Run) -> None:
    async def test(service: Service) -> None:
        info = service.engine.writer.info(AUTHOR_ID)
        touches = Touches()
        touches.note_read(info, ("a" * 4096,))
        touches.note_read(info, ("a" * 4097,))
        assert touches.take() == [((AUTHOR_ID, ("a" * 4096,)), 1)]

    run(test)


def test_keys_of_a_batch(run: Run) -> None:
    async def test(service: Service) -> None:
        body = {"keys": [{"id": 7}, {"id": 8}, {"id": 7}]}
        for _ in range(2):
            await service.http.post("/v1/views/story/query", json=body)
        assert taken(service) == {(STORY_ID, ("7",)): 2, (STORY_ID, ("8",)): 1}

    run(test)


def name(n: int) -> bytes:
    return b"v\0\0\0\1\0%d\0" % n


def test_few_hits_are_all_counted() -> None:
    touches = Touches(most=10)
    for n in (1, 2, 1):
        touches.note(name(n))
    touches.note_all([name(n) for n in (2, 3, 2)])
    assert dict(touches.take()) == {name(1): 2, name(2): 3, name(3): 1}
    assert touches.take() == []


def test_many_hits_are_a_bounded_sample_of_all_of_them() -> None:
    """However fast they come and whichever way: each key has about its share, whenever in the period it was read."""
    touches = Touches(most=1000, random=Random(7))
    counted: Counter[int] = Counter()
    total = 0
    for period in range(40):
        for turn in range(2000):
            # Four keys in turns, as pages read, then a batch; key 4 only late in the period.
            touches.note(name(turn % 4))
            touches.note_all([name(4 if turn > 1000 else 5)] * 4)
        items = touches.take()
        assert sum(times for _, times in items) <= 1000
        if period:
            total += sum(times for _, times in items)
            counted.update({int(key[6:-1]): times for key, times in items if isinstance(key, bytes)})
    assert total > 39 * 500
    expected = {0: 0.05, 1: 0.05, 2: 0.05, 3: 0.05, 4: 0.4, 5: 0.4}
    assert {n: round(counted[n] / total, 1) for n in (4, 5)} == {4: 0.4, 5: 0.4}
    assert all(abs(counted[n] / total - share) < 0.01 for n, share in expected.items())


def test_a_quiet_period_is_counted_whole_again() -> None:
    touches = Touches(most=100, random=Random(7))
    for n in range(10_000):
        touches.note(name(n))
    for _ in range(8):
        touches.take()
    touches.note(name(1))
    assert touches.take() == [(name(1), 1)]
