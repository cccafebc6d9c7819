"""A workload model on a running engine: pinned, filled, kept over restarts, refused if it is none of this service's."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from service.engine.session.runtime import Runtime
from service.ground.errors import ApiError
from service.protocol.workload import AppliedState, WorkloadModel
from tests.fixtures.postgres import Database
from tests.service.engine.running import running, until

pytestmark = pytest.mark.postgres

VIEWS = {
    "story": "SELECT id, title FROM stories WHERE id = :id",
    "stories": "SELECT id, title FROM stories WHERE id IN (:ids)",
}


@pytest.fixture(autouse=True)
def _stories(database: Database) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 500) i",
    )


def model_of(**views: Any) -> WorkloadModel:
    return WorkloadModel(kind="upquery workload model", format=2, views=views)


def keys(runtime: Runtime, name: str) -> set[Any]:
    return {key for (key,) in _leaf(runtime, name).coverage.keys}


def pins(runtime: Runtime, name: str) -> set[Any]:
    return {key for (key,) in _leaf(runtime, name).pins}


def _leaf(runtime: Runtime, name: str) -> Any:
    installed = runtime.registry.views[name].installed
    assert installed is not None
    assert runtime.dispatcher.engine is not None
    return runtime.dispatcher.engine.graph.leaves[installed.id]


def state(runtime: Runtime, name: str) -> AppliedState:
    (found,) = [view for view in runtime.workload.state().views if view.view == name]
    return found


def test_keys_are_pinned_and_filled_and_so_again_after_a_restart(database: Database, tmp_path: Path) -> None:
    hot = [[str(n)] for n in range(1, 101)]
    model = model_of(
        story={"prewarm": hot, "pin": [["7"], ["08"], ["x"]], "budget_bytes": 1000}, stories={"pin": [['["3","4"]']]}
    )

    async def applied() -> None:
        async with running(database, tmp_path, views=VIEWS) as runtime:
            assert not runtime.workload.state().applied
            runtime.workload.put(model)
            await check(runtime)
            # What is pinned outlives what forgets all that it may.
            await runtime.budget.free(1 << 40)
            assert keys(runtime, "story") == {"7", "8"}
            # Another model takes the place of this one, with its pins.
            runtime.workload.put(model_of(story={"pin": [["9"]]}))
            assert pins(runtime, "story") == {"9"}
            assert pins(runtime, "stories") == set()
            runtime.workload.put(model)

    async def check(runtime: Runtime) -> None:
        await until(lambda: len(keys(runtime, "story")) == 100, 60)
        await until(lambda: keys(runtime, "stories") == {"3", "4"}, 60)
        assert pins(runtime, "story") == {"7", "8"}
        assert (state(runtime, "story").pinned, state(runtime, "story").refused) == (2, 1)

    async def restarted() -> None:
        async with running(database, tmp_path, views=VIEWS) as runtime:
            await until(lambda: runtime.workload.state().views and state(runtime, "story").pinned, 60)
            await check(runtime)
            runtime.workload.drop()
            assert pins(runtime, "story") == set()

    async def again() -> None:
        async with running(database, tmp_path, views=VIEWS) as runtime:
            assert not runtime.workload.state().applied

    for scenario in (applied, restarted, again):
        asyncio.run(scenario())


def test_a_model_of_another_service_changes_nothing(database: Database, tmp_path: Path) -> None:
    async def scenario() -> None:
        async with running(database, tmp_path, views=VIEWS) as runtime:
            runtime.workload.put(model_of(story={"pin": [["1"]]}))
            with pytest.raises(ApiError, match="view_not_found"):
                runtime.workload.put(model_of(story={}, nothing={}))
            assert pins(runtime, "story") == {"1"}

    asyncio.run(scenario())


def test_a_file_that_is_no_model_is_left_alone(database: Database, tmp_path: Path) -> None:
    (tmp_path / "state").mkdir()
    (tmp_path / "state" / "workload.json").write_text('{"kind": "upquery workload model", "format": 3}')

    async def scenario() -> None:
        async with running(database, tmp_path, views=VIEWS) as runtime:
            assert not runtime.workload.state().applied

    asyncio.run(scenario())
    assert (tmp_path / "state" / "workload.json").exists()


@pytest.mark.parametrize(
    "document",
    [
        {"kind": "something", "format": 2, "views": {}},
        {"kind": "upquery workload model", "format": 3, "views": {}},
        {"kind": "upquery workload model", "format": 2},
        {"kind": "upquery workload model", "format": 2, "views": {"v": {"pin": [[1]]}}},
        {"kind": "upquery workload model", "format": 2, "views": {"v": {"pin": [["1"]] * 1001}}},
    ],
)
def test_documents_that_are_refused(document: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        WorkloadModel(**document)
