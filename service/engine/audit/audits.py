"""Audits in the engine process: one at a time, run by a child process at a snapshot that the engine is brought to.

The stream is held while the job takes a snapshot and until the engine is exactly there (`service.engine.loop.hold`); if
transactions cross, another snapshot is tried. Once the job has its read transaction, the stream continues.

*Invariants*: while an audit runs, another one is refused. Each hold takes at most `HOLD_S`, with pauses between.

Not here: the comparison (`job`).
"""

import asyncio
import base64
import pickle
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import orjson
import structlog

from dataflow.types import Position
from service.engine.audit.messages import AuditJob, ViewResult, ViewToAudit, Way
from service.engine.loop.dispatcher import Dispatcher
from service.engine.loop.hold import Hold, HoldLost
from service.engine.upstream.held_snapshot import AuditSnapshot
from service.engine.views.registry import Status, Tier, ViewRegistry
from service.ground.errors import ApiError
from service.ground.version import version_text
from service.leaf_store.writer import LeafWriter
from service.protocol.child import STOP_S, child_environment, send_configuration
from service.settings.stack import Settings

log = structlog.get_logger()

#: Maximum duration of a hold: longer if the stream comes through Kafka.
HOLD_S, KAFKA_HOLD_S = 0.25, 2.0
#: Maximum number of snapshots tried, and the pause between them.
TRIES = 60
_PAUSE_S = 0.05
#: Maximum line from the job: its result.
_LINE_BYTES = 64 << 20
#: Time for the process's start and for everything but comparing.
_PATIENCE_S = 60.0


@dataclass(frozen=True, slots=True)
class AuditOptions:
    """Options of an audit."""

    #: None: all views.
    views: Sequence[str] | None = None
    #: Random keys of each view.
    sample: int | None = None
    way: Way = "direct"
    #: Differences reported in full.
    shown: int = 20
    time_s: float = 600.0


@dataclass(slots=True)
class AuditState:
    """Status ``none``, ``running``, ``done`` or ``failed``, with the available results."""

    status: str = "running"
    way: str = "direct"
    text: str = "starting"
    done: int = 0
    keys: int = 0
    #: Version at which the engine was compared.
    version: str | None = None
    #: Number of snapshots tried, and the longest and total time of holds.
    tries: int = 0
    held_max_ms: float = 0.0
    held_ms: float = 0.0
    seconds: float = 0.0
    views: list[dict[str, Any]] = field(default_factory=list)
    differences: list[dict[str, Any]] = field(default_factory=list)
    #: Reason of a failure.
    reason: str | None = None


class AuditFailed(Exception):
    """Audit without a result; the text gives the reason."""


