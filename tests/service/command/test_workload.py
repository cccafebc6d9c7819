"""``upquery workload`` against a running service, and what it says of files that are none."""

import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.fixtures.postgres import Database
from tests.fixtures.service import running_service, upquery

STORY = "SELECT id, title FROM stories WHERE id = :id"
MODEL: dict[str, Any] = {
    "kind": "upquery workload model",
    "format": 2,
    "lines": 7,
    "views": {"story": {"pin": [["1"]], "prewarm": [["2"], ["3"]], "budget_bytes": 10, "keys": 3}},
}


@pytest.mark.postgres
def test_a_model_is_applied(database: Database, tmp_path: Path) -> None:
    database.execute(
        "CREATE TABLE stories (id int PRIMARY KEY, title text NOT NULL)",
        "ALTER TABLE stories REPLICA IDENTITY FULL",
        "INSERT INTO stories SELECT i, 'title ' || i FROM generate_series(1, 30) i",
    )
    path = tmp_path / "model.json"
    path.write_text(json.dumps(MODEL))
    with running_service(tmp_path / "service", database.url, {"story": STORY}) as service:
        done = upquery("workload", "apply", str(path), "--admin", service.admin, "--json")
        assert done.returncode == 0, done.stderr
        (story,) = json.loads(done.stdout)["views"]
        assert (story["view"], story["pinned"], story["prewarm"]) == ("story", 1, 2)
        assert httpx.get(f"{service.admin}/v1/workload").json()["applied"]
        for change, code in (({"format": 3}, "invalid_request"), ({"views": {"nothing": {}}}, "view_not_found")):
            path.write_text(json.dumps({**MODEL, **change}))
            refused = upquery("workload", "apply", str(path), "--admin", service.admin, "--json")
            assert refused.returncode == 1
            assert json.loads(refused.stdout)["code"] == code
        assert httpx.delete(f"{service.admin}/v1/workload").status_code == 204
        assert httpx.get(f"{service.admin}/v1/workload").json() == {"applied": False, "views": []}


def test_files_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "foreign.json").write_text("[]")
    (tmp_path / "log").mkdir()
    for arguments, text in (
        (("apply", str(tmp_path / "foreign.json")), "is not a workload model"),
        (("report", "--log", str(tmp_path / "log")), "no finished file"),
    ):
        refused = upquery("workload", *arguments)
        assert refused.returncode == 1
        assert text in refused.stderr
        assert "Traceback" not in refused.stderr
