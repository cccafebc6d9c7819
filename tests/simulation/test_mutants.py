"""Breaking any of the engine's rules is caught."""

import pytest

from tests.simulation.mutants import MUTANTS, Mutant
from tests.simulation.runs import first_failure, replay

#: Runs that a mutant may survive; most are caught by one of the first ten.
SEEDS = 200
ACTIONS = 800
#: What a mutant raises that no longer fits the engine; such a one proves nothing.
MISTAKES = ("AttributeError", "NameError", "TypeError")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.__name__)
def test_a_broken_rule_is_caught(mutant: Mutant) -> None:
    with mutant():
        caught = first_failure(range(SEEDS), ACTIONS, MUTANTS[mutant])
    assert caught is not None, f"{mutant.__name__} survived {SEEDS} runs"
    assert not caught.kind.startswith(MISTAKES), f"{mutant.__name__} does not work any more: {caught.failure}"
    assert replay(caught.configuration, caught.actions).failure is None, "what was caught is not the mutant"
