"""A job as a child process: what it is told, what it says, how it ends (`dataflow.spark.build`).

It is a session of its own, with all that it starts: a Java, and that one's workers. What has not ended when the job
has is ended. What it is told, passwords among it, is one line on its standard input, which stays open as long as the
job is wanted.

*Invariants*: after `run` nothing of the job is left, however it ended, and also when it was cancelled.

Not here: which job, and what is done when it fails (`builds.build`).
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

#: The job itself: arguments of Python.
PROGRAM = ("-m", "dataflow.spark.build")
#: Of what the job logs, the last lines are kept; the longest line that is read at once.
_KEPT_LINES = 30
_LINE_LIMIT = 1 << 16
#: How soon it is noticed that it has ended, and how long for what it said last.
_PULSE_S = 0.2
_LAST_WORDS_S = 1.0
#: How long what was killed may take to be gone.
_GONE_S = 10.0
_POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Said:
    """A line of the job's progress."""

    phase: str
    rows: int = 0
    tasks_done: int = 0
    tasks: int = 0
    jvm_mib: int | None = None


@dataclass(frozen=True, slots=True)
class JobEnd:
    """How a job ended: with `problem`, a code, unless it did what it was to do."""

    #: None: it is done. ``killed``, ``died``, or what the job says.
    problem: str | None
    detail: str = ""
    hint: str | None = None
    #: Whether the same may go well another time.
    retryable: bool = True
    #: The last lines of its log.
    log: tuple[str, ...] = ()


class JobProcess:
    """One run. *State*: `pid` of the process, once there is one."""

    def __init__(self, program: Sequence[str], nice: int, directory: Path) -> None:
        self._program = program
        self._nice = nice
        #: For temporary files.
        self._directory = directory
        self.pid: int | None = None

    async def run(self, document: Mapping[str, Any], told: Callable[[Said], None]) -> JobEnd:
        """Run it to its end."""
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "service.engine.builds.child",
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
            return await self._talk(process, document, told)
        finally:
            await asyncio.shield(asyncio.ensure_future(_end(process)))

    async def _talk(
        self, process: asyncio.subprocess.Process, document: Mapping[str, Any], told: Callable[[Said], None]
    ) -> JobEnd:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        last: dict[str, Any] = {}
        log: deque[str] = deque(maxlen=_KEPT_LINES)
        listening = {
            asyncio.ensure_future(_listen(process.stdout, told, last)),
            asyncio.ensure_future(_collect(process.stderr, log)),
        }
        try:
            # It has died: that is seen below. (RuntimeError is uvloop's word for it.)
            with suppress(ConnectionError, RuntimeError):
                process.stdin.write(json.dumps(document).encode() + b"\n")
                await process.stdin.drain()
            # `wait` waits for the pipes, too, and what the job started may keep them open.
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
    """What is temporary goes below `directory`: of what is killed, nothing stays anywhere else."""
    environment = child_environment()
    java = f'{environment.get("JDK_JAVA_OPTIONS", "")} "-Djava.io.tmpdir={directory}"'.strip()
    return {**environment, "TMPDIR": str(directory), "SPARK_LOCAL_DIRS": str(directory), "JDK_JAVA_OPTIONS": java}


async def _listen(stream: asyncio.StreamReader, told: Callable[[Said], None], last: dict[str, Any]) -> None:
    """Everything that it says, until it says no more; `last` becomes the last thing."""
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
            told(
                Said(
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
    """The next line; empty at the end. One that is too long is given in pieces."""
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
    """Nothing of its session is left afterwards."""
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
    """Live processes of a session (on Linux; elsewhere a process group must do)."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name, in parentheses, may hold anything.
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] not in "ZX":
            found.append(int(path.parent.name))
    return found
