"""A model of a workload, and its file of JSON.

*Invariants*: a file of another format is refused, never guessed at. Keys are texts of all parameters of a view, in the
order of the access log.

Not here: its construction (`assemble`), the page (`page`), its use in the service (`service.engine.workload`).
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from dataflow.spark.problems import SparkProblem

FORMAT = 2
KIND = "upquery workload model"
Texts = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class Skew:
    """Zipf's exponent with a 95 % interval. `keys`: how many there are, read or not. `distance`: the largest difference
    between the shares of keys that were read at most n times, counted and expected (Kolmogorov and Smirnov)."""

    alpha: float
    low: float
    high: float
    keys: float
    distance: float


@dataclass(frozen=True, slots=True)
class Point:
    """A memory budget, and the shares of reads that are hits with it: all of the log beginning with nothing in memory,
    and its second half (`warm`); the same under least recently used. `views`: warm ones of each view; `held_bytes`:
    what each view's keys take then."""

    budget_bytes: int
    share: float
    hit_rate: float
    warm_hit_rate: float
    lru_hit_rate: float
    views: dict[str, float]
    held_bytes: dict[str, int]


@dataclass(frozen=True, slots=True)
class Advice:
    """Something to do, or to know."""

    code: str
    text: str


@dataclass(frozen=True, slots=True)
class ViewModel:
    """A view. `requests` of keys; `curve`: memory for this view alone and the warm hit rate of LRU with it;
    `memory_for`: by percent, None if the log has no such share of hits in any memory; `upqueries_per_s` and the seconds
    of the upstream that they take each second, with the budget that the model is for; `budget_bytes`: what it should
    take of that."""

    requests: int
    requests_per_s: float
    keys: int
    one_hit_share: float
    outcomes: dict[str, int]
    skew: Skew | None
    key_bytes: float
    tier: str | None
    hit_rate: float
    curve: list[tuple[int, float]]
    memory_for: dict[str, int | None]
    upqueries_per_s: float
    upstream_s_per_s: float | None
    rows_applied: int | None
    rows_dropped: int | None
    deltas_per_read_saved: float | None
    budget_bytes: int
    advice: list[Advice]
    prewarm: list[Texts]
    pin: list[Texts]
    #: The hottest keys, to compare models by.
    hottest: list[Texts] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Check:
    """The sampled curve against exact simulation, at one size of memory; in shares of reads."""

    memory_bytes: int
    exact: float
    sampled: float


@dataclass(frozen=True, slots=True)
class LogModel:
    """A model. `fixed_bytes` are used whatever keys are in memory, `keys_bytes` if all keys of the log are; figures are
    for `budget_bytes`, `advised_bytes` are enough; `sampled`: numbers of simulated keys and reads."""

    lines: int
    unread_lines: int
    from_us: int
    to_us: int
    sample_rate: float
    requests_per_s: float
    fixed_bytes: int
    keys_bytes: int
    budget_bytes: int
    advised_bytes: int
    memory_for: dict[str, int | None]
    curve: list[Point]
    check: list[Check]
    sampled: dict[str, int]
    views: dict[str, ViewModel]
    unread_views: list[str]
    drift: list[Advice]
    notes: list[str]

    def hit_rate(self, budget_bytes: float) -> float:
        """Hit rate of the whole log with any budget, beginning with nothing in memory."""
        points = [(point.budget_bytes, point.hit_rate) for point in self.curve]
        before = (self.fixed_bytes, 0.0)
        for at, rate in points:
            if budget_bytes <= at:
                span = max(1.0, at - before[0])
                return before[1] + (rate - before[1]) * max(0.0, budget_bytes - before[0]) / span
            before = (at, rate)
        return before[1]

    def write(self, path: Path) -> None:
        """Write the file. Raises OSError."""
        document = {"kind": KIND, "format": FORMAT, **asdict(self)}
        path.write_text(json.dumps(document, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


def read_model(path: Path) -> LogModel:
    """A model from its file. Raises SparkProblem: it is none."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SparkProblem("model_missing", f"{path} cannot be read: {error.strerror}.") from error
    except ValueError as error:
        raise SparkProblem("model_foreign", f"{path} is no JSON: {error}.") from error
    if not isinstance(document, dict) or document.get("kind") != KIND:
        raise SparkProblem("model_foreign", f"{path} is no workload model.", "upquery workload report writes one.")
    if document.get("format") != FORMAT:
        raise SparkProblem(
            "model_format",
            f"{path} is a model of format {document.get('format')}; this version knows {FORMAT}.",
            "Create a new one: upquery workload report.",
        )
    try:
        return _model(document)
    except (KeyError, TypeError, AttributeError) as error:
        raise SparkProblem("model_foreign", f"{path} is no whole workload model: {error}.") from error


def _model(document: dict[str, Any]) -> LogModel:
    known = {f.name: document[f.name] for f in fields(LogModel)}
    known["curve"] = [Point(**point) for point in known["curve"]]
    known["check"] = [Check(**check) for check in known["check"]]
    known["drift"] = [Advice(**advice) for advice in known["drift"]]
    known["views"] = {name: _view(view) for name, view in known["views"].items()}
    return LogModel(**known)


def _view(view: dict[str, Any]) -> ViewModel:
    skew = view["skew"]
    changed = {
        "skew": None if skew is None else Skew(**skew),
        "advice": [Advice(**advice) for advice in view["advice"]],
        "curve": [(int(size), float(rate)) for size, rate in view["curve"]],
    }
    return ViewModel(**{**view, **changed})
