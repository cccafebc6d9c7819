"""References in documents: links have targets, commands exist."""

import re
import shutil
import subprocess
import sys
from pathlib import Path, PurePosixPath

import pytest

from tests.tidy.sources import ROOT, tracked_files

LINK = re.compile(r"\[[^\]]*\]\((?!https?://|#|mailto:)([^)#\s]+)")
TARGET = re.compile(r"`make ([a-z-]+)")
#: A section of ARCHITECTURE.md, by its title; a section number, which it has none of.
SECTION = re.compile(r'ARCHITECTURE\.md, "([^"]+)"')
SECTION_NUMBER = re.compile(r"architecture,?\s+§", re.IGNORECASE)
MARKDOWN = [name for name in tracked_files() if name.endswith(".md")]


@pytest.mark.parametrize("name", MARKDOWN)
def test_links_lead_somewhere(name: str) -> None:
    folder = (ROOT / name).parent
    links = LINK.findall((ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (folder / link).exists()] == []


def test_documented_targets_exist() -> None:
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"^ +make ([a-z-]+)", listed, re.MULTILINE))
    named = {target for name in MARKDOWN for target in TARGET.findall((ROOT / name).read_text(encoding="utf-8"))}
    assert known >= {"demo", "test", "lint", "format", "sim", "fuzz", "bench", "clean", "openapi"}
    assert named <= known


@pytest.fixture
def made(tmp_path: Path) -> Path:
    """The mark of an environment in a folder with the Makefile."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    (tmp_path / "pyproject.toml").touch()
    binaries = tmp_path / ".venv" / "bin"
    binaries.mkdir(parents=True)
    (binaries / "python").symlink_to(sys.executable)
    return tmp_path / ".venv" / "made"


def make(folder: Path, *arguments: str) -> str:
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("arguments", [["help"], ["-n", "demo"], ["-n", "lint"]])
def test_an_environment_of_another_folder_is_not_removed_by_a_look(
    made: Path, tmp_path: Path, arguments: list[str]
) -> None:
    made.write_text("/elsewhere")
    make(tmp_path, *arguments)
    assert made.exists()


def test_an_environment_is_made_anew_if_it_is_of_another_folder_or_has_no_interpreter(
    made: Path, tmp_path: Path
) -> None:
    made.write_text(f"{tmp_path}\n")
    assert "-m venv" not in make(tmp_path, "-n", "demo")
    made.write_text("/elsewhere\n")
    assert "-m venv .venv" in make(tmp_path, "-n", "demo")
    made.write_text(f"{tmp_path}\n")
    (made.parent / "bin" / "python").unlink()
    assert "-m venv .venv" in make(tmp_path, "-n", "demo")


@pytest.mark.parametrize("name", ["README.md", "ARCHITECTURE.md"])
def test_the_main_documents_name_folders_that_exist(name: str) -> None:
    text = (ROOT / name).read_text(encoding="utf-8")
    folders = re.findall(r"`((?:api_schemas|cdc|dataflow|load|service|tests|helm)(?:/[a-z_]+)*)/`", text)
    assert [folder for folder in folders if not (ROOT / PurePosixPath(folder)).is_dir()] == []


def test_references_to_the_architecture_name_its_sections() -> None:
    titles = set(re.findall(r"^#+ (.+)$", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8"), re.MULTILINE))
    wrong = []
    for name in tracked_files():
        if name.endswith((".py", ".md")) and name != "tests/tidy/test_documents.py":
            text = (ROOT / name).read_text(encoding="utf-8")
            numbers = SECTION_NUMBER.findall(text)
            wrong += [f"{name}: {reference}" for reference in numbers + sorted({*SECTION.findall(text)} - titles)]
    assert wrong == []
