"""``python -m dataflow.spark.audit``: cached keys asked for anew at a held snapshot, by Spark's tasks.

One JSON document on standard input names a file of questions, each a number, a statement and the texts of its
parameters; the answers are files of lines: the number, the rows as the upstream's texts, or why there are none. The
last line on standard output is the problem, if there is one.

*Invariants*: every task imports the same snapshot, so one that is tried again reads the same; a question that the
upstream refuses is an answer of its own, and ends no task.

Not here: what cached keys are, and comparing (`service.engine.audit`).
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg.pq import ExecStatus

from dataflow.spark.postgres_reader import Exported, at_snapshot
from dataflow.spark.problems import SparkProblem, found_in

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SAVED = b"SAVEPOINT question"
_BACK = b"ROLLBACK TO SAVEPOINT question"


def answered(upstream: Exported, lines: Iterable[str]) -> Iterator[str]:
    """A line of answer for each line of question. Raises SparkProblem."""
    with at_snapshot(upstream) as connection:
        connection.execute(_SAVED)
        for line in lines:
            number, sql, parameters = json.loads(line)
            rows, reason = _asked(connection, sql, parameters)
            yield json.dumps([number, rows, reason], ensure_ascii=False)


def _asked(
    connection: psycopg.Connection, sql: str, parameters: list[str | None]
) -> tuple[list[list[str | None]], str | None]:
    texts = [None if text is None else text.encode() for text in parameters]
    result = connection.pgconn.exec_params(sql.encode(), texts)
    if result.status != ExecStatus.TUPLES_OK:
        if connection.pgconn.transaction_status == psycopg.pq.TransactionStatus.UNKNOWN:
            raise SparkProblem("upstream_unavailable", "The connection to the upstream was lost.", "", retryable=True)
        connection.execute(_BACK)
        return [], "the upstream refused the question"
    columns = range(result.nfields)
    return [
        [None if (value := result.get_value(row, column)) is None else value.decode() for column in columns]
        for row in range(result.ntuples)
    ], None


def run(spark: "SparkSession", job: Mapping[str, Any]) -> None:
    """Answers all questions of a job. Raises SparkProblem."""
    url, snapshot, answers = job["url"], job["snapshot"], job["answers"]

    def task(number: int, lines: Iterable[str]) -> Iterable[int]:
        # A task that is tried again writes its file anew.
        path = Path(answers) / f"part-{number:05}.jsonl"
        count = 0
        try:
            with path.open("w", encoding="utf-8") as file:
                for line in answered(Exported(url, None, snapshot), lines):
                    file.write(line + "\n")
                    count += 1
        except SparkProblem as problem:
            raise RuntimeError(problem.marked()) from None
        yield count

    Path(answers).mkdir()
    with Path(job["questions"]).open(encoding="utf-8") as file:
        questions = file.read().rstrip("\n").split("\n")
    spark.sparkContext.parallelize(questions, job["tasks"]).mapPartitionsWithIndex(task).sum()


def main() -> int:
    from dataflow.spark.session import session

    job = json.loads(sys.stdin.read())
    try:
        spark = session("upquery audit", job["spark"]["master"], job["spark"]["conf"], job["spark"]["memory"])
        try:
            run(spark, job)
        finally:
            spark.stop()
    except SparkProblem as problem:
        _say(problem)
        return 1
    except Exception as problem:
        _say(found_in(str(problem)) or SparkProblem("spark_failed", "A task of Spark's failed; its log says why."))
        return 1
    return 0


def _say(problem: SparkProblem) -> None:
    sys.stdout.write(json.dumps(problem.as_json()) + "\n")


if __name__ == "__main__":
    # Tasks name this module by its import name, not by __main__.
    from dataflow.spark.audit import main as entry

    sys.exit(entry())


__all__ = ["answered", "main", "run"]
