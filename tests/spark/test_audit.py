"""Cached keys asked for anew by Spark's tasks: at the held snapshot, however many tasks there are."""

import json
from pathlib import Path
from typing import Any

import pytest

from dataflow.spark.audit import run
from dataflow.spark.problems import SparkProblem, found_in
from dataflow.spark.snapshot_holder import holding
from tests.fixtures.postgres import Database

pytestmark = pytest.mark.postgres

SQL = "SELECT id, title, id > 2 AS later FROM stories WHERE id = $1"


@pytest.fixture
def job(database: Database, tmp_path: Path) -> dict[str, Any]:
    """Return the input of an audit of five stories; the database refuses its fourth question."""
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text)",
        "INSERT INTO stories VALUES (1, E'line\u2028one\nand \"more\"'), (2, NULL), (3, 'three'), (5, '')",
    )
    questions = [[n, SQL, [str(n)]] for n in (1, 2, 3)] + [[4, SQL, ["four"]], [5, SQL, ["5"]], [6, SQL, [None]]]
    asked = tmp_path / "questions.jsonl"
    asked.write_text("".join(json.dumps(question, ensure_ascii=False) + "\n" for question in questions))
    return {"questions": str(asked), "answers": str(tmp_path / "answers"), "tasks": 2, "url": database.url}


def test_every_question_is_answered_at_the_snapshot(spark: Any, database: Database, job: dict[str, Any]) -> None:
    with holding(database.url, None, ["public.stories"]) as held:
        database.execute("UPDATE stories SET title = 'too late'", "INSERT INTO stories VALUES (4, 'four')")
        run(spark, {**job, "snapshot": held.name})
    files = sorted(Path(job["answers"]).iterdir())
    assert len(files) == 2
    answers = [json.loads(line) for file in files for line in file.read_text().rstrip("\n").split("\n")]
    assert answers == [
        [1, [["1", 'line\u2028one\nand "more"', "f"]], None],
        [2, [["2", None, "f"]], None],
        [3, [["3", "three", "t"]], None],
        [4, [], "the upstream refused the question"],
        [5, [["5", "", "t"]], None],
        [6, [], None],
    ]


def test_a_snapshot_that_is_gone_is_said(spark: Any, database: Database, job: dict[str, Any]) -> None:
    with holding(database.url, None, []) as held:
        pass
    with pytest.raises(Exception) as failed:
        run(spark, {**job, "snapshot": held.name})
    problem = found_in(str(failed.value))
    assert isinstance(problem, SparkProblem)
    assert problem.code == "snapshot_lost"
