"""Launcher of a job's process: lowers its priority and ties its life to that of its parent.

``python -m service.protocol.launcher PARENT NICE ARGUMENTS…`` becomes ``python ARGUMENTS…``. The kernel kills it when
its parent ends in any way; the job's own children end with the job.

Not here: the job's input (`service.engine.builds.job`).
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main(arguments: list[str]) -> None:
    parent, nice, *command = arguments
    os.nice(int(nice))
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != int(parent):
        # The parent ended before the kernel was notified.
        sys.exit(1)
    os.execv(sys.executable, [sys.executable, "-P", *command])


if __name__ == "__main__":
    main(sys.argv[1:])
