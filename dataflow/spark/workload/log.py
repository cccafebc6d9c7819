"""The access log, boiled down by Spark to what fits into this process: counts by key, then a sample of reads.

Lines are read where they are; nothing of each line goes through Python. A key is known by a hash of 64 bits of its
view and its texts; texts are fetched of the hottest ones only.

*Invariants*: what comes to this process is bounded, however long the log is: spectra in cells, keys and reads of the
sample, the hottest keys.

Not here: the log's form (docs/telemetry.md), what is made of it (`assemble`).
"""

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dataflow.spark.problems import SparkProblem
from dataflow.spark.workload.sample import Floats, Ints, Keys, ReadSample, rates
from dataflow.spark.workload.zipf import Spectrum

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

SCHEMA = (
    "time_us BIGINT, view STRING, key ARRAY<STRING>, kept ARRAY<INT>, lists ARRAY<INT>, outcome STRING,"
    " rows_bytes BIGINT, worker INT, sample_rate DOUBLE"
)
#: Reads of one key beyond these are thinned out, as their number allows.
_LEAST_CAP = 64
#: Of a class of keys that is too large to rank, so many times the keys that are wanted are looked at.
_OVERSAMPLED = 8
#: Larger counts are grouped, so many groups a doubling.
_EXACT_COUNTS = 1000
_GROUPS_A_DOUBLING = 64


@dataclass(frozen=True, slots=True)
class ViewLog:
    """Totals of one view. `requests`: keys read; `outcomes` of them."""

    requests: int
    keys: int
    one_hit: int
    outcomes: dict[str, int]
    rows_bytes: float
    spectrum: Spectrum


@dataclass(frozen=True, slots=True)
class HotKey:
    """A key that is read much. `texts`: of all parameters of a read of it, as the log has them."""

    view: str
    texts: tuple[str | None, ...]
    reads: int
    rows_bytes: int


@dataclass(frozen=True, slots=True)
class LogSummary:
    """A whole log. `lines` that could be read and `unread` ones; `sample_rate`: the share of keys that it has."""

    lines: int
    unread: int
    from_us: int
    to_us: int
    sample_rate: float
    views: dict[str, ViewLog]
    sample: ReadSample
    hot: Sequence[HotKey]

    @property
    def seconds(self) -> float:
        """From the first line to the last."""
        return max(1e-6, (self.to_us - self.from_us) / 1e6)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much comes to this process."""

    reads: int = 200_000
    keys: int = 60_000
    #: Of each view.
    hot_keys: int = 2_000


def read_log(spark: "SparkSession", directory: Path, bounds: Bounds = Bounds()) -> LogSummary:
    """Boil a folder's files down. Raises SparkProblem: there is no log, or it cannot be read."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        lines = _lines(spark, directory)
        with tempfile.TemporaryDirectory(prefix="upquery-workload-") as scratch:
            return _boil_down(spark, lines, Path(scratch) / "keys", bounds)
    except PySparkException as error:
        first = str(error).strip().splitlines()[0]
        raise SparkProblem("log_unreadable", f"The access log in {directory} cannot be read: {first}") from error
    except Py4JError as error:
        # What Spark has no words for: files that are not what their names say, mostly.
        raise SparkProblem(
            "log_unreadable", f"The access log in {directory} cannot be read.", "Is each of its files whole?"
        ) from error


def hashes_of(spark: "SparkSession", keys: Sequence[tuple[str, Sequence[str | None]]]) -> Ints:
    """`sample.Keys.hash` of keys: names of views and texts."""
    from pyspark.sql import functions as f

    if not keys:
        return np.zeros(0, dtype=np.int64)
    table = [(place, view, list(texts)) for place, (view, texts) in enumerate(keys)]
    frame = spark.createDataFrame(table, "place INT, view STRING, texts ARRAY<STRING>")
    arrow = frame.select("place", f.xxhash64("view", "texts").alias("hash")).toArrow()
    found = np.zeros(len(keys), dtype=np.int64)
    found[arrow["place"].to_numpy()] = arrow["hash"].to_numpy()
    return found


def files_of(directory: Path) -> dict[str, list[str]]:
    """Finished files of a log, by their form, also below the folder: several services may have folders of their own.

    Raises SparkProblem: there is none.
    """
    if not directory.is_dir():
        raise SparkProblem("log_missing", f"{directory} is no folder.", "Give the folder that [access_log] path names.")
    found = {
        form: sorted(str(path) for path in directory.rglob(f"*.{form}") if not path.name.startswith(("_", ".")))
        for form in ("parquet", "jsonl")
    }
    if not any(found.values()):
        raise SparkProblem(
            "log_missing",
            f"{directory} has no finished file of an access log.",
            "Files are finished after [access_log] rotate_s, or when the service stops.",
        )
    return found


