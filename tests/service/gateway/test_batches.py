"""Batches through a gateway: parts of several shards, one version, or a refusal."""

import json
from dataclasses import replace
from typing import Any

import httpx
import pytest

from dataflow.engine.effects import LeafFill, LeafFillAll
from dataflow.milestones import BYTES as MILESTONE
from dataflow.types import ViewId
from service.gateway.homes import home_of
from service.ground.version import parse_version, version_text
from service.leaf_store.catalog import ELSEWHERE
from service.sharding.homes import homes_among
from tests.service.gateway.conftest import Run, Site
from tests.service.gateway.test_reads import id_at
from tests.service.leaf_store.sample_views import STORY, make_view
from tests.service.worker.conftest import STORY_ID
from tests.service.worker.shards.conftest import WHOLE, WHOLE_IDS

AT = [id_at(0), id_at(1)]


async def batch(site: Site, *ids: Any, **headers: str) -> httpx.Response:
    return await site.http.post("/v1/views/story/query", json={"keys": [{"id": n} for n in ids]}, headers=headers)


def titles(response: httpx.Response) -> list[str]:
    assert response.status_code == 200, response.text
    return [row["title"] for result in response.json()["results"] for row in result["rows"]]


def story(site: Site, shard: int, number: int, title: str) -> None:
    """A change of a story, at one shard."""
    row = (str(number), title, "ann", "3")
    site.engines[shard].rows["story", (str(number),)] = [row]
    site.engines[shard].commit(LeafFill(STORY_ID, (str(number),), [row]))


def outcomes(site: Site) -> dict[str, int]:
    return dict(site.gateway.counters.outcomes)


def test_parts_are_put_together_at_one_version(run: Run) -> None:
    async def test(site: Site) -> None:
        cold = await batch(site, AT[1], AT[0], AT[1])
        assert titles(cold) == [f"Title {n}" for n in (AT[1], AT[0], AT[1])]
        assert "miss" in cold.headers["cache-status"]
        older = site.engines[0].position = max(engine.position for engine in site.engines) + 800
        site.engines[1].position = older
        story(site, 0, AT[0], "new")
        story(site, 1, AT[1], "newer")
        for _ in range(5):
            site.engines[1].commit()
        warm = await batch(site, AT[0], AT[1])
        assert titles(warm) == ["new", "newer"]
        assert warm.json()["version"] == warm.headers["upquery-version"] == version_text(older + 8)
        assert "hit" in warm.headers["cache-status"]
        assert warm.headers["cache-control"] == "no-cache"
        assert outcomes(site).keys() <= {"met", "met_again"}

    run(test)


def test_reads_of_several_views_are_put_together(run: Run) -> None:
    async def test(site: Site) -> None:
        reads = [{"view": "story", "params": {"id": n}} for n in AT] + [{"view": name} for name in WHOLE]
        for _ in range(2):
            answer = await site.http.post("/v1/read", json={"reads": reads})
            assert titles(answer) == [f"Title {n}" for n in AT] + ["of 0", "of 1"]

    run(test)


def test_what_one_shard_keeps_is_passed_on(run: Run) -> None:
    async def test(site: Site) -> None:
        assert titles(await batch(site, AT[1], AT[1])) == [f"Title {AT[1]}"] * 2
        assert outcomes(site) == {"one_part": 1}
        assert site.gateway.counters.requests == {1: 1}

    run(test)


def test_who_is_behind_is_asked_again(run: Run) -> None:
    async def test(site: Site) -> None:
        await batch(site, *AT)
        site.engines[1].position += 800
        story(site, 1, AT[1], "ahead")
        answer = await batch(site, *AT)
        assert titles(answer) == [f"Title {AT[0]}", "ahead"]
        assert answer.json()["version"] == version_text(site.engines[1].position)
        assert site.engines[0].reaching == 1
        assert outcomes(site)["met_again"] >= 1

    run(test)


def test_one_shard_answers_all_if_another_stays_behind(run: Run) -> None:
    async def test(site: Site) -> None:
        await batch(site, *AT)
        more = id_at(1, after=AT[1])
        site.engines[1].rows["story", (str(AT[0]),)] = [(str(AT[0]), "filled there", "ann", "3")]
        site.engines[1].position += 8000
        story(site, 1, AT[1], "ahead")
        await site.pods[0][0].server.close()
        assert titles(await batch(site, AT[0], AT[1], more)) == ["filled there", "ahead", f"Title {more}"]
        assert outcomes(site)["one_shard"] == 1

    run(test)


def test_views_that_different_shards_keep_whole_may_be_refused(run: Run) -> None:
    async def test(site: Site) -> None:
        body = {"reads": [{"view": name} for name in WHOLE]}
        assert titles(await site.http.post("/v1/read", json=body)) == ["of 0", "of 1"]
        site.engines[1].position += 800
        site.engines[1].commit(LeafFillAll(WHOLE_IDS[1], {(): [("1", "ahead", "ann", "3")]}))
        await site.pods[0][0].server.close()
        refused = await site.http.post("/v1/read", json=body)
        assert (refused.status_code, refused.json()["code"]) == (503, "versions_apart")
        assert outcomes(site)["apart"] == 1

    run(test)


