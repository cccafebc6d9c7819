"""``python -m dataflow.spark.build``: initial state of large relations, read and computed at one snapshot.

Reads one line from standard input, a JSON document (`build_job`)::

    {"fingerprint": …, "out": a folder, "upstream": {"kind": "postgresql", "url": …, "password": …},
     "snapshot": {"name": …, "version": …, "bound": …},
     "relations": [{"id": "r0", "pickle": base64 of a pickled (Chain | Aggregate, Table)}],
     "partition_bytes": …, "partitions": …, "spark": {"master": …, "conf": {…}}, "finished": ["r0/part-00000.parquet"]}

Says how far it is in JSON lines on standard output; the last one of a run that failed is
``{"error": code, "detail": …, "hint": …, "retryable": …}`` and its exit code 1. What it makes: below `out` a folder
for each relation with Parquet files of its rows, and at last the manifest.

*Invariants*: files that are whole stay when it is stopped (SIGTERM); the same document, with the names of
these, goes on from there.

Not here: when to build and what with (`service.engine.builds`).
"""

import os
import signal
import subprocess
import sys
import traceback
from types import FrameType

from dataflow.spark.build_progress import ProgressLines, say, say_last
from dataflow.spark.problems import SparkProblem
from dataflow.spark.session import check_packages, java_process

_JAVA_ENDS_S = 3.0


def main() -> int:
    """The job. Gives the exit code."""
    signal.signal(signal.SIGTERM, _stop)
    try:
        check_packages()
        _build(sys.stdin.readline())
    except SparkProblem as problem:
        say(problem.as_json())
        return 1
    except Exception as problem:
        traceback.print_exc()
        say(SparkProblem("failed", f"The job failed ({type(problem).__name__}).", "Its log says more.", True).as_json())
        return 1
    return 0


def _build(document: str) -> None:
    # These need packages that were looked for only now.
    from dataflow.spark.build_job import read_job
    from dataflow.spark.build_parts import disk_problems
    from dataflow.spark.build_work import BuildWork

    job = read_job(document)
    with disk_problems():
        job.out.mkdir(mode=0o700, parents=True, exist_ok=True)
        work = BuildWork(job)
        with ProgressLines(work) as lines:
            work.run(lines)


def _stop(_signal: int, _frame: FrameType | None) -> None:
    """At once: tasks end with their Java, and what they have not finished is not there."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    say_last(SparkProblem("stopped", "The job was stopped.", "", retryable=True).as_json())
    _end_java()
    os._exit(1)


def _end_java() -> None:
    process = java_process()
    if process is None:
        return
    process.terminate()
    try:
        process.wait(_JAVA_ENDS_S)
    except subprocess.TimeoutExpired:
        process.kill()


if __name__ == "__main__":
    code = main()
    _end_java()
    sys.stdout.flush()
    os._exit(code)
