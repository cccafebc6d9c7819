"""What this process or its machine lacks to connect: no sign of a pod's being away.

Not here: how many files a worker may have (`worker`).
"""

import errno
import os
from socket import gaierror

from service.ground.errors import ApiError

_LACKING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL})


def refuse_shortage(error: Exception) -> None:
    """ApiError ``overloaded`` if that is why there is no connection."""
    if isinstance(error, OSError) and (error.errno in _LACKING or (isinstance(error, gaierror) and not _can_open())):
        raise ApiError(
            "overloaded", "The gateway has reached its maximum of connections.", "Try again in a moment."
        ) from None


def _can_open() -> bool:
    """Where a name is not found for want of a file, nothing else says so."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True