def test_positions_of_different_servers_do_not_meet(run: Run) -> None:
    async def test(site: Site) -> None:
        await batch(site, *AT)
        site.engines[1].writer.set_epoch("continuity@another server")
        site.engines[1].commit()
        assert titles(await batch(site, *AT)) == [f"Title {n}" for n in AT]
        assert outcomes(site)["one_shard"] == 1

    run(test)


def test_two_definitions_of_a_view_do_not_meet(run: Run) -> None:
    """Shards have different definitions while a view is replaced at one after the other."""

    async def test(site: Site) -> None:
        await batch(site, *AT)
        for engine in site.engines:
            engine.writer.register(STORY_ID, replace(STORY, sql="SELECT … /* it has been replaced */"))
            rows = [(str(key), "replaced", "ann", "3") for key in AT]
            engine.rows |= {("story", row[:1]): [row] for row in rows}
            engine.commit(*[LeafFill(STORY_ID, row[:1], [row]) for row in rows])
            assert titles(await batch(site, *AT)) == ["replaced"] * 2
            assert outcomes(site).get("one_shard", 0) == 1

    run(test)


def test_what_is_not_of_a_part_is_not_what_its_shard_keeps_no_key_of(run: Run) -> None:
    async def test(site: Site) -> None:
        # Where the rule for keys sends its one key, too: that it is kept whole has not been found out.
        name = next(
            name for n in range(100) if homes_among(2).of_view(name := f"whole{n}x") == 1 == home_of(2, name, {})
        )
        for number, engine in enumerate(site.engines):
            engine.writer.register(ViewId(103), make_view(name, {}), status="ready" if number else ELSEWHERE)
            engine.commit()
        site.engines[1].commit(LeafFillAll(ViewId(103), {(): [("1", "whole", "ann", "3")]}))
        await batch(site, *AT)
        site.engines[1].writer.set_epoch("continuity@another server")
        site.engines[1].commit()
        reads = [{"view": "story", "params": {"id": n}} for n in (AT[0], id_at(0, after=AT[0]))] + [{"view": name}]
        assert titles(await site.http.post("/v1/read", json={"reads": reads}))[-1] == "whole"
        # Stories are still where they are.
        before = dict(site.gateway.counters.requests)
        for n in AT:
            await site.http.get(f"/v1/views/story?id={n}")
        assert dict(site.gateway.counters.requests) == {shard: asked + 1 for shard, asked in before.items()}

    run(test)


def test_a_minimum_version_holds_for_all_parts(run: Run) -> None:
    async def test(site: Site) -> None:
        await batch(site, *AT)
        wanted = max(engine.position for engine in site.engines) + 80
        answer = await batch(site, *AT, **{"upquery-min-version": version_text(wanted)})
        assert titles(answer) == [f"Title {n}" for n in AT]
        assert [engine.position >= wanted for engine in site.engines] == [True, True]
        refused = await batch(site, *AT, **{"upquery-min-version": "yesterday"})
        assert (refused.status_code, refused.json()["code"]) == (400, "bad_request")

    run(test)


