"""Number of files, connections among them, that this process may still open (getrlimit(2), RLIMIT_NOFILE)."""

import os
import resource

_OPEN = "/proc/self/fd"


def files_left() -> int:
    """Return the number; 0: the next connection cannot be accepted. -1: unknown, or no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        # Since Linux 6.2 the directory's size is the number of open files; listing it takes time in proportion.
        opened = os.stat(_OPEN).st_size or len(os.listdir(_OPEN))
    except OSError:
        return -1
    return -1 if limit == resource.RLIM_INFINITY else max(0, limit - opened)
