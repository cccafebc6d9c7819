"""A child process, kept alive: started, started again with growing pauses when it dies, and stopped.

*Invariants*: a child never outlives its parent (`service.child`).

Not here: which children there are (`supervisor`, `gateway_supervisor`).
"""

import asyncio
import contextlib
import sys
import time
from collections.abc import Iterable

import structlog

from service.child import STOP_S, StartReport, child_environment, read_report, send_configuration
from service.runtime.backoff import Backoff

log = structlog.get_logger()

#: A child that lived this long before it died had started well.
STEADY_S = 30.0


class StartError(Exception):
    """The service cannot start; the text says why and what to do."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Child:
    """One child process, kept alive.

    State: `process` is the running one, or the last; `restarts` counts those after the first. `configuration` is what
    the next one is given.
    """

    def __init__(self, name: str, configuration: object, inherited: tuple[int, ...] = ()) -> None:
        self.name = name
        self.configuration = configuration
        self._inherited = inherited
        self._backoff = Backoff()
        self._stopping = False
        self._keeper: asyncio.Task[None] | None = None
        self.process: asyncio.subprocess.Process | None = None
        self.restarts = 0

    @property
    def alive(self) -> bool:
        """Whether the process runs right now."""
        return self.process is not None and self.process.returncode is None

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
            await asyncio.wait_for(self.process.wait(), STOP_S)
        except TimeoutError:
            log.warning("child did not stop; ending it", child=self.name)
            with contextlib.suppress(ProcessLookupError):
                self.process.kill()
            await self.process.wait()

    async def _keep(self) -> None:
        started = time.monotonic()
        while not self._stopping:
            assert self.process is not None
            code = await self.process.wait()
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
            # The name is for whoever looks at the processes.
            sys.executable, "-P", "-m", "service.child", self.name,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            pass_fds=self._inherited,
            env=child_environment(),
            # Ctrl-C in a terminal reaches the whole foreground group; children stop when the supervisor says so.
            start_new_session=True,
        )  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(send_configuration(self.configuration))
        report = read_report(await process.stdout.readline())
        if report is None:
            await process.wait()
            return StartReport(ready=False)
        if not report.ready:
            await process.wait()
        return report


async def start_all(children: Iterable[Child]) -> None:
    """Starts them at once. Raises what the first of them raises, when all are through with it."""
    results = await asyncio.gather(*(child.start() for child in children), return_exceptions=True)
    for failure in results:
        if isinstance(failure, BaseException):
            raise failure
