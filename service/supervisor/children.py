"""Supervision of a child process: started, started again with growing pauses when it dies or hangs, and stopped.

*Invariants*: a child never outlives its parent (`service.protocol.child`). One that does not beat
(`service.protocol.liveness`) is ended.

Not here: which children there are (`stack`, `gateway`).
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Awaitable, Callable, Iterable
from functools import partial

import structlog

from service.ground.backoff import Backoff
from service.protocol.child import SHOW, STOP_S, StartReport, child_environment, read_report, send_configuration
from service.protocol.liveness import BEAT

log = structlog.get_logger()

#: A child that lived this long before it died had started well.
STEADY_S = 30.0
#: A child that does not beat for so long hangs.
WATCHDOG_S = 10.0
#: Time for a child to print its stacks; then it is ended.
_SHOW_S = 1.0
#: Several beats: on a busy machine one may be late.
_SILENT_S = 5.0


class StartError(Exception):
    """The service cannot start; the text says why and what to do."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Child:
    """One supervised child process.

    State: `process` is the running one, or the last; `restarts` counts those after the first, `hangs` those that were
    ended since they did not beat for `watchdog_s` (0: they never are). `configuration` is what the next one is given.
    """

    def __init__(
        self,
        name: str,
        configuration: object,
        inherited: tuple[int, ...] = (),
        watchdog_s: float = WATCHDOG_S,
        stop_s: float = STOP_S,
    ) -> None:
        self.name = name
        self.configuration = configuration
        self.watchdog_s = watchdog_s
        self._inherited = inherited
        #: How long it may take to stop before it is ended.
        self._stop_s = stop_s
        self._backoff = Backoff()
        self._stopping = False
        self._keeper: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.restarts = self.hangs = 0
        self._heard_s = time.monotonic()

    @property
    def alive(self) -> bool:
        """True if the process runs right now."""
        return self.process is not None and self.process.returncode is None

    @property
    def silent(self) -> bool:
        """True if it runs and has not beaten lately."""
        return self.alive and time.monotonic() - self._heard_s > _SILENT_S

    async def start(self) -> None:
        """Starts the process and keeps it running. Raises `StartError` if the first start fails."""
        report = await self._spawn()
        if not report.ready:
            raise StartError(report.message or f"The {self.name} process died while it started.", report.exit_code)
        self._keeper = asyncio.create_task(self._keep())

    async def stop(self) -> None:
        """Asks the process to stop, ends it if it does not, and does not start it again."""
        self._stopping = True
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self.process is None or not self.alive:
            return
        self.process.terminate()
        try:
            await asyncio.wait_for(self.process.wait(), self._stop_s)
        except TimeoutError:
            log.warning("child did not stop; ending it", child=self.name)
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    async def _keep(self) -> None:
        started = time.monotonic()
        while not self._stopping:
            assert self.process is not None
            code = await self._gone(self.process)
            if time.monotonic() - started > STEADY_S:
                self._backoff.succeeded()
            delay_s = self._backoff.failed()
            log.error("child died; starting it again", child=self.name, exit_code=code, delay_s=delay_s)
            await asyncio.sleep(delay_s)
            self.restarts += 1
            started = time.monotonic()
            report = await self._spawn()
            if not report.ready and report.message:
                log.error("child cannot start", child=self.name, reason=report.message)

    async def _spawn(self) -> StartReport:
        self.process = process = await asyncio.create_subprocess_exec(
            # The name is for lists of processes.
            sys.executable,
            "-P",
            "-m",
            "service.supervisor.child_main",
            self.name,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=self._inherited,
            env=child_environment(),
            # Ctrl-C in a terminal reaches the whole foreground group; children stop when the supervisor says so.
            start_new_session=True,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(send_configuration(self.configuration))
        report = read_report(await self._report(process))
        if report is None:
            await process.wait()
            return StartReport(ready=False)
        if not report.ready:
            await process.wait()
        return report

    async def _report(self, process: asyncio.subprocess.Process) -> bytes:
        """The first line that is no beat; empty if the process is gone before, or hangs and was ended."""
        assert process.stdout is not None
        while (line := await self._heard(process, process.stdout.readline)) == BEAT:
            pass
        return line

    async def _gone(self, process: asyncio.subprocess.Process) -> int:
        """The exit code, when the process is gone or hangs and was ended."""
        assert process.stdout is not None
        gone = asyncio.create_task(process.wait())
        read = partial(process.stdout.read, 1 << 12)

        async def listen() -> None:
            while await self._heard(process, read):
                pass

        listening = asyncio.create_task(listen())
        try:
            # Processes that it has started may hold its output open for longer than it runs.
            await asyncio.wait({gone, listening}, return_when=asyncio.FIRST_COMPLETED)
            return await gone
        finally:
            for task in (listening, gone):
                task.cancel()

    async def _heard(self, process: asyncio.subprocess.Process, read: Callable[[], Awaitable[bytes]]) -> bytes:
        """Output of a process; empty if it was silent for too long and was ended.

        It is waited for twice half of the time: where this very process was stopped, what was said meanwhile is there
        at the second look.
        """
        self._heard_s = time.monotonic()
        for _ in range(2):
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self.watchdog_s / 2 or None):
                    return await read()
        if process.returncode is None:
            await self._end_hanging(process)
        return b""

    async def _end_hanging(self, process: asyncio.subprocess.Process) -> None:
        self.hangs += 1
        log.error("child hangs; ending it", child=self.name, pid=process.pid, silent_s=self.watchdog_s)
        with contextlib.suppress(ProcessLookupError, TimeoutError):
            process.send_signal(SHOW)
            await asyncio.wait_for(process.wait(), _SHOW_S)
        with contextlib.suppress(ProcessLookupError):
            process.kill()


async def start_all(children: Iterable[Child]) -> None:
    """Starts them at once. Raises what the first of them raises, when all are through with it."""
    results = await asyncio.gather(*(child.start() for child in children), return_exceptions=True)
    for failure in results:
        if isinstance(failure, BaseException):
            raise failure
