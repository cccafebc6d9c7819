"""Input of a build job: one JSON document on its standard input.

*Invariants*: what cannot be carried out is refused before anything is started, in words without the document's secrets.

Not here: carrying it out (`build`).
"""

import base64
import json
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dataflow.plan.nodes import Aggregate, Chain
from dataflow.schema import Table
from dataflow.spark.postgres_reader import Exported
from dataflow.spark.problems import SparkProblem
from dataflow.spark.relations import can_build
from dataflow.spark.upstreams import BatchUpstream, PostgresBatchUpstream, ReadersUpstream

PART_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WantedRelation:
    """A relation of a job: its folder's name, what it is, the table that it reads."""

    id: str
    relation: Chain | Aggregate
    table: Table


@dataclass(frozen=True, slots=True)
class BuildJob:
    """A job. `version` and `bound` are the snapshot's; `finished` are parts that are there already, ``r0/part-…``."""

    fingerprint: str
    out: Path
    upstream: BatchUpstream
    version: str
    bound: int
    relations: tuple[WantedRelation, ...]
    part_bytes: int
    parts: int | None
    master: str
    conf: Mapping[str, str]
    finished: frozenset[str]


def read_job(text: str) -> BuildJob:
    """The job that a document describes. Raises SparkProblem."""
    try:
        fields = json.loads(text)
        job = _job(fields)
    except SparkProblem:
        raise
    except Exception:
        # Whatever unpickling may raise; what it says may quote the document.
        raise SparkProblem("invalid_job", "The job's description is not one.", "See dataflow/spark/build.py.") from None
    for wanted in job.relations:
        reason = can_build(wanted.relation)
        if reason is not None:
            raise SparkProblem("unsupported", f"{wanted.id}: {reason}", "Load the view without Spark.")
    return job


def _upstream(fields: Mapping[str, Any], snapshot: str) -> BatchUpstream:
    make = _UPSTREAMS.get(fields["kind"])
    if make is None:
        raise SparkProblem("unsupported", "Spark does not read this kind of database.", "Load the view without Spark.")
    return make(fields, snapshot)


#: By kind: from the description and the snapshot's name.
_UPSTREAMS: dict[str, Callable[[Mapping[str, Any], str], BatchUpstream]] = {
    "postgresql": lambda fields, snapshot: PostgresBatchUpstream(
        Exported(str(fields["url"]), fields.get("password"), snapshot)
    ),
    "readers": lambda _told, snapshot: ReadersUpstream(snapshot),
}


def _job(fields: Mapping[str, Any]) -> BuildJob:
    snapshot, spark = fields["snapshot"], fields.get("spark", {})
    return BuildJob(
        fingerprint=str(fields["fingerprint"]),
        out=Path(fields["out"]),
        upstream=_upstream(fields["upstream"], str(snapshot["name"])),
        version=str(snapshot["version"]),
        bound=int(snapshot["bound"]),
        relations=tuple(_wanted(relation) for relation in fields["relations"]),
        part_bytes=int(fields.get("partition_bytes") or PART_BYTES),
        parts=None if fields.get("partitions") is None else int(fields["partitions"]),
        master=str(spark.get("master", "local[*]")),
        conf={str(name): str(value) for name, value in spark.get("conf", {}).items()},
        finished=frozenset(map(str, fields.get("finished", ()))),
    )


def _wanted(fields: Mapping[str, Any]) -> WantedRelation:
    # Only the process that started this one writes to its standard input.
    relation, table = pickle.loads(base64.b64decode(fields["pickle"]))
    if not isinstance(relation, Chain | Aggregate) or not isinstance(table, Table):
        raise TypeError("no relation")
    return WantedRelation(str(fields["id"]), relation, table)


__all__ = ["PART_BYTES", "BuildJob", "WantedRelation", "read_job"]
