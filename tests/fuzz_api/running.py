"""Runs schemathesis against both ports of a service."""

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.fixtures.service import RunningService
from tests.fuzz_api.site import values_of

#: What a schema can say of a request, it can also say of a response; what it cannot: see the README.
_LEFT_OUT = "positive_data_acceptance"
_CONFIGURATION = Path(__file__).with_name("schemathesis.toml")
_GENERATED = re.compile(r"^\s*(\d+) generated", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Found:
    """Findings of one run over one document."""

    cases: int
    #: schemathesis found nothing wrong.
    clean: bool
    output: str


def fuzz(service: RunningService, url: str, examples: int, seed: int, directory: Path) -> Found:
    """Requests from the document at `url`: so many `examples` of each operation, and those that cover its schema."""
    (directory / "values.json").write_text(json.dumps(values_of(service)), encoding="utf-8")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "schemathesis.cli",
            "--config-file",
            str(_CONFIGURATION),
            "run",
            f"{url}/openapi.json",
            "--max-examples",
            str(examples),
            "--seed",
            str(seed),
            "--exclude-checks",
            _LEFT_OUT,
            "--continue-on-failure",
            "--no-color",
            "--suppress-health-check",
            "all",
            "--request-timeout",
            "30",
            "--warnings",
            "off",
        ],
        cwd=directory,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={
            **os.environ,
            "SCHEMATHESIS_HOOKS": "tests.fuzz_api.hooks",
            "PYTHONPATH": str(Path(__file__).parents[2]),
        },
        check=False,
    )
    cases = sum(int(number) for number in _GENERATED.findall(done.stdout))
    return Found(cases, done.returncode == 0, done.stdout)
