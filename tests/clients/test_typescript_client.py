"""TypeScript: the types of openapi-typescript, with openapi-fetch, checked by tsc."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.fixtures.node import require_node
from tests.fixtures.service import RunningService

PROGRAMS = Path(__file__).parent / "typescript"
#: Steps of ``reader.ts``.
STEPS = ["readsOneKey", "pages", "asksAgainWithATag", "waitsForAVersion", "readsManyKeys", "handlesProblems"]


def run(folder: Path, *command: str) -> str:
    """Return the output of a program of the packages, which must succeed."""
    done = subprocess.run(
        ["node", *command], cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.postgres
def test_typescript_client(live: RunningService, document: Path, tmp_path: Path) -> None:
    packages = require_node() / "node_modules"
    shutil.copytree(PROGRAMS, tmp_path, dirs_exist_ok=True)
    (tmp_path / "node_modules").symlink_to(packages)
    run(tmp_path, str(packages / "openapi-typescript" / "bin" / "cli.js"), str(document), "-o", "upquery.d.ts")
    # A marked line of wrong.ts that compiles is an error of tsc's.
    run(tmp_path, str(packages / "typescript" / "bin" / "tsc"), "--project", ".")
    assert run(tmp_path, "out/reader.js", live.http).split() == STEPS
