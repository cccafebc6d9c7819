"""The engine in the simulated world: 200,000 steps, in parts so that they run side by side, other ones each day."""

import os
from collections import Counter
from collections.abc import Callable

import pytest

from tests.fixtures.seeds import day_seed
from tests.simulation.runs import PROOFS, REGRESSIONS, explain, load_regression, minimise, replay, run_steps

#: `make check` takes fewer.
STEPS = int(os.environ.get("SIM_STEPS", "200000"))
PART_STEPS = 25_000
#: Steps of one part at most. It goes on until all that must happen has happened, the rarest in one run of twenty.
MOST_STEPS = 200_000


@pytest.mark.parametrize("part", range(STEPS // PART_STEPS))
def test_every_covered_key_is_exact_after_every_step(part: int, record_property: Callable[[str, object], None]) -> None:
    counters: Counter[str] = Counter()
    steps = 0
    for verdict in run_steps(first_seed=day_seed(f"simulation, part {part}"), steps=MOST_STEPS):
        assert verdict.failure is None, explain(minimise(verdict))
        counters += verdict.counters
        steps += verdict.steps
        if steps >= PART_STEPS and all(counters[name] for name in PROOFS):
            break
    assert steps >= PART_STEPS
    record_property("simulation", {"steps": steps, **counters})
    assert not [name for name in PROOFS if not counters[name]], f"what did not happen in {steps} steps: {counters}"


@pytest.mark.parametrize("name", sorted(path.stem for path in REGRESSIONS.glob("*.json")))
def test_what_failed_once_does_not_again(name: str) -> None:
    configuration, actions = load_regression(REGRESSIONS / f"{name}.json")
    verdict = replay(configuration, actions)
    assert verdict.failure is None, explain(verdict)
