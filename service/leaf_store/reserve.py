"""Pages of the store's file that are there before they are written, and how many there can be.

*Theory*: the file is written through memory, and a page for which the file system has no room ends the process that
touches it (SIGBUS: mmap(2)). Pages are asked for beforehand (posix_fallocate(3)), so others do not get them; and what
is held is bounded by what there is room for. LMDB uses pages that were freed before it takes new ones.

Not here: who forgets (`service.engine.loop.memory_budget`).
"""

import os
from contextlib import suppress
from pathlib import Path

#: So much is asked for beyond the last page, and again when half of it is used.
AHEAD_BYTES = 16 << 20
#: The file may be larger than its contents by so much: pages that are free, and those of older readers.
FILE_PER_CONTENTS = 1.5


class Reserve:
    """Keeps pages of one file ahead of what is written. *State*: `_reserved_bytes`, up to where they were asked for."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b", buffering=0)
        self._reserved_bytes = 0

    def keep(self, file_bytes: int) -> None:
        """See to it that there are pages behind so many bytes that are used, if there is room."""
        if self._reserved_bytes - file_bytes < AHEAD_BYTES // 2 and self._free_bytes > AHEAD_BYTES:
            # Others may have been quicker, and not every file system can be asked.
            with suppress(OSError):
                os.posix_fallocate(self._file.fileno(), 0, file_bytes + AHEAD_BYTES)
            self._reserved_bytes = file_bytes + AHEAD_BYTES

    @property
    def contents_bytes(self) -> int:
        """How much the store may hold, so that its file has room."""
        return int((os.fstat(self._file.fileno()).st_blocks * 512 + self._free_bytes) / FILE_PER_CONTENTS)

    @property
    def _free_bytes(self) -> int:
        found = os.fstatvfs(self._file.fileno())
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        """Close the file; again, that does nothing."""
        self._file.close()