def _lines(spark: "SparkSession", directory: Path) -> "DataFrame":
    found = files_of(directory)
    frames = []
    if found["parquet"]:
        _check_parquet(spark, found["parquet"])
        frames.append(spark.read.schema(SCHEMA).parquet(*found["parquet"]))
    if found["jsonl"]:
        frames.append(spark.read.schema(SCHEMA).json(found["jsonl"]))
    return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])


def _check_parquet(spark: "SparkSession", paths: Sequence[str]) -> None:
    """Columns that are not there would be read as NULL."""
    columns = spark.read.parquet(paths[0]).columns
    missing = {"time_us", "view", "key"} - set(columns)
    if missing:
        raise SparkProblem("log_foreign", f"{paths[0]} is no access log: it has no {min(missing)}.")


def _boil_down(spark: "SparkSession", lines: "DataFrame", scratch: Path, bounds: Bounds) -> LogSummary:
    from pyspark.sql import functions as f

    good = f.col("view").isNotNull() & f.col("time_us").isNotNull() & f.col("key").isNotNull()
    totals = lines.select(
        f.count("*").alias("lines"),
        f.sum((~good).cast("long")).alias("unread"),
        f.min("time_us").alias("from_us"),
        f.max("time_us").alias("to_us"),
        f.avg("sample_rate").alias("rate"),
        f.max((f.size("lists") > 0).cast("int")).alias("lists"),
    ).first()
    assert totals is not None
    if totals["lines"] == totals["unread"]:
        raise SparkProblem("log_foreign", "No line of these files is one of an access log.")
    reads = _reads(lines.where(good), has_lists=bool(totals["lists"]))
    _count_keys(reads).write.parquet(str(scratch))
    keys = spark.read.parquet(str(scratch))
    cells = _cells(keys)
    names = tuple(sorted({cell["view"] for cell in cells}))
    views = {name: _view([cell for cell in cells if cell["view"] == name]) for name in names}
    classes = _classes(cells)
    sampled = _sampled_keys(keys, classes, names, bounds)
    sample = _sampled_reads(spark, reads, sampled, names)
    return LogSummary(
        lines=int(totals["lines"] - totals["unread"]),
        unread=int(totals["unread"] or 0),
        from_us=int(totals["from_us"]),
        to_us=int(totals["to_us"]),
        sample_rate=float(totals["rate"] or 1.0),
        views=views,
        sample=sample,
        hot=_hot_keys(reads, keys, classes, bounds.hot_keys),
    )


def _reads(lines: "DataFrame", *, has_lists: bool) -> "DataFrame":
    """A row for each key that is read: its view, its hash, its texts, and what its line says."""
    from pyspark.sql import functions as f

    kept = f.col("kept")
    of_key = f.when(kept.isNull() | (f.size(kept) == f.size("key")), f.col("key")).otherwise(
        f.transform(kept, lambda place: f.get(f.col("key"), place))
    )
    rest = ["view", "time_us", "worker", "outcome", "rows_bytes", "key", "kept", "lists"]
    line = f.xxhash64("view", "key")
    if not has_lists:
        reads = lines.select(*rest, of_key.alias("texts"), line.alias("line_hash"))
    else:
        many = f.size("lists") > 0
        single = lines.where(f.col("lists").isNull() | ~many).select(
            *rest, of_key.alias("texts"), line.alias("line_hash")
        )
        # A list is the JSON array of its values; a read asks for each combination.
        listed = lines.where(many).select(*rest, of_key.alias("texts"), line.alias("line_hash"))
        choices = f.transform("texts", _choices)
        combined = f.aggregate(choices, f.array(f.array().cast("array<string>")), _combine)
        listed = listed.withColumn("combined", combined).withColumn(
            "rows_bytes", (f.col("rows_bytes") / f.greatest(f.size("combined"), f.lit(1))).cast("long")
        )
        reads = single.unionByName(listed.select(*rest, f.explode("combined").alias("texts"), "line_hash"))
    return reads.withColumn("hash", f.xxhash64("view", "texts"))


def _choices(text: "Column", place: "Column") -> "Column":
    from pyspark.sql import functions as f

    listed = f.from_json(text, "array<string>")
    return f.when(f.array_contains(f.col("lists"), place) & listed.isNotNull(), listed).otherwise(f.array(text))


def _combine(begun: "Column", choices: "Column") -> "Column":
    from pyspark.sql import functions as f

    return f.flatten(f.transform(begun, lambda left: f.transform(choices, lambda text: f.concat(left, f.array(text)))))


