"""Plan of a build: its files and the source of each, decided once and stored beside the files.

Who goes on with an interrupted build must cut the tables as they were cut before, however they have grown since.

A chain makes one file for each part of its table. So does an aggregate whose table is one range. Of several, state rows
of the parts are put together group by group, and there is a file for each bucket of groups.

Not here: ranges (`partitions`, `key_ranges`), how they are read (`build_tasks`).
"""

import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dataflow.plan.nodes import Aggregate
from dataflow.spark.build_job import BuildJob, WantedRelation
from dataflow.spark.manifest import write_json
from dataflow.spark.upstreams import BatchConnection, Part

NAME = "plan.json"
#: An aggregate's parts are as much larger: each of them has most groups, and all of these are put together.
_AGGREGATE_BYTES = 4


@dataclass(frozen=True, slots=True)
class RelationPlan:
    """`buckets`: None if every part is a file."""

    parts: tuple[Part, ...]
    buckets: int | None

    @property
    def files(self) -> int:
        return len(self.parts) if self.buckets is None else self.buckets


#: By the relation's id.
Plan = Mapping[str, RelationPlan]


def file_name(index: int) -> str:
    return f"part-{index:05}.parquet"


def plan_for(job: BuildJob, opened: BatchConnection, cores: int) -> tuple[Plan, bool]:
    """The plan, and whether it is that of an earlier run, whose files are of use. Raises SparkProblem."""
    kept = _kept(job)
    if kept is not None:
        return kept, True
    plan = {wanted.id: _planned(job, wanted, opened, cores) for wanted in job.relations}
    write_json(job.out / NAME, {**_identity(job), "relations": {name: asdict(one) for name, one in plan.items()}})
    return plan, False


def _planned(job: BuildJob, wanted: WantedRelation, opened: BatchConnection, cores: int) -> RelationPlan:
    parts = opened.parts(wanted.table, job.part_bytes, job.parts)
    if not isinstance(wanted.relation, Aggregate):
        return RelationPlan(tuple(parts), None)
    least = min(len(parts), max(cores, math.ceil(len(parts) / _AGGREGATE_BYTES)))
    if job.parts is None and least < len(parts):
        parts = opened.parts(wanted.table, job.part_bytes, least)
    if len(parts) == 1 and len(parts[0]) == 1:
        return RelationPlan(tuple(parts), None)
    groups = bool(wanted.relation.group) or any(call.argument is not None for call in wanted.relation.calls)
    return RelationPlan(tuple(parts), max(cores, len(parts)) if groups else 1)


def _identity(job: BuildJob) -> dict[str, str]:
    return {"fingerprint": job.fingerprint, "version": job.version, "snapshot": job.upstream.snapshot}


def _kept(job: BuildJob) -> Plan | None:
    """The plan of an earlier run of this job."""
    try:
        document = json.loads((job.out / NAME).read_text(encoding="utf-8"))
        if {name: document[name] for name in _identity(job)} != _identity(job):
            return None
        plan = {name: _relation_plan(job, one) for name, one in document["relations"].items()}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return plan if set(plan) == {wanted.id for wanted in job.relations} else None


def _relation_plan(job: BuildJob, document: Mapping[str, Any]) -> RelationPlan:
    return RelationPlan(tuple(map(job.upstream.part, document["parts"])), document["buckets"])


def forget(folder: Path) -> None:
    """Remove the plan, and with it all reason to trust files that are there."""
    (folder / NAME).unlink(missing_ok=True)


__all__ = ["NAME", "Plan", "RelationPlan", "file_name", "forget", "plan_for"]
