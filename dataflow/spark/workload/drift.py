"""Changes since the last model.

*Invariants*: differences within confidence intervals, or of small numbers, are not reported.
"""

from collections.abc import Iterator

from dataflow.spark.workload.model import Advice, LogModel, ViewModel

_RATE = 1.5
_OVERLAP = 0.5
_HITS = 0.05
_LEAST_REQUESTS = 200
_LEAST_KEYS = 20


def drift_of(last: LogModel, now: LogModel) -> list[Advice]:
    return list(_drift(last, now))


def _drift(last: LogModel, now: LogModel) -> Iterator[Advice]:
    for name in sorted(now.views.keys() - last.views.keys()):
        yield Advice("new", f"{name} was not read before.")
    for name in sorted(last.views.keys() - now.views.keys()):
        yield Advice("gone", f"{name} is not read any more.")
    before, after = last.hit_rate(now.budget_bytes), now.hit_rate(now.budget_bytes)
    if abs(after - before) > _HITS:
        yield Advice("hits", f"The budget has {after:.1%} hits now, {before:.1%} before.")
    for name in sorted(now.views.keys() & last.views.keys()):
        if min(now.views[name].requests, last.views[name].requests) >= _LEAST_REQUESTS:
            yield from _of_view(name, last.views[name], now.views[name])


def _of_view(name: str, last: ViewModel, now: ViewModel) -> Iterator[Advice]:
    ratio = now.requests_per_s / last.requests_per_s if last.requests_per_s else 1.0
    if ratio > _RATE or ratio < 1 / _RATE:
        yield Advice(
            "rate", f"{name} is read {now.requests_per_s:,.1f} times a second, {last.requests_per_s:,.1f} before."
        )
    if now.skew and last.skew and (now.skew.low > last.skew.high or now.skew.high < last.skew.low):
        yield Advice("skew", f"{name} has a skew of {now.skew.alpha:.2f}, {last.skew.alpha:.2f} before.")
    hot, were = {tuple(key) for key in now.hottest}, {tuple(key) for key in last.hottest}
    fewer = min(len(hot), len(were))
    if fewer >= _LEAST_KEYS and len(hot & were) < _OVERLAP * fewer:
        yield Advice("keys", f"Of the {fewer} hottest keys of {name}, {len(hot & were)} are the same.")
