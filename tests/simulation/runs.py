"""Seeds into runs, runs into verdicts, failing runs into small ones.

Each seed draws its own mix (swarm testing): which foreign keys are enforced, which views, how often each thing
happens, which limits are tight. A mix that leaves something out altogether reaches states that an even one does not.
"""

import json
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

from load.micro.policies import DEFAULT, POLICIES
from tests.simulation.configuration import Configuration
from tests.simulation.identities import BY_IDENTITY, CHOICES, any_identities
from tests.simulation.ordered_views import ORDERED_VIEWS
from tests.simulation.refreshed_views import EARLY_REFRESHED, LATE_REFRESHED, REFRESHED
from tests.simulation.simulation import Simulation
from tests.simulation.views import LATE_VIEWS, SHAPES, VIEWS
from tests.simulation.waiting import drain

Action = tuple[str, int]

#: How often each action is taken in an average run.
WEIGHTS = {
    "write": 10,
    "transaction": 8,
    "commit": 6,
    "overflow": 0.3,
    "roll_back": 1,
    "truncate": 0.5,
    "reveal": 7,
    "noise": 1,
    "execute": 22,
    "execute_forward": 4,
    "apply": 20,
    "advance": 5,
    "heartbeat": 4,
    "join_table": 0,
    "install": 1.5,
    "drop": 0.6,
    "read": 22,
    "cancel": 1,
    "deliver": 22,
    "fail": 1,
    "break": 0.05,
    "change_schema": 0.05,
    "forward_done": 4,
    "pin": 1.5,
    "unpin": 1,
    "evict_key": 3,
    "evict_inner": 5,
    "evict_some": 2,
    "touch": 8,
    "restart": 0.15,
    "rejoin": 0.15,
    "crash": 0.1,
    "work": 20,
}
#: Limits that are tight in some runs.
MEMORY_LIMITS = {"key_bytes": (1, 2), "evict_bytes": (1, 2000), "hot_refills": (0, 1)}
#: What every run needs.
ALWAYS = frozenset({"transaction", "apply", "execute", "deliver", "read", "execute_forward", "forward_done"})
#: Actions in one run: long enough for everything to have happened, short enough for many mixes.
ACTIONS = 1200
#: Kinds of upstreams, as often as they are taken.
UPSTREAMS = ("postgres", "postgres", "mariadb", "mysql", "mysql_unordered")
#: What must have happened in any 10,000 steps, by the engine's own count.
PROOFS = (
    "redo",
    "partial_changes",
    "partial_evicted",
    "partial_refilled",
    "implied_changes",
    "identity_found",
    "forward_hole",
    "walks_continued",
    "walks_restarted",
    "padding",
    "refill",
    "ring_trimmed",
    "subsumed",
    "repeated",
    "overflow",
    "cascade",
    "abandoned",
    "pinned_refilled",
    "answered",
    "answered_forward",
    "answered_mixed",
    "answered_once",
    "refresh_stored",
    "stale",
    "refreshed_evicted_narrowly",
    "refreshed_kept",
    "hot_refill",
    "hot_refilled",
    "evicted_some",
    "left_behind",
    "unsure",
    "replaced",
    "filled_behind",
    "loaded",
    "load_from_ring",
    "load_redo",
    "load_abandoned",
    "load_truncated",
    "derived",
    "derivation_abandoned",
    "pending_filtered",
    "pending_gone",
    "quarantined",
    "unawaited",
    "unsent",
    "refresh_unawaited",
    "resumed",
    "undone",
    "restored_keys",
    "restored_rows",
    "restored_unsupported",
    "restored_damaged",
)
REGRESSIONS = Path(__file__).parent / "regressions"


@dataclass(slots=True)
class Verdict:
    """How a run ended."""

    configuration: Configuration
    actions: list[Action]
    steps: int = 0
    counters: Counter[str] = field(default_factory=Counter)
    #: What went wrong, or None.
    failure: str | None = None
    #: The kind of failure, for minimising: another kind is another bug.
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Focus:
    """Narrows the mix to where something rare happens."""

    #: Beginnings of the names of views; none: those that are drawn.
    views: tuple[str, ...] = ()
    weights: dict[str, float] = field(default_factory=dict)
    #: Kinds of upstreams.
    upstreams: tuple[str, ...] = UPSTREAMS
    #: Views are kept whole, and that is loaded and derived in slices.
    whole: bool = False
    #: Old rows of all tables that have keys are streamed in part, and plans materialize what that needs, or do not.
    old_rows: bool | None = None
    #: All foreign keys hold and act unseen.
    cascades: bool = False

    def narrow(self, configuration: Configuration) -> None:
        """Applies it."""
        every = (*(view.name for view in (*VIEWS, *ORDERED_VIEWS)), *REFRESHED)
        if self.views:
            configuration.views = tuple(name for name in every if name.startswith(self.views))
        configuration.weights |= self.weights
        if self.whole:
            configuration.loads = configuration.whole = True
            configuration.limits["derive_rows"] = configuration.seed % 3
        if self.old_rows is not None:
            configuration.identities = {table: choices[0] for table, choices in CHOICES.items()}
            configuration.old_rows = self.old_rows
        if self.cascades:
            configuration.foreign_keys, configuration.cascades = 0b1111111111, True
        configuration.upstream = upstream_of(configuration.seed, self.upstreams)


