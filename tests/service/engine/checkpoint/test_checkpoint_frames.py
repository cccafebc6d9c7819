"""A checkpoint's frames: whatever happens to the bytes, no body is returned that was not written."""

from io import BytesIO
from random import Random

import pytest

from service.engine.checkpoint.frames import (
    FORMAT,
    MAGIC,
    FrameKind,
    UnknownFormatError,
    read_frames,
    write_frame,
    write_magic,
)

BODIES = [b"", b"one", bytes(range(256)), b"last"]


def _written() -> bytes:
    file = BytesIO()
    write_magic(file)
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
    content[random.randrange(len(MAGIC) + 2, len(content))] ^= 1 << random.randrange(8)
    found = _read(bytes(content))
    assert found != WHOLE
    assert all(each in (whole, (whole[0], None)) for each, whole in zip(found, WHOLE, strict=False))


def test_a_truncated_file_has_the_frames_before_its_end() -> None:
    content = _written()
    for size in range(len(MAGIC) + 2, len(content)):
        found = _read(content[:size])
        assert found == WHOLE[: len(found)]
        assert len(found) < len(WHOLE)


@pytest.mark.parametrize("content", [b"", MAGIC, MAGIC[:-1] + b"\x00\x02", MAGIC + b"\x00", b"PK\x03\x04" * 100])
def test_other_files_are_no_checkpoints(content: bytes) -> None:
    with pytest.raises(UnknownFormatError):
        _read(content)


@pytest.mark.parametrize("version", [0, 1, FORMAT + 1, 0xFFFF])
def test_another_format_is_refused_by_name(version: int) -> None:
    content = MAGIC + version.to_bytes(2, "big") + _written()[len(MAGIC) + 2 :]
    with pytest.raises(UnknownFormatError, match=f"It has format {version}; .* reads format {FORMAT}"):
        _read(content)
