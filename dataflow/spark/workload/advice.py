"""Recommendations for a view.

*Invariants*: each recommendation states the figures that it is based on.
"""

from collections.abc import Iterator

from dataflow.spark.workload.measured import MeasuredView
from dataflow.spark.workload.model import Advice, ViewModel

#: Changed rows applied for each hit, above which maintenance costs more than it saves.
_DEAR = 10.0
_SMALL_BYTES = 1 << 20
_SMALL_KEYS = 1000
_RARE_SHARE = 0.6
_RARE_HITS = 0.5


def advice_of(model: ViewModel, measured: MeasuredView | None) -> list[Advice]:
    return list(_advice(model, measured))


def _advice(model: ViewModel, measured: MeasuredView | None) -> Iterator[Advice]:
    deltas = model.deltas_per_read_saved
    if model.tier == "incremental" and deltas is not None and deltas > _DEAR:
        yield Advice(
            "tier",
            f'{deltas:,.1f} changed rows are applied for each hit: tier = "ttl" or "refresh", or'
            ' on_miss = "forward", would be less work.',
        )
    if model.one_hit_share > _RARE_SHARE and model.hit_rate < _RARE_HITS:
        yield Advice(
            "rare",
            f"{model.one_hit_share:.0%} of its keys are read once, and {model.hit_rate:.0%} of its reads are hits:"
            " memory helps it little.",
        )
    whole = measured is not None and measured.whole
    if not whole and model.keys <= _SMALL_KEYS and model.keys * model.key_bytes < _SMALL_BYTES and model.keys > 1:
        yield Advice(
            "whole",
            f"All {model.keys:,} keys that are read take {model.keys * model.key_bytes / 2**20:.2f} MiB: if these are"
            ' most that there are, materialization = "full" has no misses.',
        )
    if model.upstream_s_per_s is not None and model.upstream_s_per_s > 0.25:
        yield Advice("upstream", f"Its misses keep {model.upstream_s_per_s:.2f} connections to the database busy.")
