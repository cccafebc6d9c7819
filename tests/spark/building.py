"""Builds for tests: jobs in this process, with the tests' session, and what the service's lookups say of the same."""

import base64
import json
import pickle
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from dataflow.plan.nodes import Aggregate, Chain
from dataflow.plan.parts import Lookup
from dataflow.plan.table_access import chain_of
from dataflow.schema import Catalog, Table
from dataflow.spark.build_job import read_job
from dataflow.spark.build_progress import ProgressLines
from dataflow.spark.build_work import BuildWork
from dataflow.spark.fingerprint import fingerprint
from dataflow.spark.manifest import Manifest, read_manifest, verify
from dataflow.spark.snapshot_holder import HeldSnapshot
from dataflow.types import LookupId, NodeId, Row
from service.engine.databases.postgres.connect import PostgresPool
from service.engine.databases.postgres.lookups import PostgresLookups
from service.engine.upstream.named_snapshot import NamedSnapshot
from tests.fixtures.postgres import Database
from tests.fixtures.streams import run

Relations = Sequence[Chain | Aggregate]
MASTER = "local[2]"


def document(
    url: str,
    held: HeldSnapshot | NamedSnapshot,
    out: Path,
    relations: Relations,
    tables: Mapping[str, Table],
    **more: Any,
) -> dict[str, Any]:
    """Return the input of a job."""
    return {
        "fingerprint": fingerprint(relations, tables),
        "out": str(out),
        "upstream": {"kind": "postgresql", "url": url, "password": None},
        "snapshot": {"name": held.name, "version": held.version, "bound": held.bound},
        "relations": [
            {
                "id": f"r{n}",
                "pickle": base64.b64encode(pickle.dumps((relation, tables[chain_of(relation).table]))).decode(),
            }
            for n, relation in enumerate(relations)
        ],
        "spark": {"master": MASTER, "conf": {}},
        **more,
    }


def build(told: Mapping[str, Any]) -> Manifest:
    """Carry a job out here."""
    job = read_job(json.dumps(told))
    job.out.mkdir(exist_ok=True)
    work = BuildWork(job)
    with ProgressLines(work) as lines:
        work.run(lines)
    manifest = read_manifest(job.out, job.fingerprint, job.version)
    verify(job.out, manifest)
    return manifest


def built(out: Path, manifest: Manifest, name: str) -> Counter[Row]:
    """The rows of a relation."""
    found: Counter[Row] = Counter()
    for part in manifest.relations[name].files:
        rows = rows_of(pq.read_table(out / name / part.name))
        assert len(rows) == part.rows
        found.update(rows)
    assert found.total() == manifest.relations[name].rows
    return found


def rows_of(table: Any) -> list[Row]:
    """Return the rows of an Arrow table or batch."""
    columns = [column.to_pylist() for column in table.columns]
    return list(zip(*columns, strict=True))


def looked_up(database: Database, relations: Relations, tables: Mapping[str, Table]) -> list[Counter[Row]]:
    """Return the rows of the service's lookups of everything."""

    async def ask() -> list[Counter[Row]]:
        pool = PostgresPool(database.url)
        lookups = PostgresLookups(pool)
        try:
            catalog = Catalog(dict(tables))
            return [
                Counter((await lookups.run(Lookup(LookupId(1), NodeId(1), relation, (), ()), catalog)).rows)
                for relation in relations
            ]
        finally:
            await pool.close()

    return run(ask())
