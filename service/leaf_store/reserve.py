"""Reservation of pages of the store's file, and the bound on its size.

*Theory*: the file is written through memory, and a page for which the file system has no room ends the process that
touches it (SIGBUS: mmap(2)). Pages are allocated before they are written (posix_fallocate(3)), so that others cannot
take them, and the contents are bounded by the available room. LMDB reuses freed pages before it takes new ones.

Not here: eviction to stay within the bound (`service.engine.loop.memory_budget`).
"""

import os
from contextlib import suppress
from pathlib import Path

#: Bytes that are reserved beyond the last page, renewed when half of them are used.
AHEAD_BYTES = 16 << 20
#: Maximum ratio of the file's size to its contents: free pages, and pages of older readers.
FILE_PER_CONTENTS = 1.5


class Reserve:
    """Keeps pages of one file reserved. *State*: `_reserved_bytes`, the end of the reserved pages."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("r+b", buffering=0)
        self._reserved_bytes = 0

    def keep(self, file_bytes: int) -> None:
        """Reserve pages after the used bytes, if there is room."""
        if self._reserved_bytes - file_bytes < AHEAD_BYTES // 2 and self._free_bytes > AHEAD_BYTES:
            # Others may have taken the room, and some file systems do not support the call.
            with suppress(OSError):
                os.posix_fallocate(self._file.fileno(), 0, file_bytes + AHEAD_BYTES)
            self._reserved_bytes = file_bytes + AHEAD_BYTES

    @property
    def contents_bytes(self) -> int:
        """Return the maximum bytes of contents for which the file has room."""
        return int((os.fstat(self._file.fileno()).st_blocks * 512 + self._free_bytes) / FILE_PER_CONTENTS)

    @property
    def _free_bytes(self) -> int:
        found = os.fstatvfs(self._file.fileno())
        return found.f_bavail * found.f_frsize

    def close(self) -> None:
        self._file.close()
