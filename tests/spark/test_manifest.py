"""A build is used only if it is whole and the one that was wanted."""

import json
from pathlib import Path

import pytest

from dataflow.plan.nodes import Chain
from dataflow.scalar import ColumnRef
from dataflow.schema import Column, SqlType, Table
from dataflow.spark.fingerprint import fingerprint
from dataflow.spark.manifest import (
    NAME,
    FilePart,
    Manifest,
    ManifestRefused,
    RelationFiles,
    digest,
    read_manifest,
    read_note,
    verify,
    write_manifest,
    write_note,
)

TEXT = SqlType("text", "text")
TABLE = Table("public.t", (Column("a", TEXT), Column("b", TEXT)), estimated_rows=5)
CHAIN = Chain(TABLE.name, None, (ColumnRef(0, TEXT),))


@pytest.fixture
def whole(tmp_path: Path) -> Manifest:
    """A build of one file."""
    file = tmp_path / "r0" / "part-00000.parquet"
    file.parent.mkdir()
    file.write_bytes(b"rows")
    files = RelationFiles(3, (FilePart(file.name, 3, digest(file)),))
    manifest = Manifest("f", "10:12:11", 77, "00000003-1", {"r0": files})
    write_manifest(tmp_path, manifest)
    return manifest


def test_what_is_whole_is_read(tmp_path: Path, whole: Manifest) -> None:
    found = read_manifest(tmp_path, "f", "10:12:11")
    assert found == whole
    verify(tmp_path, found)


def test_what_is_foreign_or_damaged_is_refused(tmp_path: Path, whole: Manifest) -> None:
    with pytest.raises(ManifestRefused, match="other relations"):
        read_manifest(tmp_path, "g")
    with pytest.raises(ManifestRefused, match="another version"):
        read_manifest(tmp_path, "f", "10:13:")
    with pytest.raises(ManifestRefused, match="did not end"):
        read_manifest(tmp_path / "r0", "f")
    file = tmp_path / "r0" / "part-00000.parquet"
    file.write_bytes(b"rowz")
    with pytest.raises(ManifestRefused, match="changed or damaged"):
        verify(tmp_path, whole)
    file.unlink()
    with pytest.raises(ManifestRefused, match="missing"):
        verify(tmp_path, whole)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("format",), 2),
        (("bound",), "77"),
        (("bound",), True),
        (("version",), None),
        (("relations",), []),
        (("relations",), {"../r0": {"rows": 0, "files": []}}),
        (("relations", "r0", "rows"), 4),
        (("relations", "r0", "files", 0, "name"), "../../etc/passwd"),
        (("relations", "r0", "files", 0, "rows"), -3),
    ],
)
@pytest.mark.usefixtures("whole")
def test_a_manifest_that_says_something_else_is_refused(tmp_path: Path, path: tuple[str | int, ...], value) -> None:
    document = json.loads((tmp_path / NAME).read_text())
    at = document
    for step in path[:-1]:
        at = at[step]
    at[path[-1]] = value
    (tmp_path / NAME).write_text(json.dumps(document))
    with pytest.raises(ManifestRefused):
        read_manifest(tmp_path, "f")


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '"x"'])
def test_no_manifest_at_all(tmp_path: Path, text: str) -> None:
    (tmp_path / NAME).write_text(text)
    with pytest.raises(ManifestRefused):
        read_manifest(tmp_path, "f")


def test_a_part_counts_only_as_it_was_written(tmp_path: Path) -> None:
    file = tmp_path / "part-00001.parquet"
    file.write_bytes(b"rows")
    assert read_note(file) is None
    write_note(file, FilePart(file.name, 2, digest(file)))
    assert read_note(file) == FilePart(file.name, 2, digest(file))
    file.write_bytes(b"row")
    assert read_note(file) is None


def test_the_fingerprint_is_of_relations_and_columns_alone() -> None:
    made = fingerprint([CHAIN], {TABLE.name: TABLE})
    assert made == fingerprint([CHAIN], {TABLE.name: Table(TABLE.name, TABLE.columns, estimated_rows=9)})
    others = [
        fingerprint([CHAIN], {TABLE.name: Table(TABLE.name, TABLE.columns[::-1])}),
        fingerprint([CHAIN, CHAIN], {TABLE.name: TABLE}),
        fingerprint([Chain(TABLE.name, None, (ColumnRef(1, TEXT),))], {TABLE.name: TABLE}),
    ]
    assert len({made, *others}) == 4