class Audits:
    """Runs audits. *State*: `_state`, the running or latest audit; None before the first."""

    def __init__(
        self,
        settings: Settings,
        leaf: LeafWriter,
        registry: ViewRegistry,
        dispatcher: Dispatcher,
        hold: Callable[[], Hold | None],
        reach: Callable[[Position], None],
    ) -> None:
        self._settings = settings
        self._leaf = leaf
        self._registry = registry
        self._dispatcher = dispatcher
        self._hold = hold
        self._reach = reach
        self._state: AuditState | None = None
        self._task: asyncio.Task[None] | None = None

    def begin(self, wanted: AuditOptions) -> dict[str, Any]:
        """Starts an audit. Raises `ApiError`."""
        if self._task is not None and not self._task.done():
            raise ApiError("audit_running", "An audit is already running; GET /v1/audit returns its progress.")
        audited, left_out = self._views(wanted)
        state = self._state = AuditState(way=wanted.way)
        job = AuditJob(self._settings, self._leaf.path, audited, wanted.way, wanted.sample, wanted.shown, wanted.time_s)
        self._task = asyncio.get_running_loop().create_task(self._run(job, state, left_out))
        return asdict(state)

    def state(self) -> dict[str, Any]:
        """Returns the progress or the result."""
        return asdict(self._state or AuditState("none", text="no audit since the engine process started"))

    async def close(self) -> None:
        """Cancels the running audit."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _views(self, wanted: AuditOptions) -> tuple[tuple[ViewToAudit, ...], list[ViewResult]]:
        """Returns the views to audit, and results for those that cannot be audited."""
        names = sorted(self._registry.views) if wanted.views is None else wanted.views
        audited, left_out = [], []
        for name in names:
            registered = self._registry.views.get(name)
            if registered is None:
                raise ApiError("view_not_found", f"View {name!r} does not exist.")
            installed = registered.installed
            tier = "" if installed is None else installed.plan.tier.value
            if installed is None or installed.tombstone or installed.status is not Status.READY:
                left_out.append(ViewResult(name, tier, skipped={f"the view is {registered.status.value}": 0}))
            elif installed.plan.tier is Tier.TTL:
                left_out.append(ViewResult(name, tier, skipped={"its answers expire": 0}))
            else:
                audited.append(ViewToAudit(installed.id, name, installed.plan))
        return tuple(audited), left_out

    async def _run(self, job: AuditJob, state: AuditState, left_out: list[ViewResult]) -> None:
        started = perf_counter()
        try:
            if job.views:
                async with asyncio.timeout(job.time_s + _PATIENCE_S):
                    await self._run_job(job, state)
            state.views += [asdict(result) for result in left_out]
            state.status, state.text = "done", "done"
        except AuditFailed as failure:
            state.status, state.reason = "failed", str(failure)
        except TimeoutError:
            state.status, state.reason = "failed", "The audit exceeded its time limit."
        except Exception:
            log.exception("the audit failed")
            state.status, state.reason = (
                "failed",
                "The audit failed because of an internal error; the service's log has the cause.",
            )
        state.seconds = round(perf_counter() - started, 3)
        said = log.error if any(view["differences"] for view in state.views) else log.info
        said(
            "audited",
            status=state.status,
            reason=state.reason,
            seconds=state.seconds,
            differences=sum(view["differences"] for view in state.views),
        )

    async def _run_job(self, job: AuditJob, state: AuditState) -> None:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-P",
            "-m",
            "service.engine.audit.job",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
            env=child_environment(),
        )
        child = _Child(process, state)
        try:
            await child.send(send_configuration(job))
            await self._meet(child, state)
            result = await child.receive("result")
        finally:
            await child.end()
        state.views = result["views"]
        state.differences = result["differences"]

    async def _meet(self, child: "_Child", state: AuditState) -> None:
        """Brings the engine to a snapshot at which the job copies the leaf store."""
        # Before the first snapshot the process has to start and connect, which must not extend a hold.
        try:
            await self._taken(child)
        except HoldLost as lost:
            log.info("the audit's first snapshot failed", reason=str(lost))
        limit_s = HOLD_S if self._settings.cdc.kafka is None else KAFKA_HOLD_S
        last = ""
        for number in range(TRIES):
            state.tries = number + 1
            state.text = "waiting for a snapshot that the engine can reach"
            hold = self._hold()
            if hold is None or not self._dispatcher.running:
                raise AuditFailed("The change stream from the database is down.")
            started = perf_counter()
            try:
                async with hold.held(limit_s):
                    met = await self._met(child, hold)
                if met is not None:
                    state.text, state.version = "copying the leaf store", version_text(met)
                    await child.do("keep")
                    return
                last = "transactions became visible in another order than in the log"
            except HoldLost as lost:
                last = str(lost)
                child.forget()
            finally:
                took_ms = round(1000 * (perf_counter() - started), 1)
                state.held_ms = round(state.held_ms + took_ms, 1)
                state.held_max_ms = max(state.held_max_ms, took_ms)
            await asyncio.sleep(_PAUSE_S)
        raise AuditFailed(
            f"The engine reached no snapshot in {TRIES} attempts: {last}. Try again when fewer writes occur."
        )

    async def _met(self, child: "_Child", hold: Hold) -> Position | None:
        """Returns the engine's position when the job opened the leaf store; None if the engine cannot reach the
        snapshot. Raises `HoldLost`."""
        taken = await self._taken(child)
        self._reach(taken.bound)
        if not await hold.cut(taken.snapshot, taken.bound):
            return None
        position, epoch = self._dispatcher.position, self._leaf.epoch
        await child.do("look")
        looked = await child.receive("looked")
        if looked != {"position": position, "epoch": epoch} or not self._dispatcher.running:
            raise AuditFailed("The change stream was lost meanwhile.")
        return position

    @staticmethod
    async def _taken(child: "_Child") -> AuditSnapshot:
        await child.do("take")
        said = await child.receive("taken")
        if said["snapshot"] is None:
            raise HoldLost(f"no snapshot could be taken: {said['reason']}")
        taken = pickle.loads(base64.b85decode(said["snapshot"]))
        assert isinstance(taken, AuditSnapshot)
        return taken


class _Child:
    """Job process and its lines of input and output; progress lines update the state."""

    def __init__(self, process: asyncio.subprocess.Process, state: AuditState) -> None:
        self._process = process
        self._state = state
        #: Replies that no caller waits for.
        self._owed = 0
        self._asked = 0

    async def send(self, data: bytes) -> None:
        """Writes to its standard input."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(data)
            await self._process.stdin.drain()
        except ConnectionError:
            raise AuditFailed("The audit's process ended; the service's log has the cause.") from None

    async def do(self, what: str) -> None:
        self._asked += 1
        await self.send(orjson.dumps({"do": what}) + b"\n")

    def forget(self) -> None:
        """Ignores the replies that are still outstanding."""
        self._owed = self._asked

    async def receive(self, kind: str) -> Any:
        """Returns the next message of this kind. Raises `AuditFailed`."""
        assert self._process.stdout is not None
        while True:
            line = await self._process.stdout.readline()
            if not line:
                raise AuditFailed("The audit's process ended; the service's log has the cause.")
            ((found, value),) = orjson.loads(line).items()
            if found == "failed":
                raise AuditFailed(value)
            if found == "progress":
                self._state.text, self._state.done, self._state.keys = value["text"], value["done"], value["keys"]
                continue
            if found != "result":
                self._asked -= 1
                if self._owed:
                    self._owed -= 1
                    continue
            if found == kind:
                return value

    async def end(self) -> None:
        """Ends the process by closing its standard input."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


__all__ = ["AuditFailed", "AuditOptions", "AuditState", "Audits"]
