"""Access logs and samples of known skew, drawn for tests."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from dataflow.spark.workload.sample import Ints, Keys, ReadSample, SampleSizes

START_US = 1_700_000_000_000_000


def drawn(keys: int, reads: int, alpha: float, seed: int) -> Ints:
    """Reads of keys that follow Zipf's law."""
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -alpha
    random = np.random.default_rng(seed)
    return random.choice(keys, size=reads, p=weights / weights.sum()).astype(np.int64)


def sample_of(ids: Ints, seed: int = 1) -> tuple[ReadSample, SampleSizes]:
    """All reads of one view as a sample of themselves, and sizes."""
    _, key = np.unique(ids, return_inverse=True)
    reads = np.bincount(key)
    rows = np.random.default_rng(seed).integers(50, 3000, len(reads))
    keys = Keys(np.zeros(len(reads), dtype=np.int64), reads, rows, np.ones(len(reads)), np.arange(len(reads)))
    place = np.arange(len(key))
    sample = ReadSample(
        ("v",), keys, key, START_US + place * 500, place, place, np.zeros(len(key), dtype=bool), np.ones(len(key))
    )
    return sample, SampleSizes(600.0 + rows, 600.0 + rows, np.ones(len(reads)))


def lines(view: str, ids: Ints, every_us: int = 1000, **more: Any) -> Iterator[dict[str, Any]]:
    """Lines of an access log of a service that has memory for everything."""
    seen: set[int] = set()
    for place, id_ in enumerate(ids.tolist()):
        yield {
            "time_us": START_US + place * every_us,
            "view": view,
            "key": [str(id_)],
            "kept": [0],
            "lists": [],
            "outcome": "hit" if id_ in seen else "miss",
            "rows_bytes": 100 + id_ % 400,
            "duration_us": 5,
            "status": 200,
            "reads": 1,
            "worker": 0,
            "sample_rate": 1.0,
            **more,
        }
        seen.add(id_)


def write(path: Path, rows: Iterator[dict[str, Any]] | list[dict[str, Any]], *others: str) -> None:
    """A file of an access log, with other lines behind."""
    path.parent.mkdir(parents=True, exist_ok=True)
    texts = [json.dumps(row, separators=(",", ":")) for row in rows]
    path.write_text("\n".join([*texts, *others]) + "\n", encoding="utf-8")
