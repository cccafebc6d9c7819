"""Files: what must be there, what must not, and how long things may get."""

import re
from pathlib import PurePosixPath

from tests.tidy.sources import PACKAGES, ROOT, sources, sources_of, tracked_files

BANNED_NAMES = {"common", "helper", "helpers", "manager", "misc", "util", "utils"}
FUNCTION_LINES = 60
#: Of the product, and of tests.
FILE_LINES, TEST_FILE_LINES = 500, 700
#: Folders of one machine: a path below them in a file works nowhere else.
MACHINE_PATHS = re.compile(r"(?<![\w./])/(?:root|home/\w+|Users/\w+|work/\w+|tmp/\w+)\b")
OPENINGS_OF_NO_SENTENCE = re.compile(r"(As|It|No|Not|Of|That|The same|What|Where|Whether|Who|Whom|Whose)\b")
TEXT = {".cfg", ".ini", ".json", ".md", ".py", ".sh", ".sql", ".svg", ".toml", ".yaml", ".yml", ""}


def test_every_package_has_a_readme() -> None:
    folders = {PurePosixPath(source.path).parent for source in sources_of(*PACKAGES) if not _is_marker(source.path)}
    missing = sorted(str(folder) for folder in folders if not (ROOT / folder / "README.md").is_file())
    assert missing == []


def test_readmes_name_all_modules() -> None:
    """With or without ``.py``: a map that lacks a module leads a reader past it."""
    missing = [
        source.path
        for source in sources_of(*PACKAGES)
        if not source.path.endswith(("/__init__.py", "/__main__.py"))
        and PurePosixPath(source.path).stem not in (ROOT / source.path).with_name("README.md").read_text("utf-8")
    ]
    assert missing == []


def _is_marker(path: str) -> bool:
    return path.endswith("/__init__.py")


def test_no_file_is_named_after_nothing() -> None:
    assert [name for name in tracked_files() if PurePosixPath(name).stem in BANNED_NAMES] == []


def test_no_file_names_a_path_of_one_machine() -> None:
    found = []
    for name in tracked_files():
        if PurePosixPath(name).suffix in TEXT and name != "tests/tidy/test_layout.py":
            text = (ROOT / name).read_text(encoding="utf-8")
            found += [f"{name}: {match.group()}" for match in MACHINE_PATHS.finditer(text)]
    assert found == []


def test_no_code_is_hidden_from_the_formatter() -> None:
    """An argument list that is too long when it is formatted has too many arguments."""
    skips = re.compile(r"#\s*(?:fmt|yapf):")
    assert [source.path for source in sources() if skips.search((ROOT / source.path).read_text("utf-8"))] == []


def test_functions_are_short() -> None:
    long = [
        f"{source.path}:{function.lineno} {function.name}: {function.lines} lines"
        for source in sources()
        for function in source.functions
        if function.lines > FUNCTION_LINES
    ]
    assert long == []


def test_files_are_about_one_thing() -> None:
    long = [
        f"{source.path}: {lines} lines"
        for source in sources()
        if (lines := len((ROOT / source.path).read_text(encoding="utf-8").splitlines()))
        > (TEST_FILE_LINES if source.path.startswith("tests/") else FILE_LINES)
    ]
    assert long == []


def test_every_module_says_what_it_is() -> None:
    silent = [source.path for source in sources() if not _is_marker(source.path) and not source.described]
    assert silent == []


def test_docstrings_begin_with_a_subject_or_a_verb() -> None:
    """An indirect question or half a sentence needs the name above it, and a second reading."""
    found = [
        f"{source.path}:{line}: {text}"
        for source in sources()
        for line, text in source.openings
        if OPENINGS_OF_NO_SENTENCE.match(text)
    ]
    assert found == []
