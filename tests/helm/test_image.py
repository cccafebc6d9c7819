"""The Dockerfile, read as text, and its steps, run without Docker."""

import json
import os
import re
import subprocess
import sys
import tomllib
from dataclasses import dataclass
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.fixtures.service import environment
from tests.helm.charts import render
from tests.helm.matrix import SECRET
from tests.tidy.sources import ROOT, tracked_files

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8")
KNOWN = {
    "ARG",
    "CMD",
    "COPY",
    "ENTRYPOINT",
    "ENV",
    "EXPOSE",
    "FROM",
    "HEALTHCHECK",
    "LABEL",
    "RUN",
    "STOPSIGNAL",
    "USER",
    "WORKDIR",
}


@dataclass(frozen=True, slots=True)
class Instruction:
    """One of the Dockerfile, with its arguments in one line."""

    name: str
    arguments: str


def instructions() -> list[Instruction]:
    lines = [line for line in DOCKERFILE.splitlines() if line.strip() and not line.lstrip().startswith("#")]
    joined = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [Instruction(*line.split(maxsplit=1)) for line in joined.splitlines()]


def of(name: str) -> list[str]:
    return [each.arguments for each in instructions() if each.name == name]


def last_stage() -> list[Instruction]:
    found = instructions()
    start = max(at for at, each in enumerate(found) if each.name == "FROM")
    return found[start:]


def only(name: str) -> str:
    (arguments,) = (each.arguments for each in last_stage() if each.name == name)
    return arguments


def test_every_instruction_is_known() -> None:
    assert {each.name for each in instructions()} <= KNOWN


@pytest.mark.parametrize("digest", ["", "@sha256:" + "0" * 64], ids=["tag", "digest"])
def test_bases_have_versions_and_may_have_a_digest(digest: str) -> None:
    images = [arguments.split()[0] for arguments in of("FROM")]
    assert len(images) == 2
    arguments = dict(argument.split("=", 1) for argument in of("ARG"))
    assert arguments["BASE_DIGEST"] == ""
    arguments["BASE_DIGEST"] = digest
    for image in images:
        name = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found.group(1)], image)
        assert re.fullmatch(rf"python:3\.\d+-slim-[a-z]+{digest}", name), name


