"""A checkpoint's frames: whatever happens to the bytes, no body is returned that was not written."""

from io import BytesIO
from random import Random

import pytest

from service.engine.checkpoint.frames import MAGIC, FrameKind, UnknownFormatError, read_frames, write_frame

BODIES = [b"", b"one", bytes(range(256)), b"last"]


def _written() -> bytes:
    file = BytesIO()
    file.write(MAGIC)
    for body in BODIES:
        write_frame(file, FrameKind.STATE, body)
    write_frame(file, FrameKind.END, b"")
    return file.getvalue()


def _read(content: bytes) -> list[tuple[FrameKind, bytes | None]]:
    return list(read_frames(BytesIO(content)))


WHOLE = [*((FrameKind.STATE, body) for body in BODIES), (FrameKind.END, b"")]


def test_frames_are_read_as_they_were_written() -> None:
    assert _read(_written()) == WHOLE


@pytest.mark.parametrize("seed", range(300))
def test_a_flipped_bit_costs_a_frame_or_the_rest(seed: int) -> None:
    random, content = Random(seed), bytearray(_written())
    content[random.randrange(len(MAGIC), len(content))] ^= 1 << random.randrange(8)
    found = _read(bytes(content))
    assert found != WHOLE
    assert all(each in (whole, (whole[0], None)) for each, whole in zip(found, WHOLE, strict=False))


def test_a_truncated_file_has_the_frames_before_its_end() -> None:
    content = _written()
    for size in range(len(MAGIC), len(content)):
        found = _read(content[:size])
        assert found == WHOLE[: len(found)]
        assert len(found) < len(WHOLE)


@pytest.mark.parametrize("content", [b"", MAGIC[:-1], MAGIC[:-1] + b"\x02", b"PK\x03\x04" * 100])
def test_other_files_are_no_checkpoints(content: bytes) -> None:
    with pytest.raises(UnknownFormatError):
        _read(content)
