"""The chart's alert rules, and when they fire over what was scraped: as much of PromQL as they use."""

import operator
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import httpx
import yaml

from tests.fixtures.service import HTTP, RunningService
from tests.tidy.sources import ROOT

_TERM = re.compile(
    r"(?:(?P<function>\w+)\()?(?P<metric>\w+)(?:\[(?P<range>\w+)\]\))? (?P<operator>[=><]+) (?P<number>[\d.]+)"
)
_SERIES = re.compile(r"(?P<metric>\w+)(?P<labels>\{[^}]*\})? (?P<value>\S+)")
_OPERATORS: dict[str, Callable[[float, float], bool]] = {"==": operator.eq, ">": operator.gt, "<": operator.lt}
_UNITS_S = {"s": 1.0, "m": 60.0, "h": 3600.0}
#: Values by their time, of each series of a metric.
Series = dict[str, list[tuple[float, float]]]


@dataclass(frozen=True, slots=True)
class Rule:
    """An alert. It is due once `expression` holds for `for_s`."""

    name: str
    expression: str
    for_s: float

    @property
    def metrics(self) -> list[str]:
        """Metrics of the expression."""
        return [term["metric"] for term in self._terms()]

    def _terms(self) -> Iterator[dict[str, Any]]:
        for text in self.expression.split(" or "):
            term = _TERM.fullmatch(text)
            assert term is not None, f"what is {text}?"
            yield term.groupdict()

    def holds(self, scraped: "Scraped", at_s: float) -> bool:
        """Return whether its expression has a result at a time."""
        return any(
            value is not None and _OPERATORS[term["operator"]](value, float(term["number"]))
            for term in self._terms()
            for series in scraped.of.get(term["metric"], {}).values()
            for value in [_value(term["function"], _seconds(term["range"] or "0s"), series, at_s)]
        )


def _value(function: str | None, range_s: float, series: list[tuple[float, float]], at_s: float) -> float | None:
    seen = [value for time_s, value in series if at_s - range_s <= time_s <= at_s]
    if function == "max_over_time":
        return max(seen, default=None)
    if function == "increase":
        return sum(max(0.0, after - before) for before, after in pairwise(seen))
    now = [value for time_s, value in series if time_s == at_s]
    return now[0] if now else None


def _seconds(text: str) -> float:
    return float(text[:-1]) * _UNITS_S[text[-1]]


def rules() -> list[Rule]:
    """Those of the chart."""
    written = yaml.safe_load((ROOT / "helm" / "upquery" / "alerts.yaml").read_text(encoding="utf-8"))
    return [Rule(each["alert"], each["expr"], _seconds(each.get("for", "0s"))) for each in written]


@dataclass(slots=True)
class Scraped:
    """Samples of ``/metrics``. *State*: `of`, by metric and labels; `at_s`, the time of each scrape."""

    of: dict[str, Series] = field(default_factory=dict)
    at_s: list[float] = field(default_factory=list)

    def scrape(self, service: RunningService) -> None:
        """Once."""
        now = time.monotonic()
        try:
            text = HTTP.get(f"{service.admin}/metrics", timeout=5.0).text
        except httpx.HTTPError:
            return
        self.at_s.append(now)
        for line in text.splitlines():
            series = _SERIES.fullmatch(line)
            if series is not None and not line.startswith("#"):
                of_metric = self.of.setdefault(series["metric"], {})
                of_metric.setdefault(series["labels"] or "", []).append((now, float(series["value"])))

    def fires(self, rule: Rule, hurry: float = 1.0) -> bool:
        """Return whether an alert fires in what was scraped; where nobody waits as long as it does, `hurry` times
        sooner."""
        since: float | None = None
        for at_s in self.at_s:
            if not rule.holds(self, at_s):
                since = None
                continue
            since = at_s if since is None else since
            if at_s - since >= rule.for_s / hurry:
                return True
        return False