def upstream_of(seed: int, upstreams: Sequence[str] = UPSTREAMS) -> str:
    """The kind of upstream of one seed."""
    return Random(f"upstream {seed}").choice(upstreams)


#: Weights that are drawn by themselves, so that the other choices of a seed do not depend on them: a word, the choices.
DRAWN_APART: dict[str, tuple[str, tuple[float, ...]]] = {
    "checkpoint": ("warm", (0, 0, 0, 0.2, 1)),
    "identity": ("altered", (0, 0, 0, 1, 4)),
    "resume": ("resumed", (0, 0, 0.3, 2)),
}


def configure(seed: int) -> Configuration:
    """The mix of one seed."""
    rng = Random(f"mix {seed}")
    weights = {
        name: weight * (rng.choice((0.4, 1, 1, 2)) if name in ALWAYS else rng.choice((0, 0.3, 1, 1, 1, 3)))
        for name, weight in WEIGHTS.items()
    }
    views: list[str] = []
    for shape in rng.sample(SHAPES, rng.randint(1, 4)):
        names = [view.name for view in shape.views()]
        views += rng.sample(names, min(len(names), rng.randint(1, 3)))
    if rng.random() < 0.3:
        views += [view.name for view in rng.sample(LATE_VIEWS, 2)] + [rng.choice(VIEWS).name]
        weights["join_table"] = 3
        weights["install"] = max(weights["install"], 3)
    if rng.random() < 0.3:
        views += [view.name for view in rng.sample(ORDERED_VIEWS, rng.randint(1, 4))]
    weights["install"] = max(weights["install"], 0.5)
    limits = _tight_limits(rng)
    foreign_keys = rng.choice((0, 0b1111111111, rng.getrandbits(10)))
    if rng.random() < 0.35:
        views += rng.sample(EARLY_REFRESHED, rng.randint(1, 5))
        views += LATE_REFRESHED if weights["join_table"] else ()
    odd_numbers = rng.random() < 0.25
    limits |= {name: rng.choice(values) for name, values in MEMORY_LIMITS.items() if rng.random() < 0.2}
    policy = rng.choice((DEFAULT, *POLICIES))
    faults, identities = Random(f"faults {seed}"), Random(f"identities {seed}")
    partly, planned = any_identities(identities), identities.random() < 0.7
    if partly and identities.random() < 0.5:
        views += identities.sample(BY_IDENTITY, 2)
    weights["fault"] = faults.choice((0, 0, 0.5, 3))
    for name, (word, choices) in DRAWN_APART.items():
        weights[name] = Random(f"{word} {seed}").choice(choices)
    limits["quarantine_heartbeats"] = faults.choice((1, 2, 4))
    limits["unawaited_looks"] = faults.choice((1, 1, 2))
    limits["active_tuples"] = Random(f"tuples {seed}").choice((1, 3, 1_000))
    limit_rows = rng.choice((1, 2, 3, 4)) if rng.random() < 0.3 else None
    forwards = rng.random() < 0.3
    if forwards and rng.random() < 0.5:
        limits["fills_behind"] = rng.choice((0, 1))
    loads, whole = rng.random() < 0.7, rng.random() < 0.5
    if rng.random() < 0.7:
        limits["derive_rows"] = rng.choice((0, 0, 1, 2, 3))
    return Configuration(
        seed,
        foreign_keys,
        odd_numbers,
        upstream_of(seed),
        partly,
        planned,
        Random(f"cascades {seed}").random() < 0.4,
        tuple(dict.fromkeys(views)),
        limits,
        limit_rows,
        forwards,
        loads,
        whole,
        policy,
        weights,
    )


