"""``upquery bench log_lines``: time and memory of modelling a large access log.

The log is Parquet, written here: reads of one view that follow Zipf's law with a skew that the model has to find.
"""

import json
import subprocess
import tempfile
import threading
from pathlib import Path
from time import monotonic
from typing import Annotated, Any

import typer

from load import processes
from load.experiments.workload_model import report_command
from load.processes import RunConditions
from load.progress import Tell, number
from load.report.figures import Figure, Measurement
from load.report.output import JsonOption, OutputOption, perform
from load.report.plots import ReportTable
from load.report.report import Report
from load.sides.side import SideError

BENCH = "log_lines"
SHORT = ("--lines", "1000000", "--keys", "200000")
_GOAL_GIB = 4.0
_FILES = 10
_GROUP = 1_000_000
_START_US = 1_700_000_000_000_000
_RATE_US = 200
_LOOK_S = 0.2


def command(
    lines: Annotated[int, typer.Option(min=10_000, help="Lines of the log.")] = 100_000_000,
    keys: Annotated[int, typer.Option(min=1_000, help="Number of keys.")] = 10_000_000,
    alpha: Annotated[float, typer.Option(min=0.0, help="Skew of the keys.")] = 0.9,
    directory: Annotated[Path | None, typer.Option(help="Folder of the log: some 10 bytes a line.")] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 1,
    as_json: JsonOption = False,
    output: OutputOption = None,
) -> None:
    """Time and memory of modelling a large access log. Some ten minutes."""

    def work(_: RunConditions, tell: Tell) -> Report:
        with tempfile.TemporaryDirectory(prefix="upquery-log-", dir=directory) as folder:
            return _run(Path(folder), lines, keys, alpha, seed, tell)

    perform(BENCH, work, as_json=as_json, output=output)


def _run(folder: Path, lines: int, keys: int, alpha: float, seed: int, tell: Tell) -> Report:
    began = monotonic()
    write_log(folder / "log", lines, keys, alpha, seed, tell)
    written_s = monotonic() - began
    size = sum(file.stat().st_size for file in (folder / "log").iterdir())
    tell("modelling")
    took_s, peak_bytes = _model(folder)
    model: dict[str, Any] = json.loads((folder / "model.json").read_text(encoding="utf-8"))
    skew = model["views"]["story"]["skew"]
    within = skew["low"] <= alpha <= skew["high"]
    rows = [
        ("lines", f"{model['lines']:,}"),
        ("distinct keys", f"{model['views']['story']['keys']:,}"),
        ("of the log, MiB", number(size / 2**20)),
        ("written in, s", number(written_s)),
        ("skew drawn", f"{alpha}"),
        ("skew found", f"{skew['alpha']:.5f} ({skew['low']:.5f} to {skew['high']:.5f})"),
        ("drawn is within", "yes" if within else "no"),
    ]
    return Report(
        "Modelling a large access log",
        f"{lines:,} lines of {keys:,} keys as Parquet. Time and memory are of upquery workload report, with all its"
        " processes.",
        [
            Figure(BENCH, "modelled in", Measurement.of([took_s]), "s"),
            Figure(BENCH, "peak memory", Measurement.of([peak_bytes / 2**30]), "GiB", _GOAL_GIB, more_is_better=False),
        ],
        [ReportTable("The log and its model", ("what", "is"), rows)],
    )


def write_log(folder: Path, lines: int, keys: int, alpha: float, seed: int, tell: Tell) -> None:
    """An access log of one view, as `docs/telemetry.md` has it."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir(parents=True)
    weights = np.arange(1, keys + 1, dtype=np.float64) ** -alpha
    upto = np.cumsum(weights)
    upto /= upto[-1]
    random = np.random.default_rng(seed)
    each = -(-lines // _FILES)
    for file in range(_FILES):
        tell(f"writing file {file + 1} of {_FILES}")
        begin, end = file * each, min(lines, (file + 1) * each)
        writer = None
        for first in range(begin, end, _GROUP):
            table = _table(np, pa, first, random.random(min(_GROUP, end - first)), upto)
            writer = writer or pq.ParquetWriter(folder / f"access-0-synthetic-{file:04}.parquet", table.schema)
            writer.write_table(table)
        if writer is not None:
            writer.close()


def _table(np: Any, pa: Any, first: int, chances: Any, upto: Any) -> Any:
    n = len(chances)
    ids = np.searchsorted(upto, chances)
    ends = pa.array(np.arange(n + 1, dtype=np.int32))
    none = pa.array(np.zeros(n + 1, dtype=np.int32))

    def same(value: Any, kind: Any) -> Any:
        return pa.repeat(pa.scalar(value, kind), n)

    hits = pa.DictionaryArray.from_arrays(pa.array((chances > 0.5).astype(np.int8)), ["miss", "hit"])
    return pa.table(
        {
            "time_us": pa.array(_START_US + _RATE_US * np.arange(first, first + n, dtype=np.int64)),
            "view": same("story", pa.string()),
            "key": pa.ListArray.from_arrays(ends, pa.array(ids).cast(pa.string())),
            "kept": pa.ListArray.from_arrays(ends, pa.array(np.zeros(n, dtype=np.int32))),
            "lists": pa.ListArray.from_arrays(none, pa.array([], pa.int32())),
            "outcome": hits.cast(pa.string()),
            "rows_bytes": pa.array(100 + ids % 900),
            "duration_us": same(20, pa.int64()),
            "status": same(200, pa.int32()),
            "reads": same(1, pa.int32()),
            "worker": same(0, pa.int32()),
            "sample_rate": same(1.0, pa.float64()),
        }
    )


def _model(folder: Path) -> tuple[float, int]:
    """Seconds, and the most memory that all processes had."""
    command_ = report_command(folder / "log", folder)
    began = monotonic()
    with subprocess.Popen(command_, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as process:
        peak, ended = [0], threading.Event()

        def look() -> None:
            while not ended.wait(_LOOK_S):
                peak[0] = max(peak[0], processes.resident_bytes(processes.family(process.pid)))

        looking = threading.Thread(target=look)
        looking.start()
        _, said = process.communicate()
        took_s = monotonic() - began
        ended.set()
        looking.join()
    if process.returncode:
        raise SideError(f"the log cannot be modelled: {said[-2000:]}")
    return took_s, peak[0]
