"""The process of a job, before it becomes the job: it yields to others, and ends with whoever started it.

``python -m service.engine.builds.child PARENT NICE ARGUMENTS…`` becomes ``python ARGUMENTS…``. The kernel ends it when
its parent ends, however that ends; what the job starts ends by itself when the job does.

Not here: what the job is told (`builds.job`).
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    """Becomes the job."""
    parent, nice, *command = arguments
    os.nice(int(nice))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        # It ended before the kernel was told.
        sys.exit(1)
    os.execv(sys.executable, [sys.executable, "-P", *command])


if __name__ == "__main__":
    main(sys.argv[1:])