def _count_keys(reads: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as f

    def outcome(name: str) -> "Column":
        return f.sum((f.col("outcome") == name).cast("long")).alias(name)

    counted = reads.groupBy("view", "hash").agg(
        f.count("*").alias("reads"),
        f.max("rows_bytes").alias("rows_bytes"),
        *(outcome(name) for name in ("hit", "miss", "forward", "stale", "failed")),
    )
    return counted.withColumn("class", f.floor(f.log2("reads")).cast("int"))


_OUTCOMES = ("hit", "miss", "forward", "stale", "failed")


def _cells(keys: "DataFrame") -> list[Any]:
    """Keys by view, class and number of reads (large ones in groups), with what they add up to."""
    from pyspark.sql import functions as f

    step = _GROUPS_A_DOUBLING
    grouped = f.round(f.pow(f.lit(2.0), f.round(f.log2("reads") * step) / step)).cast("long")
    count = f.when(f.col("reads") <= _EXACT_COUNTS, f.col("reads")).otherwise(grouped)
    sums = keys.groupBy("view", "class", count.alias("count")).agg(
        f.count("*").alias("keys"),
        f.sum("reads").alias("reads"),
        f.sum("rows_bytes").alias("rows_bytes"),
        *(f.sum(name).alias(name) for name in _OUTCOMES),
    )
    return sums.collect()


def _view(cells: Sequence[Any]) -> ViewLog:
    by_count: dict[int, int] = {}
    for cell in cells:
        by_count[cell["count"]] = by_count.get(cell["count"], 0) + cell["keys"]
    counts = np.array(sorted(by_count), dtype=np.int64)
    numbers = np.array([by_count[int(count)] for count in counts], dtype=np.int64)
    outcomes = {name: sum(cell[name] or 0 for cell in cells) for name in _OUTCOMES}
    keys = int(numbers.sum())
    return ViewLog(
        requests=sum(cell["reads"] for cell in cells),
        keys=keys,
        one_hit=by_count.get(1, 0),
        outcomes={name: number for name, number in outcomes.items() if number},
        rows_bytes=sum(cell["rows_bytes"] or 0 for cell in cells) / keys,
        spectrum=Spectrum(counts, numbers),
    )


@dataclass(frozen=True, slots=True)
class _Class:
    """Keys of a view that are read about as often."""

    view: str
    number: int
    keys: int
    reads: int


def _classes(cells: Sequence[Any]) -> list[_Class]:
    sums: dict[tuple[str, int], tuple[int, int]] = {}
    for cell in cells:
        keys, reads = sums.get((cell["view"], cell["class"]), (0, 0))
        sums[cell["view"], cell["class"]] = keys + cell["keys"], reads + cell["reads"]
    return [_Class(view, number, *both) for (view, number), both in sorted(sums.items())]


@dataclass(frozen=True, slots=True)
class _Sampled:
    """Keys of the sample, and the number of sampled reads of each."""

    keys: Keys
    cap: int


def _sampled_keys(keys: "DataFrame", classes: Sequence[_Class], names: Sequence[str], bounds: Bounds) -> _Sampled:
    from pyspark.sql import functions as f

    number = np.array([of_class.keys for of_class in classes], dtype=np.float64)
    reads = np.array([of_class.reads for of_class in classes], dtype=np.float64)
    cap = int(max(_LEAST_CAP, reads.sum())) if reads.sum() <= bounds.reads else _LEAST_CAP
    share = rates(number, np.minimum(reads, cap * number), bounds.reads, bounds.keys)
    spark = keys.sparkSession
    table = [(of_class.view, of_class.number, float(rate)) for of_class, rate in zip(classes, share, strict=True)]
    rated = spark.createDataFrame(table, "view STRING, class INT, share DOUBLE")
    chance = f.pmod(f.xxhash64("hash"), f.lit(1 << 40)) / float(1 << 40)
    chosen = keys.join(f.broadcast(rated), ["view", "class"]).where(chance < f.col("share"))
    arrow = chosen.select(
        "view", "hash", "class", "reads", f.coalesce("rows_bytes", f.lit(0)).alias("rows_bytes")
    ).toArrow()
    index = {name: place for place, name in enumerate(names)}
    view = np.array([index[name] for name in arrow["view"].to_pylist()], dtype=np.int64)
    of_class = view * 64 + arrow["class"].to_numpy()
    whole = {index[of_class.view] * 64 + of_class.number: of_class.keys for of_class in classes}
    got_classes, place, got = np.unique(of_class, return_inverse=True, return_counts=True)
    scales = np.array([whole[int(c)] for c in got_classes], dtype=np.float64) / got
    hashes = arrow["hash"].to_numpy().astype(np.int64)
    found = Keys(view, arrow["reads"].to_numpy(), arrow["rows_bytes"].to_numpy(), scales[place], hashes)
    return _Sampled(found, cap)


def _sampled_reads(spark: "SparkSession", reads: "DataFrame", sampled: _Sampled, names: Sequence[str]) -> ReadSample:
    import pyarrow as pa
    from pyspark.sql import functions as f

    shares: Floats = np.minimum(1.0, sampled.cap / np.maximum(sampled.keys.reads, 1))
    table = pa.table(
        {
            "hash": sampled.keys.hash,
            "number": np.arange(len(sampled.keys), dtype=np.int64),
            "thinned": shares,
        }
    )
    chosen = reads.select("hash", "time_us", "worker", "line_hash", "outcome").join(
        f.broadcast(spark.createDataFrame(table)), "hash"
    )
    chance = f.pmod(f.xxhash64("time_us", "worker", "line_hash"), f.lit(1 << 40)) / float(1 << 40)
    chosen = chosen.where(chance < f.col("thinned"))
    computed = (f.col("outcome") != "hit").alias("computed")
    arrow = chosen.select(
        "number", "time_us", f.coalesce("worker", f.lit(0)).alias("worker"), "line_hash", computed
    ).toArrow()
    time_us = arrow["time_us"].to_numpy()
    worker = arrow["worker"].to_numpy()
    line = arrow["line_hash"].to_numpy()
    order = np.lexsort((line, worker, time_us))
    time_us, worker, line = time_us[order], worker[order], line[order]
    new_request = np.concatenate([[False], (np.diff(time_us) != 0) | (np.diff(worker) != 0)])
    new_line = new_request | np.concatenate([[False], np.diff(line) != 0])
    number = arrow["number"].to_numpy()[order]
    return ReadSample(
        views=tuple(names),
        keys=sampled.keys,
        key=number,
        time_us=time_us,
        request=np.cumsum(new_request),
        line=np.cumsum(new_line),
        computed=arrow["computed"].to_numpy(zero_copy_only=False)[order].astype(np.bool_),
        times=_times(number, sampled.keys),
    )


def _times(number: Ints, keys: Keys) -> Floats:
    """Number of reads that each sampled read of its key stands for."""
    kept = np.bincount(number, minlength=len(keys))
    times: Floats = (keys.reads / np.maximum(kept, 1))[number]
    return times


def _hot_keys(reads: "DataFrame", keys: "DataFrame", classes: Sequence[_Class], most: int) -> list[HotKey]:
    from pyspark.sql import Window
    from pyspark.sql import functions as f

    # Of each view only keys that have a chance are ranked; of a large class that not all of can be, some are.
    limits = [(view, least, share) for view, (least, share) in _least_classes(classes, most).items()]
    table = keys.sparkSession.createDataFrame(limits, "view STRING, least INT, share DOUBLE")
    chance = f.pmod(f.xxhash64("hash"), f.lit(1 << 40)) / float(1 << 40)
    chosen = (f.col("class") > f.col("least")) | ((f.col("class") == f.col("least")) & (chance < f.col("share")))
    likely = keys.join(f.broadcast(table), "view").where(chosen)
    ranked = likely.withColumn("rank", f.row_number().over(Window.partitionBy("view").orderBy(f.desc("reads"), "hash")))
    hottest = ranked.where(f.col("rank") <= most).select("hash", "reads", "rows_bytes", "rank")
    columns = ["texts", "key", "kept", "lists", "reads", "rows_bytes", "rank"]
    texts = reads.select("view", "hash", "texts", "key", "kept", "lists").join(f.broadcast(hottest), "hash")
    found = texts.groupBy("view", "hash").agg(*(f.first(name).alias(name) for name in columns))
    rows: list[Any] = sorted(found.collect(), key=lambda row: (row["view"], row["rank"]))
    return [HotKey(r["view"], _asked(r), int(r["reads"]), int(r["rows_bytes"] or 0)) for r in rows]


def _asked(row: Any) -> tuple[str | None, ...]:
    """A read of this one key: a list has one member then."""
    asked = list(row["key"])
    kept = range(len(asked)) if row["kept"] is None else row["kept"]
    for place, text in zip(kept, row["texts"], strict=True):
        asked[place] = json.dumps([text]) if place in (row["lists"] or ()) else text
    return tuple(asked)


def _least_classes(classes: Sequence[_Class], most: int) -> dict[str, tuple[int, float]]:
    """Finds the lowest class of each view's `most` hottest keys, and the share of that class to look at."""
    found: dict[str, tuple[int, float]] = {}
    room: dict[str, int] = {}
    for of_class in sorted(classes, key=lambda c: -c.number):
        if room.setdefault(of_class.view, most) > 0:
            found[of_class.view] = of_class.number, min(1.0, _OVERSAMPLED * most / of_class.keys)
            room[of_class.view] -= of_class.keys
    return found


__all__ = ["Bounds", "HotKey", "LogSummary", "ViewLog", "files_of", "hashes_of", "read_log"]