def _tight_limits(rng: Random) -> dict[str, int]:
    limits: dict[str, int] = {}
    if rng.random() < 0.4:
        limits["lookups_of_table"] = rng.choice((1, 2, 4))
    if rng.random() < 0.3:
        limits["lookup_keys"] = rng.choice((1, 2, 3))
    if rng.random() < 0.2:
        limits["ring_rows"] = rng.choice((3, 10, 30))
    if rng.random() < 0.2:
        limits["key_rows"] = rng.choice((1, 2, 4))
    if rng.random() < 0.3:
        limits["read_rounds"] = rng.choice((1, 2, 3))
    return limits


def draw(configuration: Configuration, number: int) -> list[Action]:
    """The first actions of a seed's run."""
    rng = Random(f"actions {configuration.seed}")
    names = list(configuration.weights)
    chosen = rng.choices(names, list(configuration.weights.values()), k=number)
    actions: list[Action] = [("install", rng.getrandbits(32)) for _ in range(3)]
    return actions + [(name, rng.getrandbits(32)) for name in chosen]


def run_seed(seed: int, actions: int, focus: Focus | None = None) -> Verdict:
    """One run."""
    configuration = configure(seed)
    if focus is not None:
        focus.narrow(configuration)
    return replay(configuration, draw(configuration, actions))


def replay(configuration: Configuration, actions: Sequence[Action], trace: list[str] | None = None) -> Verdict:
    """Takes the actions, drains the world, and says how it ended."""
    verdict = Verdict(configuration, [])
    simulation: Simulation | None = None
    try:
        simulation = Simulation(configuration)
        simulation.trace = trace
        for name, number in actions:
            verdict.actions.append((name, number))
            simulation.act(name, number)
        drain(simulation)
    except Exception as error:  # whatever the engine raises is a finding
        verdict.kind, verdict.failure = kind_of(error), describe_error(error)
    if simulation is not None:
        verdict.steps, verdict.counters = simulation.steps, simulation.counters
    return verdict


def kind_of(error: Exception) -> str:
    """The error's class, and where it was raised."""
    frames = traceback.extract_tb(error.__traceback__)
    return f"{type(error).__name__} in {frames[-1].name}" if frames else type(error).__name__


def describe_error(error: Exception) -> str:
    """The error and the last places it came through."""
    places = [f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in traceback.extract_tb(error.__traceback__)[-6:]]
    return f"{type(error).__name__}: {error}\n  at " + " < ".join(reversed(places))


def minimise(verdict: Verdict, attempts: int = 3000) -> Verdict:
    """A run that fails in the same way with as few actions as can be found (ddmin, Zeller 2002)."""
    best = verdict
    size = max(1, len(best.actions) // 2)
    while attempts > 0:
        start, smaller = 0, False
        while start < len(best.actions) and attempts > 0:
            attempts -= 1
            tried = replay(best.configuration, best.actions[:start] + best.actions[start + size :])
            if tried.failure is not None and tried.kind == verdict.kind:
                best, smaller = tried, True
            else:
                start += size
        if size == 1 and not smaller:
            break
        size = max(1, size // 2)
    return best


def explain(verdict: Verdict) -> str:
    """The run's events and effects, and what was wrong at its end."""
    trace: list[str] = []
    replay(verdict.configuration, verdict.actions, trace)
    described = json.dumps({"configuration": verdict.configuration.as_json(), "actions": verdict.actions})
    return "\n".join([f"seed {verdict.configuration.seed}", *trace, str(verdict.failure), "replay:", described])


def save_regression(verdict: Verdict, name: str) -> Path:
    """Writes the run where `test_regressions` finds it."""
    path = REGRESSIONS / f"{name}.json"
    content = {"configuration": verdict.configuration.as_json(), "actions": verdict.actions}
    path.write_text(json.dumps(content, indent=1) + "\n")
    return path


def load_regression(path: Path) -> tuple[Configuration, list[Action]]:
    """A run that failed once."""
    content: dict[str, Any] = json.loads(path.read_text())
    configuration = dict(content["configuration"])
    configuration["views"] = tuple(configuration["views"])
    return Configuration(**configuration), [(name, number) for name, number in content["actions"]]


def first_failure(seeds: Iterable[int], actions: int, focus: Focus | None = None) -> Verdict | None:
    """The first run of `seeds` that fails."""
    return next((v for seed in seeds if (v := run_seed(seed, actions, focus)).failure is not None), None)


def run_steps(first_seed: int, steps: int, actions: int = ACTIONS) -> Iterator[Verdict]:
    """Runs from `first_seed` on until the engines have taken so many steps, or one fails."""
    taken = 0
    for seed in count(first_seed):
        verdict = run_seed(seed, actions)
        yield verdict
        taken += verdict.steps
        if taken >= steps or verdict.failure is not None:
            return
