"""A build's table of contents: which files hold which rows, of which relations, at which version.

It is written last, and at once, so that a folder with a manifest is a whole build. Beside each file, the task
that wrote it puts what it wrote (`FilePart`), so that an interrupted build goes on where it was.

*Invariants*: nothing of a build is used before the manifest was found to be of the wanted fingerprint and version and
each file to be what the manifest says. Names that a manifest gives never lead out of its folder.

Not here: what is in the files (`build_parts`). Neither Spark nor Arrow are needed to read a manifest.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dataflow.spark.fingerprint import FORMAT

NAME = "manifest.json"
_PART = re.compile(r"part-[0-9]{5,9}\.parquet")
_RELATION = re.compile(r"[A-Za-z0-9_]{1,40}")
_READ_BYTES = 1 << 20


class ManifestRefused(Exception):
    """A build that is not to be used, and why."""


@dataclass(frozen=True, slots=True)
class FilePart:
    """A file of a relation: its name in the relation's folder, its rows, the SHA-256 of its bytes."""

    name: str
    rows: int
    sha256: str


@dataclass(frozen=True, slots=True)
class RelationFiles:
    """All files of a relation, in order."""

    rows: int
    files: tuple[FilePart, ...]


@dataclass(frozen=True, slots=True)
class Manifest:
    """A whole build. `version` is the snapshot's text (``pg_current_snapshot()``), `bound` a position that the stream
    must have reached to include all that the snapshot sees, `snapshot` the name under which it was exported."""

    fingerprint: str
    version: str
    bound: int
    snapshot: str
    relations: Mapping[str, RelationFiles]


def write_manifest(folder: Path, manifest: Manifest) -> None:
    """Write it at once: readers see all of it or none."""
    write_json(folder / NAME, {"format": FORMAT, **asdict(manifest)})


def read_manifest(folder: Path, fingerprint: str, version: str | None = None) -> Manifest:
    """The manifest of a build, if it is one of `fingerprint` (and of `version`). Its files are not looked at: see
    `verify`. Raises ManifestRefused."""
    try:
        found = json.loads((folder / NAME).read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestRefused("there is no manifest: the build did not end") from None
    except (OSError, ValueError):
        raise ManifestRefused("the manifest cannot be read") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise ManifestRefused("the manifest is of another format")
    try:
        manifest = _parsed(found)
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ManifestRefused("the manifest does not say what it should") from None
    if manifest.fingerprint != fingerprint:
        raise ManifestRefused("the build is of other relations or tables")
    if version is not None and manifest.version != version:
        raise ManifestRefused("the build is of another version of the data")
    return manifest


def verify(folder: Path, manifest: Manifest) -> None:
    """Check that every file exists and has the bytes that the manifest lists. Raises ManifestRefused."""
    for relation, files in manifest.relations.items():
        for part in files.files:
            verify_file(folder / relation / part.name, part)


def verify_file(path: Path, part: FilePart) -> None:
    """Check that a file has the bytes that were written. Raises ManifestRefused."""
    try:
        found = digest(path)
    except OSError:
        raise ManifestRefused(f"{path.parent.name}/{part.name} is missing or cannot be read") from None
    if found != part.sha256:
        raise ManifestRefused(f"{path.parent.name}/{part.name} has been changed or damaged")


def digest(path: Path) -> str:
    """The SHA-256 of a file. Raises OSError."""
    sha256 = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(_READ_BYTES):
            sha256.update(block)
    return sha256.hexdigest()


# --- parts of a build that has not ended ------------------------------------------------------------------------------


def write_note(path: Path, part: FilePart) -> None:
    """Beside the file at `path`, say what was written."""
    write_json(_note(path), asdict(part))


def read_note(path: Path, check: bool = True) -> FilePart | None:
    """Reads the note about a finished file at `path`, if it still fits the file (unless that is not to be checked)."""
    try:
        part = _part(json.loads(_note(path).read_text(encoding="utf-8")))
        if check:
            verify_file(path, part)
    except (OSError, ValueError, KeyError, TypeError, ManifestRefused):
        return None
    return part if part.name == path.name else None


def write_json(path: Path, document: Mapping[str, Any]) -> None:
    """Write a file at once: its name is given to it when it is whole and on the disk."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(document, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def _note(path: Path) -> Path:
    return path.with_name(f"{path.name}.json")


def _parsed(found: Mapping[str, Any]) -> Manifest:
    relations = {_named(_RELATION, name): _relation(files) for name, files in found["relations"].items()}
    return Manifest(
        _text(found["fingerprint"]),
        _text(found["version"]),
        _number(found["bound"]),
        _text(found["snapshot"]),
        relations,
    )


def _relation(found: Mapping[str, Any]) -> RelationFiles:
    files = tuple(_part(part) for part in found["files"])
    rows = _number(found["rows"])
    if rows != sum(part.rows for part in files) or len({part.name for part in files}) != len(files):
        raise ValueError("rows or names of files do not add up")
    return RelationFiles(rows, files)


def _part(found: Mapping[str, Any]) -> FilePart:
    return FilePart(_named(_PART, found["name"]), _number(found["rows"]), _text(found["sha256"]))


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("a text is expected")
    return value


def _number(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise TypeError("a number is expected")
    return value


def _named(form: re.Pattern[str], value: object) -> str:
    if not form.fullmatch(_text(value)):
        raise ValueError("no name of a build")
    return str(value)


__all__ = [
    "NAME",
    "FilePart",
    "Manifest",
    "ManifestRefused",
    "RelationFiles",
    "digest",
    "read_manifest",
    "read_note",
    "verify",
    "verify_file",
    "write_json",
    "write_manifest",
    "write_note",
]
