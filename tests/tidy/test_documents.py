"""References in documents: links have targets, commands exist."""

import re
import shutil
import subprocess
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


def test_the_list_of_targets_changes_nothing(tmp_path: Path) -> None:
    """An environment that was made in another folder is made anew, but not by whoever only asks for help."""
    shutil.copy(ROOT / "Makefile", tmp_path)
    made = tmp_path / ".venv" / "made"
    made.parent.mkdir()
    made.write_text("/elsewhere")
    subprocess.run(["make", "help"], cwd=tmp_path, capture_output=True, check=True)
    assert made.exists()


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