def test_releases_are_built_from_a_digest() -> None:
    (command,) = re.findall(r"docker build .*", (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8"))
    assert '--build-arg BASE_DIGEST="@$(docker buildx imagetools inspect ' in command
    (image,) = re.findall(r"inspect (\S+) ", command)
    arguments = dict(argument.split("=", 1) for argument in of("ARG"))
    assert image == f"python:{arguments['PYTHON_VERSION']}-slim-{arguments['DEBIAN']}"


def test_what_builds_is_left_behind() -> None:
    copied = [each.arguments for each in last_stage() if each.name == "COPY"]
    assert copied == ["--from=build /opt/upquery /opt/upquery"]


def test_it_runs_as_the_charts_user_with_a_number() -> None:
    user = only("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    context = render(SECRET).pod["securityContext"]
    assert user == f"{context['runAsUser']}:{context['runAsGroup']}"
    names = [each.name for each in last_stage()]
    assert names.index("USER") > max(at for at, name in enumerate(names) if name in ("RUN", "COPY"))


@pytest.mark.parametrize("name", ["RUN", "ENTRYPOINT", "CMD"])
def test_commands_are_lists(name: str) -> None:
    """Without a shell in between, signals reach the service."""
    for arguments in of(name):
        assert all(isinstance(word, str) for word in json.loads(arguments))


def test_the_health_check_is_a_program_that_compiles() -> None:
    options, _, words = only("HEALTHCHECK").partition("CMD ")
    assert {option.split("=")[0] for option in options.split()} >= {"--interval", "--timeout", "--start-period"}
    interpreter, flag, program = json.loads(words)
    assert (interpreter, flag) == ("python", "-c")
    compile(program, "HEALTHCHECK", "exec")
    assert "/livez" in program


def test_ports_and_arguments_are_the_charts() -> None:
    container = render(SECRET).container
    assert only("EXPOSE").split() == [str(port["containerPort"]) for port in container["ports"]]
    assert json.loads(only("ENTRYPOINT")) == ["upquery"]
    # The chart gives arguments to the image's entry point.
    assert "command" not in container
    assert container["args"][0] == json.loads(only("CMD"))[0] == "serve"


def test_labels_are_those_of_the_open_container_initiative() -> None:
    labels = dict(re.findall(r'([\w.]+)="([^"]*)"', only("LABEL")))
    wanted = {
        f"org.opencontainers.image.{name}" for name in ("title", "description", "licenses", "version", "revision")
    }
    assert labels.keys() == wanted


def test_no_secret_and_no_installer_is_asked_for() -> None:
    assert not re.search(r"(?i)password|secret|token", " ".join(of("ARG") + of("ENV")))
    assert not re.search(r"https?://(?!127\.0\.0\.1)", DOCKERFILE)


def test_the_context_is_what_the_image_is_built_of() -> None:
    lines = (ROOT / ".dockerignore").read_text(encoding="utf-8").splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    let_in = {rule[1:] for rule in rules if rule.startswith("!")}
    assert let_in == {
        "pyproject.toml",
        "hatch_build.py",
        "README.md",
        "LICENSE",
        "api_schemas",
        "cdc",
        "dataflow",
        "load",
        "service",
        "helm/image/build.sh",
        "helm/image/inventory.py",
        "helm/image/locked",
    }
    assert all((ROOT / name).exists() for name in let_in)


LOCKED = sorted((ROOT / "helm" / "image" / "locked").glob("*.txt"))


def test_what_the_dockerfile_installs_is_locked() -> None:
    (extras,) = (argument.removeprefix("EXTRAS=") for argument in of("ARG") if argument.startswith("EXTRAS="))
    assert {path.stem for path in LOCKED} == {extras, "spark,zstd"}


@pytest.mark.parametrize("path", LOCKED, ids=lambda path: path.stem)
def test_locked_packages_are_all_that_are_needed(path: Path) -> None:
    """Each by version and hash. `helm/image/lock.sh` writes the files anew."""
    text = path.read_text(encoding="utf-8").replace(" \\\n", " ")
    locked: dict[str, str] = {}
    for line in text.splitlines():
        requirement, *hashes = line.split(" --hash=")
        assert hashes, line
        assert all(re.fullmatch(r" *sha256:[0-9a-f]{64} *", each) for each in hashes), line
        pinned = Requirement(requirement)
        (only_version,) = pinned.specifier
        assert only_version.operator == "=="
        locked[canonicalize_name(pinned.name)] = only_version.version
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras = [project["optional-dependencies"][extra] for extra in path.stem.split(",")]
    for text in (*project["dependencies"], *(text for extra in extras for text in extra)):
        wanted = Requirement(text)
        if wanted.marker is None or wanted.marker.evaluate():
            assert wanted.specifier.contains(locked[canonicalize_name(wanted.name)]), wanted


def test_the_steps_make_a_service_that_starts(tmp_path: Path) -> None:
    """`helm/image/build.sh`, without the packages that it depends on: those are this environment's."""
    (step,) = (json.loads(run) for run in of("RUN") if "build.sh" in run)
    assert step[-1] == 'UPQUERY_COMPILE=$COMPILE /src/helm/image/build.sh /src /opt/upquery "$EXTRAS"'
    prefix = tmp_path / "opt"
    built = subprocess.run(
        ["sh", str(ROOT / "helm" / "image" / "build.sh"), str(ROOT), str(prefix)],
        env=environment(INSTALL_OPTIONS="--no-deps --no-compile", PYTHON=sys.executable),
        capture_output=True,
        text=True,
    )
    if "No matching distribution found for hatchling" in built.stdout + built.stderr and "CI" not in os.environ:
        pytest.skip("what builds wheels cannot be fetched")
    assert built.returncode == 0, built.stdout + built.stderr
    packages = next(prefix.glob("lib/python*/site-packages"))
    installed = {str(path.relative_to(packages)) for path in packages.rglob("*") if path.is_file()}
    shipped = {name for name in tracked_files() if name.startswith(("service/", "dataflow/", "cdc/", "api_schemas/"))}
    assert shipped <= installed
    assert not {name.split("/")[0] for name in installed} & {"pip", "setuptools", "tests", "helm"}
    document = json.loads((prefix / "share" / "upquery" / "sbom.cdx.json").read_text(encoding="utf-8"))
    assert document["metadata"]["component"]["name"] == "upquery"
    assert document["components"] == []
    assert (prefix / "share" / "upquery" / "notices.txt").is_file()
    said = subprocess.run(
        [str(prefix / "bin" / "upquery"), "serve", "--help"],
        env=environment(PYTHONPATH=os.pathsep.join(path for path in sys.path if path.endswith("-packages"))),
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert said.returncode == 0, said.stderr
    assert "--config" in said.stdout
