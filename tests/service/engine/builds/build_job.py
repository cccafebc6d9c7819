"""Stands in for the job of Spark's: told and listened to like that one, and writes the files that it would, in no time.

``python build_job.py FOLDER WHAT…``: each run does the next of WHAT; FOLDER remembers how many there were.
``rows`` writes; ``die`` writes and dies before the manifest; ``changed`` changes a file after that; ``wait`` starts a
child and waits for ever; anything else is the problem that it tells of.
"""

import json
import os
import signal
import subprocess
import sys
from base64 import b64decode
from pathlib import Path
from pickle import loads
from typing import Any

from dataflow.lookups.postgres.lookup import lookup_sql
from dataflow.schema import Catalog
from dataflow.spark.manifest import FilePart, Manifest, RelationFiles, digest, write_manifest, write_note


def rows_of(relation: Any, table: Any, job: dict[str, Any]) -> list[tuple[str | None, ...]]:
    """Return the rows that a lookup of everything gives, at the snapshot."""
    import psycopg

    with psycopg.connect(job["upstream"]["url"], autocommit=True) as connection:
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        connection.execute(f"SET TRANSACTION SNAPSHOT '{job['snapshot']['name']}'".encode())
        sql = lookup_sql(relation, (), Catalog({table.name: table}))
        texts = ", ".join(f"q.c{n}::text" for n in range(len(relation.columns)))
        names = ", ".join(f"c{n}" for n in range(len(relation.columns)))
        return connection.execute(f"SELECT {texts} FROM ({sql}) q({names})".encode()).fetchall()


def write(job: dict[str, Any], index: int) -> RelationFiles:
    """The files of a relation."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    told = job["relations"][index]
    folder = Path(job["out"]) / told["id"]
    folder.mkdir(parents=True, exist_ok=True)
    rows = rows_of(*loads(b64decode(told["pickle"])), job)
    parts = []
    for n, some in enumerate((rows[::2], rows[1::2])):
        path = folder / f"part-{n:05}.parquet"
        columns = list(zip(*some, strict=True))
        pq.write_table(pa.table({f"c{i}": pa.array(c, pa.string()) for i, c in enumerate(columns)}), path)
        parts.append(FilePart(path.name, len(some), digest(path)))
        write_note(path, parts[-1])
    return RelationFiles(len(rows), tuple(parts))


def note(path: Path, text: str) -> None:
    """The file is whole as soon as it is there: the test waits for it."""
    unfinished = path.with_name(f".{path.name}")
    unfinished.write_text(text)
    unfinished.replace(path)


def say(**said: object) -> None:
    sys.stdout.write(json.dumps(said) + "\n")
    sys.stdout.flush()


def main(folder: Path, acts: list[str]) -> None:
    job = json.loads(sys.stdin.readline())
    number = len(list(folder.glob("run-*")))
    act = acts[min(number, len(acts) - 1)]
    note(folder / f"run-{number}", json.dumps({"job": job, "pid": os.getpid(), "nice": os.nice(0)}))
    say(phase="reading", rows=0, tasks_done=0, tasks=2, jvm_mib=None)
    if act == "wait":
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        note(folder / "child", str(child.pid))
        signal.pause()
    if act not in ("rows", "die", "changed"):
        say(error=act, detail=f"It is about {act}.", hint="", retryable=act == "lost")
        sys.exit(1)
    files = {told["id"]: write(job, index) for index, told in enumerate(job["relations"])}
    if act == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    if act == "changed":
        path = next(Path(job["out"]).glob("*/*.parquet"))
        path.write_bytes(path.read_bytes()[:-1] + b"x")
    snapshot = job["snapshot"]
    manifest = Manifest(job["fingerprint"], snapshot["version"], snapshot["bound"], snapshot["name"], files)
    write_manifest(Path(job["out"]), manifest)
    say(phase="done", rows=1, tasks_done=2, tasks=2, jvm_mib=10)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
