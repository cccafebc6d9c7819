"""How many more files, connections among them, this process may open (getrlimit(2), RLIMIT_NOFILE)."""

import os
import resource

_OPEN = "/proc/self/fd"


def files_left() -> int:
    """0: the next connection cannot be accepted. -1 where the kernel does not tell, or there is no limit."""
    limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        # Since Linux 6.2 the directory's size is how many there are; reading it costs as much as they are many.
        opened = os.stat(_OPEN).st_size or len(os.listdir(_OPEN))
    except OSError:
        return -1
    return -1 if limit == resource.RLIM_INFINITY else max(0, limit - opened)
