"""Pages of the store's file that are there before they are written.

*Theory*: the file is written through memory, and a page for which the file system has no room ends the process that
touches it (SIGBUS: mmap(2)). Asked for beforehand, it is an error (ENOSPC: posix_fallocate(3)). LMDB uses pages that
were freed before it takes new ones, so a file for which there is no room does not have to grow: who forgets enough goes
on writing.

Not here: who forgets (`service.runtime.budget`).
"""

import errno
import os
from pathlib import Path

#: So much is asked for beyond the last page, and again when half of it is used: several commits.
AHEAD_BYTES = 16 << 20


class Reserve:
    """Of one file. *State*: `lacking`, whether there was no room when it was asked for last."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_RDWR)
        self._reserved_bytes = 0
        self.lacking = False

    def keep(self, file_bytes: int) -> None:
        """See to it that there are pages behind so many bytes that are used; the page that is used may be new."""
        if self._reserved_bytes - file_bytes >= AHEAD_BYTES // 2:
            return
        wanted = file_bytes + AHEAD_BYTES
        try:
            os.posix_fallocate(self._file, 0, wanted)
        except OSError as error:
            self.lacking = error.errno == errno.ENOSPC
            if not self.lacking:
                # This file system cannot be asked.
                self._reserved_bytes = 1 << 62
            return
        self._reserved_bytes, self.lacking = wanted, False

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)
