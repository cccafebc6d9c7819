"""Python: the package of openapi-python-client, checked by mypy."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fixtures.service import RunningService

PROGRAMS = Path(__file__).parent / "python"
#: Steps of ``reader.py``.
STEPS = [
    "reads_one_key",
    "pages",
    "asks_again_with_a_tag",
    "waits_for_a_version",
    "reads_many_keys",
    "handles_problems",
]
_CONFIGURATION = "package_name_override: upquery_client\npost_hooks: []\n"


def run(folder: Path, *arguments: str) -> str:
    """Return the output of a Python program, which must succeed."""
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        env={**os.environ, "MYPYPATH": str(folder), "MYPY_CACHE_DIR": str(folder / "cache")},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.postgres
def test_python_client(live: RunningService, document: Path, tmp_path: Path) -> None:
    shutil.copytree(PROGRAMS, tmp_path, dirs_exist_ok=True)
    (tmp_path / "generator.yaml").write_text(_CONFIGURATION)
    run(
        tmp_path,
        "-m",
        "openapi_python_client",
        "generate",
        "--path",
        str(document),
        "--meta",
        "none",
        "--config",
        "generator.yaml",
        "--output-path",
        "upquery_client",
        "--fail-on-warning",
    )
    (tmp_path / "upquery_client" / "py.typed").touch()
    run(tmp_path, "-m", "mypy", "--strict", "--follow-imports=silent", "--config-file=", "reader.py", "wrong.py")
    assert run(tmp_path, "reader.py", live.http).split() == STEPS
