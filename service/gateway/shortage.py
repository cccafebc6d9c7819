"""Errors of connecting that this process or machine causes: no sign that a pod is away.

Not here: the limit on a worker's files (`worker`).
"""

import errno
import os
from socket import gaierror

from service.ground.errors import ApiError

_LACKING = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.EADDRNOTAVAIL})


def refuse_shortage(error: Exception) -> None:
    """Raises ApiError(overloaded) if the error is such a shortage."""
    if isinstance(error, OSError) and (error.errno in _LACKING or (isinstance(error, gaierror) and not _can_open())):
        raise ApiError(
            "overloaded", "The gateway has reached its maximum of connections.", "Try again in a moment."
        ) from None


def _can_open() -> bool:
    """Return whether a file can be opened: a failed name lookup does not report the lack of one."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return False
    return True