def test_a_minimum_version_is_not_met_by_a_milestone_before_it(run: Run) -> None:
    """Both answers are exact before the minimum, and not at one position after it."""

    async def test(site: Site) -> None:
        await batch(site, *AT)
        base = (max(engine.position for engine in site.engines) // MILESTONE + 2) * MILESTONE
        for engine, more in zip(site.engines, (800, 808), strict=True):
            # Several transactions at once, since the milestone.
            engine.writer.commit([], base + more, 0, together=True)
            engine.position = base + more
        assert (await batch(site, *AT)).json()["version"] == version_text(base)
        wanted = version_text(base + 400)
        answer = await batch(site, *AT, **{"upquery-min-version": wanted})
        assert titles(answer) == [f"Title {n}" for n in AT]
        assert parse_version(answer.json()["version"]) >= base + 400

    run(test)


@pytest.mark.parametrize(
    ("content", "status", "code"),
    [
        (b"", 422, "invalid_request"),
        (b"[1]", 422, "invalid_request"),
        (b'{"keys":7}', 422, "invalid_request"),
        (b'{"keys":[7]}', 422, "invalid_request"),
        (b'{"keys":[{"id":' + b"[" * 1020 + b"]" * 1020 + b"}]}", 400, "bad_request"),
        (json.dumps({"keys": [{"id": n} for n in range(60)]}).encode(), 413, "too_large"),
        (json.dumps({"keys": [{"id": AT[0]}, {"id": "x", "more": AT[1]}]}).encode(), 422, "parameter_unknown"),
    ],
    ids=["nothing", "a list", "no keys", "a number", "too deep", "too many", "an unknown parameter"],
)
def test_a_refusal_is_the_pod_s(run: Run, content: bytes, status: int, code: str) -> None:
    async def test(site: Site) -> None:
        headers = {"content-type": "application/json"}
        answer = await site.http.post("/v1/views/story/query", content=content, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (status, code)

    run(test)


def kept_whole(site: Site, number: int) -> list[str]:
    """Names of so many views more, each kept whole by the shard that the rule says, and looked for at another first."""
    shards = len(site.engines)
    homes = homes_among(shards)
    names = [name for n in range(1000) if homes.of_view(name := f"dash{n}") != home_of(shards, name, {})][:number]
    for shard, engine in enumerate(site.engines):
        fills = []
        for view, name in enumerate(names, 200):
            is_here = homes.of_view(name) == shard
            engine.writer.register(ViewId(view), make_view(name, {}), status="ready" if is_here else ELSEWHERE)
            fills += [LeafFillAll(ViewId(view), {(): [("1", name, "ann", "3")]})] if is_here else []
        engine.commit(*fills)
    return names


def test_many_views_that_are_kept_whole_are_found_for_one_request(run: Run) -> None:
    async def test(site: Site) -> None:
        names = kept_whole(site, 24)
        answer = await site.http.post("/v1/read", json={"reads": [{"view": name} for name in names]})
        assert titles(answer) == names

    run(test)


def test_what_was_found_is_remembered_if_there_is_no_answer(run: Run) -> None:
    async def test(site: Site) -> None:
        names = kept_whole(site, 6)
        body = {"reads": [{"view": name} for name in names]}
        await site.pods[0][0].server.close()
        site.engines[1].position += 800
        changed = [ViewId(view) for view, name in enumerate(names, 200) if homes_among(2).of_view(name) == 1]
        site.engines[1].commit(*[LeafFillAll(view, {(): [("1", "ahead", "ann", "3")]}) for view in changed])
        asked = []
        for _ in range(2):
            refused = await site.http.post("/v1/read", json=body)
            assert (refused.status_code, refused.json()["code"]) == (503, "versions_apart")
            asked.append(sum(site.gateway.counters.requests.values()))
        assert asked[1] - asked[0] < asked[0]

    run(test)


def test_a_view_that_is_not_there_is_said_to_be_so(run: Run) -> None:
    async def test(site: Site) -> None:
        reads = [{"view": "stori", "params": {"id": n}} for n in range(8)]
        answer = await site.http.post("/v1/read", json={"reads": reads})
        assert (answer.status_code, answer.json()["code"]) == (404, "view_not_found")

    run(test)


def test_numbers_arrive_as_they_are(run: Run) -> None:
    async def test(site: Site) -> None:
        for value in (12345678901234567890123, 7.25):
            keys = [{"id": AT[0]}, {"id": value}, {"id": AT[1]}]
            answer = await site.http.post("/v1/views/story/query", json={"keys": keys})
            async with httpx.AsyncClient() as direct:
                url = site.pods[0][0].address + "/v1/views/story/query"
                own = await direct.post(url, json={"keys": keys})
            assert (answer.status_code, answer.json()["detail"]) == (own.status_code, own.json()["detail"])
            assert str(value) in answer.json()["detail"]

    run(test)


def test_a_pod_that_goes_is_replaced_by_its_replica(run: Run) -> None:
    async def test(site: Site) -> None:
        assert titles(await batch(site, *AT)) == [f"Title {n}" for n in AT]
        await site.pods[1][0].served.stop()
        assert titles(await batch(site, *AT)) == [f"Title {n}" for n in AT]
        await site.pods[1][1].served.stop()
        refused = await batch(site, *AT)
        assert (refused.status_code, refused.json()["code"]) == (503, "engine_unavailable")

    run(test, 2, 2)


def test_fast_changes_of_all_shards_never_mix(run: Run) -> None:
    """Each shard has all of a row's history at positions that the others know; whatever comes is of one version."""

    async def test(site: Site) -> None:
        base = max(engine.position for engine in site.engines) + 800
        alone = 0
        for n in range(60):
            for shard in (0, 1) if n % 3 else (1,):
                engine = site.engines[shard]
                engine.position = base + 16 * n - 8 * 1
                story(site, shard, AT[shard], f"at {n}")
            answer = await batch(site, *AT)
            if outcomes(site).get("one_shard", 0) > alone:
                # They did not meet in time, on a busy machine. These shards do not know of each other's rows.
                alone += 1
                continue
            one, other = titles(answer)
            position = int(answer.json()["version"].rpartition("/")[2], 16)
            expected = (position - base) // 16
            assert other == f"at {expected}"
            assert one == f"at {expected if expected % 3 else expected - 1}" or expected == 0
        assert alone < 30

    run(test)
