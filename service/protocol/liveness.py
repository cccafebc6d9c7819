"""A child process's beats: it says every second that it runs and that its loop has turns (`service.supervisor.children`
listens).

*Theory*: a process that was stopped, waits for swapped pages or hangs does not end, so nobody would start it again. The
beats come from a thread: a step of the loop may rightly take seconds. That the thread runs says nothing of the loop, so
it looks when the loop had its last turn, says once where it is if that is long ago, and then does not beat any more.
"""

import asyncio
import faulthandler
import os
import sys
import threading
import time

import structlog

#: What a beat is, on the pipe to the supervisor: a report (`service.protocol.child`) is never empty.
BEAT = b"\n"
BEAT_S = 1.0
#: A loop without a turn for so long is worth a line in the log.
LATE_S = 10.0
#: One without a turn for so long hangs. One step may fill a view of very many rows; a service whose engine does nothing
#: else for longer is away.
HANGS_S = 600.0

_log = structlog.get_logger()


class Beats(threading.Thread):
    """The thread. Begins with the process; `follow` is called when there is a loop."""

    def __init__(self, pipe: int) -> None:
        super().__init__(name="beats", daemon=True)
        self._pipe = pipe
        self._loop: asyncio.AbstractEventLoop | None = None
        self._turned_s = 0.0
        self._said = self._asked = False

    def follow(self, loop: asyncio.AbstractEventLoop) -> None:
        """Makes beats depend on `loop`: they stop while it hangs."""
        self._turned_s = time.monotonic()
        self._loop = loop

    def run(self) -> None:
        """Beat, for as long as there is a supervisor."""
        while True:
            time.sleep(BEAT_S)
            if self._late_s() < HANGS_S:
                try:
                    os.write(self._pipe, BEAT)
                except OSError:
                    return

    def _late_s(self) -> float:
        """For how long the loop has had no turn."""
        loop = self._loop
        if loop is None:
            return 0.0
        if not self._asked:
            self._asked = True
            try:
                loop.call_soon_threadsafe(self._turn)
            except RuntimeError:
                # It was closed: the process ends.
                self._loop = None
                return 0.0
        late_s = time.monotonic() - self._turned_s
        if late_s > LATE_S and not self._said:
            self._said = True
            _log.warning("the event loop has had no turn for some time; this is where it is", late_s=round(late_s, 1))
            faulthandler.dump_traceback(sys.stderr)
        return late_s

    def _turn(self) -> None:
        self._turned_s = time.monotonic()
        self._said = self._asked = False


_beats: Beats | None = None


def begin() -> None:
    """Beat from now on, on standard output."""
    global _beats
    _beats = Beats(sys.stdout.fileno())
    _beats.start()


def follow_loop() -> None:
    """Makes beats depend on the running event loop, in a process that beats."""
    if _beats is not None:
        _beats.follow(asyncio.get_running_loop())
