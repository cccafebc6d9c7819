"""Entry point: from the folder of an access log to a model and a page."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dataflow.spark.problems import SparkProblem
from dataflow.spark.workload.assemble import SHARES, ModelInput, assemble
from dataflow.spark.workload.log import Bounds, files_of, hashes_of, read_log
from dataflow.spark.workload.measured import measured_of
from dataflow.spark.workload.model import LogModel, read_model
from dataflow.spark.workload.page import page

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MODEL, PAGE = "model.json", "report.html"


@dataclass(frozen=True, slots=True)
class ReportInput:
    """Input of a report. `documents`: a service's own figures (`measured`)."""

    log: Path
    out: Path
    documents: Mapping[str, Any] | None = None
    last: Path | None = None
    budget_bytes: int | None = None
    bounds: Bounds = field(default_factory=Bounds)
    shares: tuple[float, ...] = SHARES


def check(wanted: ReportInput) -> None:
    """Validate the input as far as that needs no Spark. Raises SparkProblem."""
    if wanted.documents is not None:
        measured_of(wanted.documents)
    if wanted.last is not None:
        read_model(wanted.last)
    files_of(wanted.log)


def report(spark: "SparkSession", wanted: ReportInput) -> LogModel:
    """Writes both files. Raises SparkProblem."""
    measured = None if wanted.documents is None else measured_of(wanted.documents)
    last = None if wanted.last is None else read_model(wanted.last)
    log = read_log(spark, wanted.log, wanted.bounds)
    footprints = None if measured is None else measured.footprints
    hashes = None if footprints is None else hashes_of(spark, footprints.keys)
    model = assemble(log, ModelInput(measured, last, wanted.budget_bytes, wanted.shares, hashes))
    try:
        wanted.out.mkdir(parents=True, exist_ok=True)
        model.write(wanted.out / MODEL)
        (wanted.out / PAGE).write_text(page(model), encoding="utf-8")
    except OSError as error:
        raise SparkProblem("out_unwritable", f"{wanted.out} cannot be written: {error.strerror}.") from error
    return model
