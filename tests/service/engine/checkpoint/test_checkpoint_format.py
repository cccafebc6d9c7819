"""Checkpoints are written as the golden file of their format was."""

from dataflow.engine.chunks import NodeGroups, NodeRows, RankedKeys
from service.engine.checkpoint.frames import FORMAT, FrameKind
from service.engine.checkpoint.writing import CHUNKS
from tests.service.engine.checkpoint.golden import GOLDEN, contents, written

ADVICE = (
    f"Checkpoints of format {FORMAT} are written otherwise than before. If frames, chunks, rows, groups or records "
    "of the leaf store are represented in another way, raise `FORMAT`; then, or if only the plan of one of the golden "
    "file's views is another one: python -m tests.service.engine.checkpoint.golden."
)


def test_the_present_format_has_a_golden_file() -> None:
    assert GOLDEN.exists(), ADVICE
    assert len(list(GOLDEN.parent.glob("*.checkpoint"))) == 1, "golden files of formats that are not read any more"


def test_what_is_written_is_what_the_golden_file_has() -> None:
    before, now = contents(GOLDEN.read_bytes()), contents(written())
    assert len(before) == len(now), ADVICE
    for frame, (then, anew) in enumerate(zip(before, now, strict=True)):
        assert then == anew, f"Frame {frame}. {ADVICE}"


def test_the_golden_file_has_everything() -> None:
    """Chunks and frames of all kinds, keys in part and with limits, rows packed and as they are."""
    found = contents(GOLDEN.read_bytes())
    assert {kind for kind, _ in found} == {kind.name for kind in FrameKind if kind is not FrameKind.HOT_KEYS}
    chunks = [value[1] for kind, value in found if kind == FrameKind.STATE.name]
    assert set(map(type, chunks)) == {kind for kind in CHUNKS if kind.__name__ != "Damaged"}
    covered = [chunk for chunk in chunks if type(chunk).__name__ == "CoveredKeys"]
    assert any(chunk.parts and any(chunk.parts) for chunk in covered)
    assert any(chunk.rows for chunk in covered)
    assert {type(chunk.rows[0]) for chunk in chunks if isinstance(chunk, NodeRows)} == {bytes, tuple}
    assert all(chunk.groups for chunk in chunks if isinstance(chunk, NodeGroups))
    assert sum(len(chunk.keys) for chunk in chunks if isinstance(chunk, RankedKeys)) > 50
