"""Job process: input, progress and result of a Spark job run as a child process (`dataflow.spark.build`).

The job runs in a session of its own, with all processes that it starts: a JVM and its workers. When the job ends, the
rest of the session is killed. Its input, including passwords, is one line on standard input, which stays open as long
as the job is wanted.

*Invariants*: after `run` no process of the job remains, however it ended, including cancellation.

Not here: the choice of jobs, and failures (`builds.build`).
"""

import asyncio
import json
import os
import signal
import sys
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from service.protocol.child import child_environment

#: Python arguments of the job.
PROGRAM = ("-m", "dataflow.spark.build")
#: Number of log lines kept, and the maximum length of a line read at once.
_KEPT_LINES = 30
_LINE_LIMIT = 1 << 16
#: Interval of checks for the job's end, and the time allowed for its last output.
_PULSE_S = 0.2
_LAST_WORDS_S = 1.0
#: Maximum time for killed processes to disappear.
_GONE_S = 10.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class JobProgress:
    """Progress line of the job."""

    phase: str
    rows: int = 0
    tasks_done: int = 0
    tasks: int = 0
    jvm_mib: int | None = None


@dataclass(frozen=True, slots=True)
class JobEnd:
    """Result of a job; `problem` is a code, or None on success."""

    #: None on success, ``killed``, ``died``, or the job's code.
    problem: str | None
    detail: str = ""
    hint: str | None = None
    #: True if a retry may succeed.
    retryable: bool = True
    #: Last lines of its log.
    log: tuple[str, ...] = ()


class JobProcess:
    """Run of a job. *State*: `pid` of its process, once started."""

    def __init__(self, program: Sequence[str], nice: int, directory: Path) -> None:
        self._program = program
        self._nice = nice
        #: Directory of temporary files.
        self._directory = directory
        self.pid: int | None = None

    async def run(self, document: Mapping[str, Any], report: Callable[[JobProgress], None]) -> JobEnd:
        """Runs the job to its end."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "service.protocol.launcher",
            str(os.getpid()),
            str(self._nice),
            *self._program,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=_environment(self._directory),
            limit=_LINE_LIMIT,
            start_new_session=True,
        )
        self.pid = process.pid
        try:
            return await self._talk(process, document, report)
        finally:
            await asyncio.shield(asyncio.ensure_future(_end(process)))

    async def _talk(
        self, process: asyncio.subprocess.Process, document: Mapping[str, Any], report: Callable[[JobProgress], None]
    ) -> JobEnd:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        last: dict[str, Any] = {}
        log: deque[str] = deque(maxlen=_KEPT_LINES)
        listening = {
            asyncio.ensure_future(_listen(process.stdout, report, last)),
            asyncio.ensure_future(_collect(process.stderr, log)),
        }
        try:
            # The job has died, which is detected below. (uvloop raises RuntimeError.)
            with suppress(ConnectionError, RuntimeError):
                process.stdin.write(json.dumps(document).encode() + b"\n")
                await process.stdin.drain()
            # `wait` also waits for the pipes, which processes started by the job may hold open.
            while (code := process.returncode) is None:
                await asyncio.wait(listening, timeout=_PULSE_S)
                if all(task.done() for task in listening):
                    await process.wait()
            await asyncio.wait(listening, timeout=_LAST_WORDS_S)
        finally:
            for task in listening:
                task.cancel()
        if code == 0:
            return JobEnd(None)
        return _ended(code, last, tuple(log))


def _environment(directory: Path) -> dict[str, str]:
    """Returns the environment. Temporary files go below `directory`, so that a killed job leaves none elsewhere."""
    environment = child_environment()
    java = f'{environment.get("JDK_JAVA_OPTIONS", "")} "-Djava.io.tmpdir={directory}"'.strip()
    return {**environment, "TMPDIR": str(directory), "SPARK_LOCAL_DIRS": str(directory), "JDK_JAVA_OPTIONS": java}


async def _listen(stream: asyncio.StreamReader, report: Callable[[JobProgress], None], last: dict[str, Any]) -> None:
    """Reads all output of the job; `last` becomes its last message."""
    while line := await _line(stream):
        try:
            said = json.loads(line)
        except ValueError:
            continue
        if not isinstance(said, dict):
            continue
        last.clear()
        last.update(said)
        if "phase" in said:
            report(
                JobProgress(
                    str(said["phase"]),
                    int(said.get("rows") or 0),
                    int(said.get("tasks_done") or 0),
                    int(said.get("tasks") or 0),
                    said.get("jvm_mib"),
                )
            )


async def _collect(stream: asyncio.StreamReader, log: "deque[str]") -> None:
    while line := await _line(stream):
        log.append(line.decode("utf-8", "replace").rstrip()[:500])


async def _line(stream: asyncio.StreamReader) -> bytes:
    """Returns the next line; empty at the end. A long line is returned in pieces."""
    try:
        return await stream.readuntil()
    except asyncio.IncompleteReadError as end:
        return end.partial
    except asyncio.LimitOverrunError as overrun:
        return await stream.readexactly(max(1, overrun.consumed))


def _ended(code: int, last: Mapping[str, Any], log: tuple[str, ...]) -> JobEnd:
    if "error" in last:
        hint = str(last.get("hint") or "") or None
        return JobEnd(str(last["error"]), str(last.get("detail") or ""), hint, bool(last.get("retryable")), log)
    if code < 0:
        return JobEnd("killed", f"The job was ended by {signal.Signals(-code).name}.", log=log)
    return JobEnd("died", f"The job ended with exit code {code}.", log=log)


async def _end(process: asyncio.subprocess.Process) -> None:
    """Kills all processes of the session."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    deadline = asyncio.get_running_loop().time() + _GONE_S
    while members := members_of(process.pid):
        for pid in members:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if asyncio.get_running_loop().time() > deadline:
            break
        await asyncio.sleep(_POLL_S)
    with suppress(TimeoutError):
        await asyncio.wait_for(process.wait(), _GONE_S)


def members_of(session: int) -> list[int]:
    """Returns the live processes of a session (on Linux; elsewhere the process group)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may contain any characters.
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(path.parent.name))
    return found
